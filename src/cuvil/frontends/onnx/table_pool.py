"""Pooling: over windows, and over all of each channel."""

from __future__ import annotations

import math

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.windows import Windows, windows
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, mul, product


def _ceil(n: Node) -> bool | None:
    return bool(n.integer("ceil_mode", 0)) or None


def max_pool(n: Node) -> list[Value]:
    """MaxPool-12: the maxima, and their places where they are used."""
    window = windows(n, n.integers("kernel_shape"))
    kind = n.dtype()
    fill = (
        -math.inf if kind.is_float else -float(1 << (8 * kind.size - 1)) if kind.kind == "i" else 0
    )
    x = window.pad(n, n[0], fill)
    attrs = {"kernel": window.kernel, "ceil_mode": _ceil(n), **window.attrs()}
    out = [n.e.op("max_pool", x, **attrs)]
    if n.wants(1):
        if not window.is_static:
            raise Refused("indices with padding by symbolic sizes", "give the input sizes")
        out.append(_flat_indices(n, n.e.op("max_pool_indices", x, **attrs)))
    return out


def _flat_indices(n: Node, index: Value) -> Value:
    """From the place in a plane to the place in the whole tensor; storage_order 1 counts the
    first spatial dim fastest (MaxPool-8)."""
    e, spatial = n.e, n[0].type.shape[2:]
    planes = index.type.shape[:2]
    if n.integer("storage_order", 0):
        index = _column_major(n, index, spatial)
    plane = e.op("iota", shape=(product(planes),), axis=0, dtype=I64)
    base = e.map("mul", plane, e.dims([product(spatial)], scalar=True))
    return e.map("add", index, e.reshape(base, (*planes, *[1] * len(spatial))))


def _column_major(n: Node, index: Value, spatial: tuple[Dim, ...]) -> Value:
    e = n.e
    strides: list[Dim] = [1]
    for d in spatial[:-1]:
        strides.append(mul(strides[-1], d))
    total = e.scalar(0, I64)
    for d, stride in zip(reversed(spatial), reversed(strides), strict=True):
        size = e.dims([d], scalar=True)
        place = e.map("mul", e.map("mod", index, size), e.dims([stride], scalar=True))
        total = e.map("add", total, place)
        index = e.map("div", index, size)
    return total


def average(n: Node, x: Value, window: Windows, count_pads: bool, ceil: bool | None) -> Value:
    """Average pooling; with symbolic padding that doesn't count, a quotient of two averages."""
    attrs = {"kernel": window.kernel, "ceil_mode": ceil, **window.attrs()}
    if window.is_static or count_pads:
        return n.e.op("avg_pool", window.pad(n, x), count_include_pad=count_pads, **attrs)
    ones = n.e.broadcast(n.e.scalar(1, x.type.dtype), x.type.shape)
    total, weight = (
        n.e.op("avg_pool", window.pad(n, v), count_include_pad=True, **attrs) for v in (x, ones)
    )
    return n.e.op("div", total, weight)


def _average_pool(n: Node) -> Value:
    window = windows(n, n.integers("kernel_shape"))
    return average(n, n[0], window, bool(n.integer("count_include_pad", 0)), _ceil(n))


def _lp_pool(n: Node) -> Value:
    """(sum of |x|^p over the window)^(1/p) (LpPool-18)."""
    if _ceil(n):
        raise Refused("ceil_mode", "pad the input instead")
    p = n.integer("p", 2) if n.version >= 2 else int(n.number("p", 2.0))
    window = windows(n, n.integers("kernel_shape"))
    mean = average(n, _power(n, p), window, True, None)
    return _root(n, n.e.with_scalar("mul", mean, math.prod(window.kernel)), p)


def _power(n: Node, p: int) -> Value:
    x = n.e.op("abs", n[0])
    return x if p == 1 else n.e.with_scalar("pow", x, p)


def _root(n: Node, total: Value, p: int) -> Value:
    if p == 1:
        return total
    return n.e.op("sqrt", total) if p == 2 else n.e.with_scalar("pow", total, 1 / p)


def _spatial(n: Node) -> tuple[int, ...]:
    if n[0].type.rank < 3:
        raise InvalidModelError(f"{n.op} needs [N, C, *spatial], got {n[0].type}")
    return tuple(range(2, n[0].type.rank))


def _global(name: str) -> Handler:
    return lambda n: n.e.op(name, n[0], axes=_spatial(n), keepdims=True)


def _global_lp(n: Node) -> Value:
    p = n.integer("p", 2) if n.version >= 2 else int(n.number("p", 2.0))
    return _root(n, n.e.op("reduce_sum", _power(n, p), axes=_spatial(n), keepdims=True), p)


TABLE: dict[str, Handler] = {
    "MaxPool": max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("reduce_mean"),
    "GlobalMaxPool": _global("reduce_max"),
    "GlobalLpPool": _global_lp,
}
