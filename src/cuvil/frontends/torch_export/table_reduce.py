"""Reductions along axes, and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuvil.frontends.spread import spread_of
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.frontends.torch_export.table_slice import cut
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, add, maximum, product


def reduce(c: Call, name: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """One reduction; of a scalar, over nothing, the scalar itself."""
    if x.type.rank == 0:
        return x
    return c.e.op(name, x, axes=tuple(axes), keepdims=keep)


def _extremes(
    c: Call, names: Sequence[str], x: Value, axes: Sequence[int], keep: bool
) -> list[Value]:
    """Reductions to an extreme each, along axes of at least one element."""
    _need_elements(c, x, axes)
    return [reduce(c, f"reduce_{name}", x, axes, keep) for name in names]


def _need_elements(c: Call, x: Value, axes: Sequence[int]) -> None:
    for a in axes if x.type.rank else ():
        c.e.context.require(x.type.shape[a], ">=", 1, f"{c.name} of at least one element")


def _reduction(name: str) -> Rule:
    """Over ``dim`` (all axes without it), in the result's dtype."""

    def rule(c: Call) -> Value:
        keep = bool(c.get("keepdim", False))
        truth = {"reduce_sum": "reduce_any", "reduce_prod": "reduce_all"}
        chosen = truth.get(name, name) if c.dtype == BOOL else name
        return reduce(c, chosen, c.e.cast(c.first, c.dtype), c.axes("dim"), keep)

    return rule


def _extreme(name: str) -> Rule:
    """amax and amin; max and min over everything, of two tensors, or with indices along ``dim``."""

    def rule(c: Call) -> Value | list[Value]:
        if "other" in c.args:
            a, b = c.as_value(c["self"], c.dtype), c.as_value(c["other"], c.dtype)
            return c.e.map(name, a, b)
        keep = bool(c.get("keepdim", False))
        x = c.first
        if c.tuple_result:
            axis = c.axis("dim")
            if x.type.rank == 0:
                return [x, c.e.scalar(0, I64)]
            [value] = _extremes(c, [name], x, [axis], keep)
            return [value, c.e.op(f"arg{name}", _ordered(c, x), axis=axis, keepdims=keep)]
        return _extremes(c, [name], x, c.axes("dim"), keep)[0]

    return rule


def _ordered(c: Call, x: Value) -> Value:
    """Bools as integers, which argmax can compare."""
    return c.e.cast(x, I64) if x.type.dtype == BOOL else x


def _aminmax(c: Call) -> list[Value]:
    keep = bool(c.get("keepdim", False))
    return _extremes(c, ("min", "max"), c.first, c.axes("dim"), keep)


def _arg(name: str) -> Rule:
    def rule(c: Call) -> Value:
        x = _ordered(c, c.first)
        keep = bool(c.get("keepdim", False))
        if x.type.rank == 0:
            return c.e.scalar(0, I64)
        if c.args.get("dim") is not None:
            axis = c.axis("dim")
            _need_elements(c, x, [axis])
            return c.e.op(name, x, axis=axis, keepdims=keep)
        _need_elements(c, x, range(x.type.rank))
        flat = c.e.reshape(x, [x.type.elements])
        out = c.e.op(name, flat, axis=0, keepdims=False)
        return c.e.reshape(out, c.shape)

    return rule


def _truth(name: str) -> Rule:
    """any and all; torch gives u8 for u8."""

    def rule(c: Call) -> Value:
        keep = bool(c.get("keepdim", False))
        out = reduce(c, name, c.e.cast(c.first, BOOL), c.axes("dim"), keep)
        return c.e.cast(out, c.dtype)

    return rule


def count_of(c: Call, x: Value, axes: Sequence[int]) -> Dim:
    """The number of elements that a reduction joins."""
    return product([x.type.shape[a] for a in axes])


def _spread(c: Call) -> tuple[Value, Value]:
    """(variance, mean), both keeping the reduced axes: the mean of squared differences, corrected
    (torch divides by max(n - correction, 0))."""
    x, axes = c.first, c.axes("dim")
    correction = c.args.get("correction", 1)
    if "unbiased" in c.args:
        correction = 1 if c.get("unbiased", True) else 0
    correction = 1 if correction is None else correction
    if x.type.rank == 0:
        x, axes = c.e.reshape(x, (1,)), [0]
    e, dtype = c.e, x.type.dtype
    found = spread_of(e, x, axes)
    if correction == 0:
        return found.variance, found.mean
    count = count_of(c, x, axes)
    total = e.map("mul", found.variance, c.as_value(count, dtype))
    if isinstance(correction, float):
        correction = int(correction) if correction.is_integer() else correction
    if isinstance(correction, int):
        divisor = c.as_value(e.simplify(maximum(add(count, -correction), 0)), dtype)
    else:
        divisor = e.with_scalar("sub", c.as_value(count, dtype), correction)
        divisor = e.with_scalar("max", divisor, 0)
    return e.map("div", total, divisor), found.mean


def _variance(c: Call) -> Value:
    return c.e.reshape(_spread(c)[0], c.shape)


def _deviation(c: Call) -> Value:
    return c.e.reshape(c.e.op("sqrt", _spread(c)[0]), c.shape)


def _variance_mean(c: Call) -> list[Value]:
    variance, mean = _spread(c)
    if c.name == "std_mean":
        variance = c.e.op("sqrt", variance)
    return [c.e.reshape(variance, c.shape), c.e.reshape(mean, c.shape)]


def _norm(c: Call) -> Value:
    """Vector norms of any order: 0 counts, +-inf are extremes, else (sum |x|**p) ** (1 / p)."""
    order = c.get("ord", c.get("p", 2))
    keep = bool(c.get("keepdim", False))
    x = c.e.cast(c.first, c.dtype)
    axes = c.axes("dim")
    e = c.e
    size = e.op("abs", x)
    if math.isinf(order):
        return _extremes(c, ["max" if order > 0 else "min"], size, axes, keep)[0]
    if order == 0:
        count = e.cast(e.with_scalar("ne", x, 0), c.dtype)
        return reduce(c, "reduce_sum", count, axes, keep)
    if order == 1:
        return reduce(c, "reduce_sum", size, axes, keep)
    if order == 2:
        return e.op("sqrt", reduce(c, "reduce_sum", e.op("mul", x, x), axes, keep))
    total = reduce(c, "reduce_sum", e.with_scalar("pow", size, order), axes, keep)
    return e.with_scalar("pow", total, 1 / order)


def _logsumexp(c: Call) -> Value:
    """max + log(sum(exp(x - max))), with an infinite maximum left out of the difference."""
    e, axes = c.e, c.axes("dim")
    x = e.cast(c.first, c.dtype)
    if x.type.rank == 0:
        return x
    top = e.op("reduce_max", x, axes=tuple(axes), keepdims=True)
    safe = choose(c, e.op("isinf", top), e.scalar(0, c.dtype), top)
    total = e.op("reduce_sum", e.op("exp", e.map("sub", x, safe)), axes=tuple(axes), keepdims=True)
    return e.reshape(e.op("add", e.op("log", total), safe), c.shape)


def _softmax(name: str) -> Rule:
    def rule(c: Call) -> Value:
        x = c.e.cast(c.first, c.dtype)
        if x.type.rank == 0:
            one = c.e.unsqueeze(x, 0)
            return c.e.reshape(c.e.op(name, one, axis=0), ())
        return c.e.op(name, x, axis=c.axis("dim"))

    return rule


def _safe_softmax(c: Call) -> Value:
    """softmax in which a row of -inf gives zeros."""
    x, axis = c.e.cast(c.first, c.dtype), c.axis("dim")
    top = c.e.op("reduce_max", x, axes=(axis,), keepdims=True)
    hidden = c.e.with_scalar("eq", top, -math.inf)
    return choose(c, hidden, c.e.scalar(0, c.dtype), c.e.op("softmax", x, axis=axis))


def _cumsum(c: Call) -> Value:
    x = c.e.cast(c.first, c.dtype)
    return x if x.type.rank == 0 else c.e.op("cumsum", x, axis=c.axis("dim"))


def _count_nonzero(c: Call) -> Value:
    x = c.first
    flags = c.e.cast(x, BOOL)
    return reduce(c, "reduce_sum", c.e.cast(flags, I64), c.axes("dim"), False)


def _diff(c: Call) -> Value:
    """x[1:] - x[:-1], ``n`` times; bools differ by exclusive or."""
    x, axis = c.first, c.axis("dim")
    if c.get("n", 1) == 0:
        return x  # the edges are not joined then
    edges = [c.tensor_or_none(n) for n in ("prepend", "append")]
    parts = [v for v in (edges[0], x, edges[1]) if v is not None]
    if len(parts) > 1:
        x = c.e.op("concat", *parts, axis=axis)
    for _ in range(c.get("n", 1)):
        size = x.type.shape[axis]
        later = c.e.slice(x, axis, 1, size)
        earlier = cut(c, x, axis, 0, later.type.shape[axis])
        x = c.e.op("xor" if x.type.dtype == BOOL else "sub", later, earlier)
    return x


def _trace(c: Call) -> Value:
    x, e = c.first, c.e
    row, column = (e.op("iota", shape=x.type.shape, axis=i, dtype=I64) for i in (0, 1))
    kept = e.map("select", e.op("eq", row, column), e.cast(x, c.dtype), e.scalar(0, c.dtype))
    return e.op("reduce_sum", kept, axes=(0, 1), keepdims=False)


def _nan_sum(mean: bool) -> Rule:
    """nansum and nanmean: NaNs count as absent."""

    def rule(c: Call) -> Value:
        x, keep, axes = c.e.cast(c.first, c.dtype), bool(c.get("keepdim", False)), c.axes("dim")
        if not c.dtype.is_float:
            return reduce(c, "reduce_sum", x, axes, keep)
        absent = c.e.op("isnan", x)
        total = reduce(c, "reduce_sum", choose(c, absent, c.e.scalar(0, c.dtype), x), axes, keep)
        if not mean:
            return total
        count = c.e.cast(c.e.op("not", absent), c.dtype)
        return c.e.op("div", total, reduce(c, "reduce_sum", count, axes, keep))

    return rule


RULES: dict[str, Rule] = {
    "sum": _reduction("reduce_sum"), "mean": _reduction("reduce_mean"),
    "prod": _reduction("reduce_prod"),
    "nansum": _nan_sum(False), "nanmean": _nan_sum(True),
    "amax": _extreme("max"), "amin": _extreme("min"),
    "max": _extreme("max"), "min": _extreme("min"),
    "aminmax": _aminmax,
    "argmax": _arg("argmax"), "argmin": _arg("argmin"),
    "any": _truth("reduce_any"), "all": _truth("reduce_all"),
    "_is_any_true": _truth("reduce_any"), "_is_all_true": _truth("reduce_all"),
    "var": _variance, "std": _deviation, "var_mean": _variance_mean, "std_mean": _variance_mean,
    "norm": _norm, "linalg_vector_norm": _norm,
    "logsumexp": _logsumexp, "special_logsumexp": _logsumexp,
    "softmax": _softmax("softmax"), "_softmax": _softmax("softmax"),
    "special_softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"), "_log_softmax": _softmax("log_softmax"),
    "special_log_softmax": _softmax("log_softmax"),
    "_safe_softmax": _safe_softmax,
    "cumsum": _cumsum,
    "count_nonzero": _count_nonzero,
    "diff": _diff,
    "trace": _trace,
}  # fmt: skip
