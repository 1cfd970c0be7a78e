"""Pairs and counts: combinations, distances, covariance, histograms, searches, segments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, Expr, product


def _combinations(c: Call) -> Value:
    """All choices of r elements of a vector, in lexical order of their places."""
    x, r = c.first, int(c.get("r", 2))
    size = x.type.shape[0]
    if isinstance(size, Expr):
        raise Refused("combinations of a symbolic number of elements")
    make = (itertools.combinations_with_replacement if c.get("with_replacement", False)
            else itertools.combinations)  # fmt: skip
    places = np.array(list(make(range(size), r)), np.int64).reshape(-1, r)
    return c.e.op("gather", x, c.e.weight(places), axis=0) if r else c.e.reshape(x, (0,))


def _cartesian_prod(c: Call) -> Value:
    """Every choice of one element of each vector, the last running fastest."""
    tensors = [c.e.cast(t, c.dtype) for t in c["tensors"]]
    if len(tensors) == 1:
        return tensors[0]
    sizes = tuple(t.type.shape[0] for t in tensors)
    wide = []
    for axis, t in enumerate(tensors):
        shape: list[Dim] = [1] * len(tensors)
        shape[axis] = sizes[axis]
        column = c.e.broadcast(c.e.reshape(t, shape), sizes)
        wide.append(c.e.reshape(column, (c.shape[0], 1)))
    return c.e.op("concat", *wide, axis=1)


def _covariance(c: Call, x: Value) -> Value:
    """Rows are variables, columns observations; fweights repeat them, aweights weigh them
    (numpy.cov's formula). What is left of the count after the correction is at least 0."""
    e, dtype = c.e, c.dtype
    x = e.cast(e.reshape(x, (1, x.type.elements)) if x.type.rank < 2 else x, dtype)
    count = x.type.shape[1]
    correction = int(c.get("correction", 1)) if "correction" in c.args else 1
    given = [c.tensor_or_none(n) for n in ("fweights", "aweights")]
    repeats, weights = (None if v is None else e.cast(v, dtype) for v in given)
    both = [v for v in (repeats, weights) if v is not None]
    total = c.as_value(count, dtype)
    weight = None
    if both:
        weight = both[0] if len(both) == 1 else e.map("mul", *both)
        weight = e.broadcast(weight, (count,))
        total = e.op("reduce_sum", weight, axes=(0,), keepdims=False)
    gap = x
    for _ in range(2):  # a mean is rounded: the gaps to it have one of their own
        weighted = gap if weight is None else e.map("mul", gap, weight)
        whole = e.op("reduce_sum", weighted, axes=(1,), keepdims=True)
        gap = e.map("sub", gap, e.map("div", whole, total))
    left = total
    if correction and weights is not None and weight is not None:
        squares = e.op("reduce_sum", e.map("mul", weight, weights), axes=(0,), keepdims=False)
        lost = e.with_scalar("mul", e.op("div", squares, total), correction)
        left = e.map("sub", total, lost)
    elif correction:
        left = e.with_scalar("sub", total, correction)
    left = e.with_scalar("max", left, 0)
    scaled = gap if weight is None else e.map("mul", gap, weight)
    products = e.op("matmul", gap, scaled, trans_b=True)
    return e.map("div", products, left)


def _cov(c: Call) -> Value:
    return c.e.reshape(_covariance(c, c.first), c.shape)


def _corrcoef(c: Call) -> Value:
    """Covariances over the standard deviations, cut to [-1, 1]."""
    e = c.e
    full = _covariance(c, c.first)
    if c.metas[0].dim() == 0:
        return e.reshape(e.op("div", full, full), ())
    n = full.type.shape[0]
    line = e.op("iota", shape=(n, 1), axis=0, dtype=I64)
    spread = e.op("sqrt", e.op("gather_elements", full, line, axis=1))
    out = e.map("div", e.map("div", full, spread), e.transpose(spread, [1, 0]))
    return e.with_scalar("min", e.with_scalar("max", out, -1), 1)


def _nonzero_static(c: Call) -> Value:
    """The places of the first ``size`` elements that aren't zero; rows beyond them are filled."""
    e, x, size = c.e, c.first, c.number("size")
    fill = int(c.get("fill_value", -1))
    rank, count = x.type.rank, x.type.elements
    if rank == 0 or size == 0 or count == 0:
        return e.broadcast(e.scalar(fill, I64), c.shape)
    flags = e.cast(e.cast(e.reshape(x, [count]), BOOL), I64)
    row = e.with_scalar("sub", e.op("cumsum", flags, axis=0), 1)
    kept = e.op("and", e.cast(flags, BOOL), e.with_scalar("lt", row, size))
    row = choose(c, kept, row, e.scalar(size, I64))  # the last row takes what is left out
    columns = []
    start = e.broadcast(e.scalar(fill, I64), (size + 1,))
    for axis in range(rank):
        at = e.reshape(e.op("iota", shape=x.type.shape, axis=axis, dtype=I64), [count])
        column = e.op("scatter_elements", start, row, at, axis=0)
        columns.append(e.reshape(e.slice(column, 0, 0, size), (size, 1)))
    return columns[0] if rank == 1 else e.op("concat", *columns, axis=1)


def _visited(c: Call, size: Dim) -> Value:
    """Which places of a sorted line a search that only ever moves right looks at: those at
    floor((size + 1) / 2**k) from the end, k = 1, 2, ..., down to 1."""
    powers = np.arange(1, 63, dtype=np.int64)
    if isinstance(size, int):
        return c.e.weight(np.isin(size - np.arange(size), (size + 1) >> powers))
    count = c.e.dims([size], scalar=True)
    steps = c.e.map("shr", c.e.with_scalar("add", count, 1), c.e.weight(powers))
    left = c.e.map("sub", count, c.e.op("iota", shape=(size, 1), axis=0, dtype=I64))
    return c.e.op("reduce_any", c.e.map("eq", left, steps), axes=(1,), keepdims=False)


def _searchsorted(c: Call) -> Value:
    """How many elements of a sorted line stand before each value: in one line for all, or in the
    line of the same place.

    torch searches by halves and moves right unless ``edge >= value`` (``>`` on the right side).
    So a NaN moves right: the count is the size, unless a place visited on the way right holds an
    edge that stops it.
    """
    e = c.e
    name = "boundaries" if "boundaries" in c.args else "sorted_sequence"
    edges, sorter = c.tensor(name), c.tensor_or_none("sorter")
    given = e.constant(edges)
    if sorter is not None:
        edges = e.op("gather_elements", edges, sorter, axis=edges.type.rank - 1)
    dtype = c.promoted(name, "self")
    right = c.get("right", False) or c.get("side") == "right"
    value = e.unsqueeze(c.as_value(c.args["self"], dtype), -1)
    size = edges.type.shape[-1]
    no_nan = not edges.type.dtype.is_float or (given is not None and not np.isnan(given).any())
    edges = e.cast(edges, dtype)
    if edges.type.rank > 1:
        edges = e.unsqueeze(edges, -2)
    stops = e.map("gt" if right else "ge", edges, value)
    axes = (stops.type.rank - 1,)

    def count(flags: Value) -> Value:
        return e.op("reduce_sum", e.cast(flags, I64), axes=axes, keepdims=False)

    if no_nan:
        return e.cast(count(e.op("not", stops)), c.dtype)
    before = count(e.map("le" if right else "lt", edges, value))
    seen = e.map("and", stops, _visited(c, size))
    stopped = e.op("reduce_any", seen, axes=axes, keepdims=False)
    return e.cast(choose(c, stopped, before, e.dims([size], scalar=True)), c.dtype)


_SEGMENTS = {"sum": ("reduce_sum", 0.0), "mean": ("reduce_sum", 0.0), "prod": ("reduce_prod", 1.0),
             "max": ("reduce_max", -math.inf), "min": ("reduce_min", math.inf)}  # fmt: skip


def _segment_reduce(c: Call) -> Value:
    """A reduction of each run of an axis, by comparing each place with the ends of each run."""
    e, x = c.e, c.first
    lengths, offsets = c.tensor_or_none("lengths"), c.tensor_or_none("offsets")
    kind = str(c["reduce"])
    name, neutral = _SEGMENTS[kind]
    given = lengths if lengths is not None else offsets
    if given is None:
        raise Refused("segments by indices")
    axis = given.type.rank - 1
    if lengths is not None:
        stop = e.op("cumsum", lengths, axis=axis)
        start = e.op("sub", stop, lengths)
    else:
        start, stop = e.slice(given, axis, 0, -1), e.slice(given, axis, 1, given.type.shape[axis])
    rest = x.type.rank - axis - 1
    initial = c.get("initial")
    # [lead, runs, places, rest]
    lead, runs, places = x.type.shape[:axis], start.type.shape[axis], x.type.shape[axis]
    line = e.op("iota", shape=(places,), axis=0, dtype=start.type.dtype)
    inside = e.op("and", e.map("ge", line, e.unsqueeze(start, -1)),
                  e.map("lt", line, e.unsqueeze(stop, -1)))  # fmt: skip
    inside = e.reshape(inside, (*lead, runs, places, *(1,) * rest))
    values = e.unsqueeze(x, axis)
    kept = choose(c, inside, values, e.scalar(neutral, x.type.dtype))
    if places == 0:
        out = e.broadcast(e.scalar(neutral, x.type.dtype), c.shape)
    else:
        out = e.op(name, kept, axes=(axis + 1,), keepdims=False)
    count = e.cast(e.op("sub", stop, start), x.type.dtype)
    count = e.reshape(count, (*count.type.shape, *(1,) * rest))
    if initial is not None:
        joins = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}
        out = e.with_scalar(joins[kind], out, float(initial))
    if kind == "mean":
        empty = e.with_scalar("eq", count, 0)
        mean = e.map("div", out, count)
        if initial is None:
            return choose(c, empty, e.scalar(math.nan, x.type.dtype), mean)
        return choose(c, empty, out, mean)
    return out


def _line_of_edges(c: Call, low: Value, high: Value, bins: int) -> Value:
    """bins + 1 edges from both ends towards the middle, as torch.linspace has them."""
    e, dtype = c.e, low.type.dtype
    line = e.op("iota", shape=(bins + 1,), axis=0, dtype=dtype)
    step = Term(e, e.with_scalar("div", e.map("sub", high, low), float(bins)))
    at, first, last = Term(e, line), Term(e, low), Term(e, high)
    early = at < float((bins + 1) // 2)
    return early.where(first + step * at, last - step * (float(bins) - at)).value


def _histogram(c: Call) -> list[Value]:
    """Counts (or weights) between edges that are given, or of equal width over a range. The last
    bin has its upper end; what lies outside, NaN among it, isn't counted."""
    e = c.e
    x = e.reshape(c.first, [c.first.type.elements])
    bins = c["bins"]
    edges = bins if isinstance(bins, Value) else _equal_edges(c, x, int(bins), c.args.get("range"))
    count = _bins_of(edges)
    weight = c.tensor_or_none("weight")
    weights = None if weight is None else e.reshape(weight, x.type.shape)
    hist = _counted(c, x, edges, count, weights)
    if c.get("density", False):
        total = e.op("reduce_sum", hist, axes=(0,), keepdims=False)
        widths = e.op("sub", e.slice(edges, 0, 1, count + 1), e.slice(edges, 0, 0, count))
        hist = e.map("div", e.map("div", hist, total), widths)
    return [hist, edges]


def _in_many_dimensions(c: Call) -> list[Value] | Value:
    """histogramdd over [..., D]: the edges of each dimension, or the counts in all of them."""
    e = c.e
    x = c.first
    dims = x.type.shape[-1]
    bins = list(c["bins"])
    if not isinstance(dims, int):
        raise Refused("a histogram over a symbolic number of dimensions")
    rows = e.reshape(x, [product(x.type.shape[:-1]), dims])
    limits = c.args.get("range")
    columns = [e.reshape(e.slice(rows, 1, d, d + 1), (rows.type.shape[0],)) for d in range(dims)]
    edges = [
        b if isinstance(b, Value)
        else _equal_edges(c, v, int(b), None if limits is None else limits[2 * d : 2 * d + 2])
        for d, (b, v) in enumerate(zip(bins, columns, strict=True))
    ]  # fmt: skip
    if c.name == "_histogramdd_bin_edges":
        return edges
    counts = [_bins_of(edge) for edge in edges]
    flat: Value = e.scalar(0, I64)
    inside: Value = e.scalar(True, BOOL)
    for value, edge, count in zip(columns, edges, counts, strict=True):
        at, within = _bin(c, value, edge, count)
        flat = e.map("add", e.with_scalar("mul", flat, count), at)
        inside = e.map("and", inside, within)
    weight = c.tensor_or_none("weight")
    amount = e.cast(inside, c.dtype)
    if weight is not None:
        amount = choose(c, inside, e.reshape(weight, inside.type.shape), e.scalar(0, c.dtype))
    zeros = e.broadcast(e.scalar(0, c.dtype), (math.prod(counts),))
    hist = e.op("scatter_elements", zeros, flat, amount, axis=0, reduction="add")
    if c.get("density", False):
        hist = e.map("div", hist, e.op("reduce_sum", hist, axes=(0,), keepdims=False))
    hist = e.reshape(hist, counts)
    for axis, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        if c.get("density", False):
            widths = e.op("sub", e.slice(edge, 0, 1, count + 1), e.slice(edge, 0, 0, count))
            column = [count if i == axis else 1 for i in range(dims)]
            hist = e.map("div", hist, e.reshape(widths, column))
    return hist


def _bins_of(edges: Value) -> int:
    count = edges.type.shape[0]
    if not isinstance(count, int):
        raise Refused("a histogram over a symbolic number of edges")
    return count - 1


def _equal_edges(c: Call, x: Value, count: int, limits: Sequence[float] | None) -> Value:
    """Edges of equal width over a range, or over that of the data."""
    e, dtype = c.e, x.type.dtype
    if limits is not None:
        low, high = (e.scalar(float(v), dtype) for v in limits)
    elif x.type.elements == 0:
        low, high = e.scalar(0.0, dtype), e.scalar(1.0, dtype)
    else:
        low, high = (e.op(f"reduce_{n}", x, axes=(0,), keepdims=False) for n in ("min", "max"))
    same = e.op("eq", low, high)
    low = choose(c, same, e.with_scalar("sub", low, 0.5), low)
    high = choose(c, same, e.with_scalar("add", high, 0.5), high)
    return _line_of_edges(c, low, high, count)


def _bin(c: Call, x: Value, edges: Value, count: int) -> tuple[Value, Value]:
    """(the bin of each value, whether it lies in any)"""
    e = c.e
    low, high = (e.reshape(e.slice(edges, 0, i, i + 1), ()) for i in (0, count))
    passed = e.cast(e.map("le", edges, e.unsqueeze(x, -1)), I64)
    at = e.with_scalar("sub", e.op("reduce_sum", passed, axes=(1,), keepdims=False), 1)
    at = e.with_scalar("max", e.with_scalar("min", at, count - 1), 0)
    return at, e.map("and", e.map("ge", x, low), e.map("le", x, high))


def _counted(c: Call, x: Value, edges: Value, count: int, weights: Value | None) -> Value:
    """The sums of the weights (1 without) of the values in each bin."""
    e = c.e
    at, inside = _bin(c, x, edges, count)
    value = e.cast(inside, edges.type.dtype)
    if weights is not None:
        value = choose(c, inside, weights, e.scalar(0, weights.type.dtype))
    zeros = e.broadcast(e.scalar(0, edges.type.dtype), (count,))
    return e.op("scatter_elements", zeros, at, value, axis=0, reduction="add")


RULES: dict[str, Rule] = {
    "combinations": _combinations, "cartesian_prod": _cartesian_prod,
    "cov": _cov, "corrcoef": _corrcoef,
    "nonzero_static": _nonzero_static,
    "searchsorted": _searchsorted, "bucketize": _searchsorted,
    "segment_reduce": _segment_reduce,
    "histogram": _histogram, "_histogramdd_bin_edges": _in_many_dimensions,
    "_histogramdd_from_bin_cts": _in_many_dimensions,
    "_histogramdd_from_bin_tensors": _in_many_dimensions,
}  # fmt: skip
