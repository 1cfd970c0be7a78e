"""Views by strides: gathers of a tensor's elements in the order of its memory."""

from __future__ import annotations

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, add, mul


def _memory_order(c: Call) -> list[int]:
    """The dimensions of a tensor that fills its storage, outermost in memory first."""
    x, base = c.first, c.arg_metas[next(iter(c.args))]
    filled = base.untyped_storage().nbytes() == base.numel() * base.element_size()
    if not filled or base.storage_offset() != 0:
        raise Refused("as_strided of a view reads memory outside of it")
    strides = [c.symbols.dim(s) for s in base.stride()]
    order = sorted(range(x.type.rank), key=lambda i: -(c.e.traced_size(strides[i]) or 0))
    dense: Dim = 1
    for i in reversed(order):
        if x.type.shape[i] != 1 and strides[i] != dense:
            raise Refused("as_strided of a view reads memory outside of it")
        dense = mul(dense, x.type.shape[i])
    return order


def _is_contiguous(c: Call) -> bool:
    """Whether the tensor is its whole storage, in its own order."""
    base = c.arg_metas[next(iter(c.args))]
    filled = base.untyped_storage().nbytes() == base.numel() * base.element_size()
    return bool(filled and base.is_contiguous() and base.storage_offset() == 0)


def _places(c: Call, x: Value) -> Value | None:
    """The index into the elements of x, which lie in memory in its own order, that each element of
    a strided view has; None where the view is the whole in that order."""
    shape, strides = c.metas[0].shape, c.dims("stride")
    if c.name == "as_strided_scatter":
        shape = c.dims("size")
    sizes = [c.symbols.dim(d) if not isinstance(d, int) else d for d in shape]
    start = c.get("storage_offset", 0)
    dense: Dim = 1
    in_order = start == 0
    for d, s in zip(reversed(sizes), reversed(strides), strict=True):
        in_order = in_order and (s == dense or d == 1)
        dense = mul(dense, d)
    if in_order and dense == x.type.elements:
        return None
    last: Dim = add(start, 1)
    at = c.as_value(start, I64)
    for axis, (d, s) in enumerate(zip(sizes, strides, strict=True)):
        last = add(last, mul(add(d, -1), s))
        line = c.e.op("iota", shape=(d,), axis=0, dtype=I64)
        line = c.e.map("mul", line, c.as_value(s, I64))
        line = c.e.reshape(line, [d if i == axis else 1 for i in range(len(sizes))])
        at = c.e.map("add", at, line)
    if 0 not in sizes:
        c.e.context.require(last, "<=", x.type.elements, "as_strided stays inside its tensor")
    return c.e.broadcast(at, tuple(sizes))


def _as_strided(c: Call) -> Value:
    x = c.first
    if not _is_contiguous(c):
        x = c.e.transpose(x, _memory_order(c))
    at = _places(c, x)
    if at is None:
        return c.e.reshape(x, c.shape)
    return c.e.op("gather", c.e.reshape(x, [x.type.elements]), at, axis=0, from_end=False)


def _as_strided_scatter(c: Call) -> Value:
    x = c.first
    if not _is_contiguous(c):
        raise Refused("as_strided_scatter into a view")
    at = _places(c, x)
    source = c.as_value(c["src"], x.type.dtype)
    if at is None:
        return c.e.reshape(source, x.type.shape)
    source = c.e.broadcast(source, at.type.shape)
    count = at.type.elements
    flat = c.e.op(
        "scatter_elements", c.e.reshape(x, [x.type.elements]), c.e.reshape(at, [count]),
        c.e.reshape(source, [count]), axis=0,
    )  # fmt: skip
    return c.e.reshape(flat, x.type.shape)


RULES: dict[str, Rule] = {
    "as_strided": _as_strided, "as_strided_copy": _as_strided,
    "as_strided_scatter": _as_strided_scatter,
}  # fmt: skip
