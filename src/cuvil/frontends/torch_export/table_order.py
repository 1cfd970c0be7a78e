"""Running products and extremes, and what is read off a sorted line: medians, modes, quantiles."""

from __future__ import annotations

import math

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I64
from cuvil.sym.expr import Dim, add


def _running(name: str) -> Rule:
    """cumprod and logcumsumexp, in the result's dtype."""

    def rule(c: Call) -> Value:
        x = c.e.cast(c.first, c.dtype)
        return x if x.type.rank == 0 else c.e.op(name, x, axis=c.axis("dim"))

    return rule


def _running_extreme(name: str) -> Rule:
    def rule(c: Call) -> list[Value]:
        if c.first.type.rank == 0:
            return [c.first, c.e.scalar(0, I64)]
        return c.e.results(name, c.first, axis=c.axis("dim"))

    return rule


def lines(c: Call, x: Value) -> tuple[Value, int]:
    """(values, axis) of what ``dim`` names; all elements as one line without it or in rank 0."""
    if c.args.get("dim") is None or x.type.rank == 0:
        return c.e.reshape(x, [x.type.elements]), 0
    return x, c.axis("dim")


def ascending(c: Call, x: Value, axis: int) -> list[Value]:
    """(values, positions) in order, NaN last, equal ones in their own order."""
    size = x.type.shape[axis]
    return c.e.results("topk", x, k=size, axis=axis, largest=False, sorted=True)


def _sum(c: Call, x: Value, axis: int) -> Value:
    return c.e.op("reduce_sum", c.e.cast(x, I64), axes=(axis,), keepdims=True)


def _median(ignore_nan: bool) -> Rule:
    """The lower of the two in the middle. A NaN is the median, unless NaNs are left out."""

    def rule(c: Call) -> Value | list[Value]:
        e = c.e
        x, axis = lines(c, c.first)
        size = x.type.shape[axis]
        if size == 0:
            if x.type.dtype.is_float and not c.tuple_result:
                return e.scalar(math.nan, x.type.dtype)
            raise Refused("the median of nothing")
        values, places = ascending(c, x, axis)
        kept = tuple(1 if i == axis else d for i, d in enumerate(x.type.shape))
        count = e.broadcast(c.as_value(size, I64), kept)
        at = e.with_scalar("floordiv", e.with_scalar("sub", count, 1), 2)
        if x.type.dtype.is_float:
            numbers = e.map("sub", count, _sum(c, e.op("isnan", x), axis))
            if ignore_nan:
                at = e.with_scalar("floordiv", e.with_scalar("sub", numbers, 1), 2)
                at = e.with_scalar("max", at, 0)
            else:
                at = e.op("select", e.op("lt", numbers, count), numbers, at)
        found = [e.op("gather_elements", v, at, axis=axis) for v in (values, places)]
        if not c.tuple_result:
            return e.reshape(found[0], ())
        return [e.reshape(v, c.shape) for v in found]

    return rule


def _mode(c: Call) -> list[Value]:
    """The least of the most frequent values, and the place of its last occurrence: the first of
    the longest runs of the sorted line."""
    e = c.e
    x, axis = lines(c, c.first)
    values, places = ascending(c, x, axis)
    size = values.type.shape[axis]
    before = e.op("concat", e.slice(values, axis, 0, 1), e.slice(values, axis, 0, -1), axis=axis)
    line = e.op("iota", shape=values.type.shape, axis=axis, dtype=I64)
    starts = choose(c, e.op("ne", values, before), line, e.scalar(0, I64))
    start = e.results("cummax", starts, axis=axis)[0]
    at = e.op("argmax", e.op("sub", line, start), axis=axis, keepdims=True)
    if size == 0:
        raise Refused("the mode of nothing")
    found = [e.op("gather_elements", v, at, axis=axis) for v in (values, places)]
    return [e.reshape(v, c.shape) for v in found]


def _kth(c: Call) -> list[Value]:
    """The k-th smallest (k from 1) and its place."""
    e, k = c.e, c["k"]
    if isinstance(k, Value):
        raise Refused("k depends on data")
    x, axis = lines(c, c.first)
    parts = e.results("topk", x, k=k, axis=axis, largest=False, sorted=True)
    last: Dim = add(k, -1)
    return [e.reshape(e.slice(v, axis, last, k), c.shape) for v in parts]


def _msort(c: Call) -> Value:
    return c.first if c.first.type.rank == 0 else ascending(c, c.first, 0)[0]


_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "round"}


def _quantile(ignore_nan: bool) -> Rule:
    """The value at q * (n - 1) of the sorted line, between two by ``interpolation``. A line with a
    NaN has no quantile, unless NaNs are left out."""

    def rule(c: Call) -> Value:
        e, dtype = c.e, c.dtype
        x, axis = lines(c, e.cast(c.first, dtype))
        if x.type.rank > 1:
            x = e.transpose(x, [*(i for i in range(x.type.rank) if i != axis), axis])
        q = c.as_value(c["q"], F64)
        count = q.type.elements
        values = ascending(c, x, x.type.rank - 1)[0]
        last = x.type.rank - 1
        lost = e.op("isnan", x)
        total = c.as_value(x.type.shape[last], I64)
        numbers = e.map("sub", total, _sum(c, lost, last))
        if not ignore_nan:
            numbers = e.broadcast(total, numbers.type.shape)
        numbers = e.map("max", numbers, e.scalar(1, I64))
        rank = e.map("mul", e.cast(e.with_scalar("sub", numbers, 1), F64), e.reshape(q, (count,)))
        kind = c.get("interpolation", "linear")
        rank = e.op(_ROUNDED[kind], rank) if kind in _ROUNDED else rank
        low, high = e.op("floor", rank), e.op("ceil", rank)
        below, above = (
            e.op("gather_elements", values, e.cast(v, I64), axis=last) for v in (low, high)
        )
        weight = e.op("sub", rank, low)
        if kind == "midpoint":
            weight = choose(c, e.op("ne", low, high), e.scalar(0.5, F64), weight)
        if kind in _ROUNDED:  # an infinity stays one
            out = below
        else:
            out = _between(c, below, above, e.cast(weight, dtype))
        if not ignore_nan:
            has_lost = e.op("reduce_any", lost, axes=(last,), keepdims=True)
            out = choose(c, has_lost, e.scalar(math.nan, dtype), out)
        out = e.transpose(out, [last, *range(last)])
        return e.reshape(out, c.shape)

    return rule


def _between(c: Call, low: Value, high: Value, weight: Value) -> Value:
    """torch.lerp's formula, from the nearer end. Two equal infinities have NaN between them."""
    e = c.e
    gap = e.map("sub", high, low)
    from_low = e.map("add", low, e.map("mul", weight, gap))
    from_high = e.map("add", high, e.map("mul", gap, e.with_scalar("sub", weight, 1)))
    return choose(c, e.with_scalar("lt", weight, 0.5), from_low, from_high)


RULES: dict[str, Rule] = {
    "cumprod": _running("cumprod"), "logcumsumexp": _running("logcumsumexp"),
    "_logcumsumexp": _running("logcumsumexp"),
    "cummax": _running_extreme("cummax"), "cummin": _running_extreme("cummin"),
    "median": _median(False), "nanmedian": _median(True),
    "mode": _mode, "kthvalue": _kth, "msort": _msort,
    "quantile": _quantile(False), "nanquantile": _quantile(True),
}  # fmt: skip
