"""torch.cond, while_loop, scan, map and associative_scan: operators that hold graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import sympy
import torch
from torch.fx import GraphModule, Node

from cuvil.frontends.branches import filled, joined, stacked
from cuvil.frontends.torch_export.call import Refused
from cuvil.frontends.torch_export.emit import TorchEmitter
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.sym.expr import Dim, add, maximum

_ENDLESS = (1 << 63) - 1
_RELATIONS = {"==": "eq", "!=": "ne", "<=": "le", "<": "lt", ">=": "ge", ">": "gt"}


class Graphs(Protocol):
    """What these rules need of the converter."""

    e: TorchEmitter
    symbols: TorchSymbols

    def value(self, item: Any) -> Any:
        """What stands for an argument of a node."""
        ...

    def inline(self, module: GraphModule, values: Sequence[Any]) -> list[Any]:
        """The results of a graph, translated where the emitter stands."""
        ...


HigherOrder = Callable[[Graphs, Node], list[Value]]


def _cond(c: Graphs, node: Node) -> list[Value]:
    """cond(pred, true_graph, false_graph, operands)"""
    pred, yes, no, *rest = node.args
    operands = _tensors(c.value(rest[0]) if rest else [])
    graphs = [c.value(yes), c.value(no)]
    condition = _condition(c, pred)
    if isinstance(condition, bool):
        return _tensors(c.inline(graphs[0 if condition else 1], operands))
    bodies = [functools.partial(_inlined, c, graph, operands) for graph in graphs]
    made = [filled(c.e, body) for body in bodies]
    for i, (a, b) in enumerate(zip(made[0][1], made[1][1], strict=True)):
        if a.type.dtype != b.type.dtype or a.type.rank != b.type.rank:
            raise Refused(f"result {i} is {a.type} in one branch and {b.type} in the other")
    return joined(c.e, condition, bodies, made)


def _inlined(c: Graphs, graph: GraphModule, operands: Sequence[Value]) -> list[Value]:
    with c.symbols.scope():
        return _tensors(c.inline(graph, operands))


def _condition(c: Graphs, pred: Any) -> Value | bool:
    """A tensor of one bool, or what is known when compiling."""
    known = c.value(pred)
    if isinstance(known, Value):
        return c.e.reshape(c.e.cast(known, BOOL), ())
    if isinstance(known, (bool, int)):
        return bool(known)
    meta = pred.meta.get("val") if isinstance(pred, Node) else pred
    if not isinstance(meta, torch.SymBool):
        raise Refused("its condition is no tensor and no comparison of sizes")
    return _comparison(c, meta.node.expr)


def _comparison(c: Graphs, expression: Any) -> Value | bool:
    """A relation between sizes as a tensor of one bool."""
    if expression in (True, False, sympy.true, sympy.false):
        return bool(expression)
    if not isinstance(expression, sympy.core.relational.Relational):
        raise Refused(f"its condition {expression} is more than one comparison of sizes")
    try:
        (rule,) = c.symbols.constraints(expression, "")
    except Untranslatable as error:
        raise Refused(f"its condition can't be followed: {error}") from None
    sides = [c.e.dims([side], scalar=True) for side in (rule.left, rule.right)]
    return c.e.op(_RELATIONS[rule.relation], *sides)


def _while_loop(c: Graphs, node: Node) -> list[Value]:
    """while_loop(cond_graph, body_graph, carried, others)"""
    cond, body = c.value(node.args[0]), c.value(node.args[1])
    inits = _tensors(c.value(node.args[2]))
    others = _tensors(c.value(node.args[3]) if len(node.args) > 3 else [])
    start = _flag(c, cond, [*inits, *others])
    with c.e.region([STEP, *(v.type for v in inits)]) as region:
        args = region.own[1:]
        values = _carried(c, inits, _inlined(c, body, [*args, *others]))
        c.e.close([_flag(c, cond, [*values, *others]), *values])
    lead = [c.e.scalar(_ENDLESS, I64), start]
    return c.e.loop(WHILE, lead, inits, region, [v.type for v in inits])


def _while_loop_stacked(c: Graphs, node: Node) -> list[Value]:
    """while_loop_stack_output(cond_graph, body_graph, carried, others): what each trip gives. The
    trips are counted by the loop itself before it runs; of no trip, the initial values remain."""
    body = c.value(node.args[1])
    inits, others = _tensors(c.value(node.args[2])), _tensors(c.value(node.args[3]))
    trips = c.e.bind(_count(c, node), ["trips"], "the number of a loop's trips")[0]
    with c.e.region([STEP, *(v.type for v in inits)]) as region:
        values = _carried(c, inits, _inlined(c, body, [*region.own[1:], *others]))
        c.e.close([*values, *values])
    types = [v.type for v in inits]
    stacks = [t.with_shape((trips, *t.shape)) for t in types]
    found = c.e.loop(FOR, [], inits, region, [*types, *stacks], trips=trips)[len(inits) :]
    rows = c.e.simplify(maximum(trips, 1))
    longer = [c.e.op("concat", v, c.e.unsqueeze(init, 0), axis=0)
              for v, init in zip(found, inits, strict=True)]  # fmt: skip
    return [c.e.slice(v, 0, 0, rows) for v in longer]


def _count(c: Graphs, node: Node) -> Value:
    """The number of trips of a while_loop, as a vector of one."""
    cond, body = c.value(node.args[0]), c.value(node.args[1])
    inits, others = _tensors(c.value(node.args[2])), _tensors(c.value(node.args[3]))
    start = _flag(c, cond, [*inits, *others])
    none = c.e.scalar(0, I64)
    with c.e.region([STEP, none.type, *(v.type for v in inits)]) as region:
        _, count, *args = region.own
        values = _carried(c, inits, _inlined(c, body, [*args, *others]))
        flag = _flag(c, cond, [*values, *others])
        c.e.close([flag, c.e.with_scalar("add", count, 1), *values])
    lead = [c.e.scalar(_ENDLESS, I64), start]
    inits = [none, *inits]
    count = c.e.loop(WHILE, lead, inits, region, [v.type for v in inits])[0]
    return c.e.reshape(count, (1,))


def _flag(c: Graphs, graph: GraphModule, operands: Sequence[Value]) -> Value:
    with c.symbols.scope():
        (flag,) = c.inline(graph, operands)
    if isinstance(flag, Value):
        return c.e.reshape(c.e.cast(flag, BOOL), ())
    if isinstance(flag, bool):
        return c.e.scalar(flag, BOOL)
    raise Refused("its condition is no tensor")


def _carried(c: Graphs, inits: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Values for the next trip, which keep the types of the first."""
    for i, (a, b) in enumerate(zip(inits, values, strict=True)):
        if not c.e.same_type(a.type, b.type):
            raise Refused(f"the carried value {i} begins as {a.type} and becomes {b.type}")
    return list(values)


def _scan(c: Graphs, node: Node) -> list[Value]:
    """scan(combine_graph, init, xs, others): along dimension 0"""
    combine = c.value(node.args[0])
    inits, xs = _tensors(c.value(node.args[1])), _tensors(c.value(node.args[2]))
    others = _tensors(c.value(node.args[3]) if len(node.args) > 3 else [])
    return _along(c, combine, inits, xs, others)


def _map(c: Graphs, node: Node) -> list[Value]:
    """map_impl(body_graph, xs, others): each row of dimension 0 by itself"""
    xs = _tensors(c.value(node.args[1]))
    others = _tensors(c.value(node.args[2]) if len(node.args) > 2 else [])
    return _along(c, c.value(node.args[0]), [], xs, others)


def _along(
    c: Graphs, graph: GraphModule, inits: list[Value], xs: list[Value], others: list[Value]
) -> list[Value]:
    """graph(carried..., rows of xs..., others...) for each row: carried results, then stacks."""
    trips = xs[0].type.shape[0]
    count = len(inits)
    with c.e.region([STEP, *(v.type for v in inits)]) as region:
        step, *args = region.own
        rows = [c.e.op("gather", x, step, axis=0) for x in xs]
        results = _inlined(c, graph, [*args, *rows, *others])
        stacks = stacked(c.e, results[count:], trips)
        if stacks is None:
            raise Refused("the size of what it stacks changes from row to row")
        c.e.close([*_carried(c, inits, results[:count]), *results[count:]])
    return c.e.loop(FOR, [], inits, region, [*(v.type for v in inits), *stacks], trips=trips)


def _associative_scan(c: Graphs, node: Node) -> list[Value]:
    """associative_scan(combine_graph, xs, others): y[0] = x[0], y[i] = combine(y[i - 1], x[i]);
    the order in which an associative function is applied is free"""
    combine, xs = c.value(node.args[0]), _tensors(c.value(node.args[1]))
    others = _tensors(c.value(node.args[2]) if len(node.args) > 2 else [])
    trips = xs[0].type.shape[0]
    c.e.context.require(trips, ">=", 1, "associative_scan needs an element")
    firsts = [c.e.slice(x, 0, 0, 1) for x in xs]
    inits = [c.e.reshape(v, v.type.shape[1:]) for v in firsts]
    rest: Dim = c.e.simplify(add(trips, -1))
    types: list[TensorType] = [v.type for v in inits]
    with c.e.region([STEP, *types]) as region:
        step, *args = region.own
        at = c.e.with_scalar("add", step, 1)
        rows = [c.e.op("gather", x, at, axis=0) for x in xs]
        values = _carried(c, inits, _inlined(c, combine, [*args, *rows, *others]))
        c.e.close([*values, *values])
    stacks = [t.with_shape((rest, *t.shape)) for t in types]
    found = c.e.loop(FOR, [], inits, region, [*types, *stacks], trips=rest)
    pairs = zip(firsts, found[len(inits) :], strict=True)
    return [c.e.op("concat", first, more, axis=0) for first, more in pairs]


def _invoke_subgraph(c: Graphs, node: Node) -> list[Value]:
    """invoke_subgraph(graph, name, operands...)"""
    return _tensors(c.inline(c.value(node.args[0]), c.value(node.args[2:])))


def _packed(c: Graphs, node: Node) -> list[Value]:
    """invoke_quant_packed(graph, operands...)"""
    return _tensors(c.inline(c.value(node.args[0]), c.value(node.args[1:])))


def _functionalized(c: Graphs, node: Node) -> list[Value]:
    """auto_functionalized(operator, arguments...): one that writes to what it is given"""
    raise Refused(f"{node.args[0]} writes to its arguments; return new tensors instead")


def _with_grad(c: Graphs, node: Node) -> list[Value]:
    """wrap_with_set_grad_enabled(enabled, graph, operands...)"""
    return _tensors(c.inline(c.value(node.args[1]), c.value(node.args[2:])))


def _autocast(c: Graphs, node: Node) -> list[Value]:
    """wrap_with_autocast(device, dtype, enabled, cached, graph, operands...): one that torch could
    not write out as casts"""
    raise Refused(
        "torch can't write out what torch.autocast casts here; take the `with torch.autocast` out, "
        'and use model.bfloat16() or precision="bf16"'
    )


def _tensors(items: Sequence[Any]) -> list[Value]:
    found = list(items)
    for item in found:
        if not isinstance(item, Value):
            raise Refused(f"a {type(item).__name__} goes through it, which is no real tensor")
    return found


HIGHER_ORDER: Mapping[str, HigherOrder] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "while_loop_stack_output": _while_loop_stacked,
    "auto_functionalized": _functionalized,
    "auto_functionalized_v2": _functionalized,
    "scan": _scan,
    "map_impl": _map,
    "associative_scan": _associative_scan,
    "invoke_subgraph": _invoke_subgraph,
    "invoke_quant_packed": _packed,
    "wrap_with_set_grad_enabled": _with_grad,
    "wrap_with_autocast": _autocast,
}
