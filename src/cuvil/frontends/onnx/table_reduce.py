"""Reductions, positions of extremes, running sums and the k largest."""

from __future__ import annotations

from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.run_time_axes import along, reduced
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F64
from cuvil.sym.expr import Dim, maximum

_AXES_INPUT_SINCE = {"ReduceSum": 13}


def _axes(n: Node) -> list[int]:
    """The axes, counted from the front; all where none are given, unless told to do nothing."""
    rank = n[0].type.rank
    if n.version >= _AXES_INPUT_SINCE.get(n.op, 18):
        given = n.has(1) and n[1].type.elements != 0
        axes = n.static(1, "the axes") if given else []
        if not axes and n.integer("noop_with_empty_axes", 0):
            return []
    else:
        axes = n.integers("axes", [])
    if not axes:
        return list(range(rank))
    return sorted({n.count(axis, rank) for axis in axes})


def _reduce(n: Node, name: str, x: Value) -> Value:
    keep = bool(n.integer("keepdims", 1))
    if _are_data(n):
        return reduced(n, x, keep, lambda v, a: n.e.op(name, v, axes=(a,), keepdims=True))
    axes = tuple(_axes(n))
    return n.e.op(name, x, axes=axes, keepdims=keep) if axes else x


def _are_data(n: Node) -> bool:
    """Whether the axes are found when the model runs."""
    as_input = n.version >= _AXES_INPUT_SINCE.get(n.op, 18) and n.has(1)
    return as_input and (
        not isinstance(n[1].type.elements, int) or None in n.some(1, "the axes")
    )


def _plain(name: str, of_bool: str = "") -> Handler:
    def handle(n: Node) -> Value:
        return _reduce(n, of_bool if of_bool and n.dtype() == BOOL else name, n[0])

    return handle


def _mean(n: Node) -> Value:
    x = n[0]
    if x.type.dtype.is_float:
        return _reduce(n, "reduce_mean", x)
    total = _reduce(n, "reduce_sum", x)
    e, left = n.e, maximum(total.type.elements, 1)
    count = e.map("div", e.dims([x.type.elements], scalar=True), e.dims([left], scalar=True))
    return e.map("div", total, e.cast(count, x.type.dtype))


def _l1(n: Node) -> Value:
    return _reduce(n, "reduce_sum", n.e.op("abs", n[0]))


def _sum_square(n: Node) -> Value:
    return _reduce(n, "reduce_sum", n.e.op("mul", n[0], n[0]))


def _l2(n: Node) -> Value:
    x = _real(n)
    return n.e.cast(n.e.op("sqrt", _reduce(n, "reduce_sum", n.e.op("mul", x, x))), n.dtype())


def _real(n: Node) -> Value:
    """The input as floats: integers in f64, whose results are truncated at the end."""
    return n[0] if n.dtype().is_float else n.e.cast(n[0], F64)


def _log_sum(n: Node) -> Value:
    return n.e.cast(n.e.op("log", _reduce(n, "reduce_sum", _real(n))), n.dtype())


def _log_sum_exp(n: Node) -> Value:
    x, e, keep = _real(n), n.e, bool(n.integer("keepdims", 1))
    if _are_data(n):
        out = reduced(n, x, keep, lambda v, a: _log_sum_exp_over(n, v, (a,)))
        return e.cast(out, n.dtype())
    axes = tuple(_axes(n))
    if not axes:
        return e.cast(e.op("log", e.op("exp", x)), n.dtype())
    out = e.cast(_log_sum_exp_over(n, x, axes), n.dtype())
    return out if keep else e.squeeze(out, axes)


def _log_sum_exp_over(n: Node, x: Value, axes: tuple[int, ...]) -> Value:
    """log(sum(exp(x - m))) + m with m the maximum, 0 in its place where it is infinite."""
    e = n.e
    top = e.op("reduce_max", x, axes=axes, keepdims=True)
    top = e.map("select", e.op("isinf", top), e.scalar(0, x.type.dtype), top)
    total = e.op("reduce_sum", e.op("exp", e.map("sub", x, top)), axes=axes, keepdims=True)
    return e.op("add", e.op("log", total), top)


def _arg(name: str) -> Handler:
    def handle(n: Node) -> Value:
        axis = n.axis("axis", 0, n[0].type.rank)
        last = bool(n.integer("select_last_index", 0)) or None
        return n.e.op(name, n[0], axis=axis, keepdims=bool(n.integer("keepdims", 1)), last=last)

    return handle


def _cumsum(n: Node) -> Value:
    ways = {name: bool(n.integer(name, 0)) or None for name in ("exclusive", "reverse")}
    x = n[0]
    return along(n, 1, x.type.rank, lambda axis: n.e.op("cumsum", x, axis=axis, **ways))


def _topk(n: Node) -> list[Value]:
    k: Dim = n.sizes(1, "the number of elements")[0] if n.version >= 10 else n.integer("k")
    return n.e.results(
        "topk", n[0], k=k, axis=n.axis("axis", -1, n[0].type.rank),
        largest=bool(n.integer("largest", 1)), sorted=bool(n.integer("sorted", 1)),
    )  # fmt: skip


TABLE: dict[str, Handler] = {
    "ReduceSum": _plain("reduce_sum"),
    "ReduceProd": _plain("reduce_prod"),
    "ReduceMax": _plain("reduce_max", "reduce_any"),
    "ReduceMin": _plain("reduce_min", "reduce_all"),
    "ReduceMean": _mean,
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _sum_square,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "CumSum": _cumsum,
    "TopK": _topk,
}
