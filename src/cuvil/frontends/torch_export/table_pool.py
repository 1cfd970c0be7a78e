"""Pooling over windows and to given sizes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.pool_cells import by_late_cells, late_places_of_largest
from cuvil.frontends.torch_export.pool_windows import places_of_largest, sums
from cuvil.frontends.torch_export.table_contraction import per_axis
from cuvil.frontends.torch_export.table_slice import cut
from cuvil.ir.core import Value
from cuvil.sym.expr import Dim, add, ceildiv, floordiv, maximum, mul

Pool = Callable[[Value], Value]


def batched(c: Call, spatial: int, pools: list[Pool]) -> list[Value]:
    """Run pools over [N, C, *spatial], adding the batch dimension where it is missing."""
    x = c.first
    single = x.type.rank == spatial + 1
    if single:
        x = c.e.unsqueeze(x, 0)
    out = [pool(x) for pool in pools]
    return [c.e.squeeze(v, [0]) for v in out] if single else out


def _windows(c: Call, spatial: int) -> dict[str, Any]:
    kernel = per_axis(c.ints("kernel_size"), spatial)
    stride = c.ints("stride") if c.get("stride") else []
    pads = per_axis(c.ints("padding"), spatial)
    clipped = kernel
    if c.get("ceil_mode", False) and set(c.ints("dilation") if "dilation" in c.args else [1]) == {
        1
    }:
        clipped = _clipped(c, kernel, pads)
    return {
        "kernel": clipped,
        "strides": per_axis(stride, spatial) if stride else kernel,
        "pads_lo": pads,
        "pads_hi": pads,
        "dilations": per_axis(c.ints("dilation"), spatial) if "dilation" in c.args
        else (1,) * spatial,
        "ceil_mode": bool(c.get("ceil_mode", False)) or None,
    }  # fmt: skip


def _clipped(c: Call, kernel: tuple[int, ...], pads: tuple[int, ...]) -> tuple[int, ...]:
    """In ceil mode a window may be larger than the padded input; its rest doesn't count."""
    sizes = c.first.type.shape[c.first.type.rank - len(kernel) :]
    return tuple(
        min(k, d + 2 * p) if isinstance(d, int) and d > 0 else k
        for k, d, p in zip(kernel, sizes, pads, strict=True)
    )


def _pool(c: Call, name: str, attrs: dict[str, Any]) -> Pool:
    return lambda x: c.e.op(name, x, **attrs)


def _max_pool(spatial: int) -> Rule:
    def rule(c: Call) -> Value | list[Value]:
        attrs = _windows(c, spatial)
        names = ["max_pool", "max_pool_indices"] if c.tuple_result else ["max_pool"]
        pools = [_pool(c, name, attrs) for name in names]
        out = batched(c, spatial, pools)
        return out if c.tuple_result else out[0]

    return rule


def _avg_pool(spatial: int) -> Rule:
    def rule(c: Call) -> Value:
        attrs = _windows(c, spatial)
        divisor = c.args.get("divisor_override")
        include = True if divisor is not None else bool(c.get("count_include_pad", True))
        if not c.first.type.dtype.is_float or (divisor is not None and attrs["ceil_mode"]):
            attrs["kernel"] = per_axis(c.ints("kernel_size"), spatial)
            sizes = c.shape[len(c.shape) - spatial :]
            known = all(isinstance(d, int) for d in (*sizes, *c.first.type.shape[-spatial:]))
            if divisor is not None and not known and c.first.type.dtype.is_float:
                return batched(c, spatial, [lambda x: _padded(c, x, sizes, attrs, divisor)])[0]
            return batched(c, spatial, [lambda x: sums(c, x, sizes, attrs, include, divisor)])[0]
        (out,) = batched(
            c, spatial, [lambda x: c.e.op("avg_pool", x, count_include_pad=include, **attrs)]
        )
        if divisor is None:
            return out
        return c.e.with_scalar("mul", out, prod(attrs["kernel"]) / divisor)

    return rule


def _padded(
    c: Call, x: Value, sizes: tuple[Dim, ...], attrs: dict[str, Any], divisor: int
) -> Value:
    """Sums of windows by a divisor: averages of what is padded as far as the last windows reach,
    so that all of them are whole."""
    count, rank = len(sizes), x.type.rank
    lo: list[Dim] = [0] * rank
    hi: list[Dim] = [0] * rank
    for i, out in enumerate(sizes):
        axis = rank - count + i
        kernel, step, pad = (attrs[k][i] for k in ("kernel", "strides", "pads_lo"))
        end = add(mul(add(out, -1), step), kernel - pad)
        lo[axis] = pad
        hi[axis] = c.e.simplify(maximum(add(end, mul(x.type.shape[axis], -1)), 0))
    padded = c.e.op("pad", x, lo=tuple(lo), hi=tuple(hi))
    whole = {**attrs, "pads_lo": (0,) * count, "pads_hi": (0,) * count, "ceil_mode": None}
    pooled = c.e.op("avg_pool", padded, count_include_pad=True, **whole)
    pooled = _cut_to(c, pooled, sizes)
    return c.e.with_scalar("mul", pooled, prod(attrs["kernel"]) / divisor)


def _cut_to(c: Call, x: Value, sizes: tuple[Dim, ...]) -> Value:
    """The first entries along the trailing axes, which may have more."""
    for i, size in enumerate(sizes):
        axis = x.type.rank - len(sizes) + i
        if c.e.simplify(add(x.type.shape[axis], mul(size, -1))) != 0:
            x = cut(c, x, axis, 0, size)
    return x


def _adaptive(spatial: int, reduction: str) -> Rule:
    """Cell i covers floor(i * in / out) to ceil((i + 1) * in / out), axis by axis."""

    def rule(c: Call) -> Value | list[Value | None]:
        sizes = c.shape[len(c.shape) - spatial :]
        (out,) = batched(c, spatial, [lambda x: to_sizes(c, x, sizes, reduction)])
        if not c.tuple_result:
            return out
        known = all(isinstance(d, int) for d in (*c.first.type.shape[-spatial:], *sizes))
        places = places_of_largest if known else late_places_of_largest
        return [out, *batched(c, spatial, [lambda x: places(c, x, sizes)])]

    return rule


def _adaptive_any(reduction: str) -> Rule:
    return lambda c: _adaptive(len(c.dims("sizes")), reduction)(c)


def to_sizes(c: Call, x: Value, sizes: tuple[Dim, ...], reduction: str) -> Value:
    """Reduce the trailing axes of x to these sizes."""
    first = x.type.rank - len(sizes)
    whole = tuple(first + i for i, out in enumerate(sizes) if out == 1)
    if whole:
        x = c.e.op(reduction, x, axes=whole, keepdims=True)
    if reduction == "reduce_mean" and (pooled := _by_windows(c, x, sizes)) is not None:
        return pooled
    for i, out in enumerate(sizes):
        if out not in (1, x.type.shape[first + i]):
            x = _by_cells(c, x, first + i, out, reduction)
    return x


def _by_windows(c: Call, x: Value, sizes: tuple[Dim, ...]) -> Value | None:
    """One avg_pool where every size is known and divides its axis."""
    have = x.type.shape[x.type.rank - len(sizes) :]
    known = [(d, s) for d, s in zip(have, sizes, strict=True)
             if isinstance(d, int) and isinstance(s, int) and s > 0 and d % s == 0]  # fmt: skip
    if len(known) != len(sizes):
        return None
    kernel = tuple(d // s for d, s in known)
    if prod(kernel) == 1:
        return x
    zeros, ones = (0,) * len(sizes), (1,) * len(sizes)
    return c.e.op(
        "avg_pool", x, kernel=kernel, strides=kernel, pads_lo=zeros, pads_hi=zeros,
        dilations=ones, count_include_pad=False,
    )  # fmt: skip


def _by_cells(c: Call, x: Value, axis: int, out: Dim, reduction: str) -> Value:
    size = x.type.shape[axis]
    if not isinstance(out, int):
        return by_late_cells(c, x, axis, out, reduction)
    cells = []
    for i in range(out):
        start = floordiv(mul(size, i), out)
        stop = ceildiv(mul(size, i + 1), out)
        piece = cut(c, x, axis, start, add(stop, mul(start, -1)))
        cells.append(c.e.op(reduction, piece, axes=(axis,), keepdims=True))
    return c.e.op("concat", *cells, axis=axis)


RULES: dict[str, Rule] = {
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive(n, "reduce_mean") for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": _adaptive(n, "reduce_mean") for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive(n, "reduce_max") for n in (1, 2, 3)},
    "adaptive_mean": _adaptive_any("reduce_mean"), "adaptive_largest": _adaptive_any("reduce_max"),
}  # fmt: skip
