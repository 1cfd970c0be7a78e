"""Walks a program's graph, applies the rule of each node and checks the result against torch."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from cuvil.errors import CuvilError, InvalidModelError, UnsupportedNode
from cuvil.frontends.torch_export.call import Call, Final, Refused, Rule
from cuvil.frontends.torch_export.control import HIGHER_ORDER
from cuvil.frontends.torch_export.custom import registered_rule
from cuvil.frontends.torch_export.emit import TorchEmitter
from cuvil.frontends.torch_export.node_places import location
from cuvil.frontends.torch_export.pairs import Pair, part_dtype
from cuvil.frontends.torch_export.scalars import require_truth, scalar_result
from cuvil.frontends.torch_export.stand_ins import NAMESPACE
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable
from cuvil.frontends.torch_export.table import SILENT, rule_for
from cuvil.frontends.torch_export.weights import Weights, dtype_from_torch, to_numpy
from cuvil.ir.core import Location, Value
from cuvil.ir.types import BOOL, TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, add, mul


def op_key(target: Any) -> str:
    """The name rules are filed under: ``add`` for aten.add.Tensor and aten.add_.Tensor, and
    ``ns::name`` outside aten."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return str(getattr(target, "__name__", target))
    name = str(schema.name).removeprefix("aten::").removeprefix(f"{NAMESPACE}::")
    mutates = schema.is_mutable and name.endswith("_") and not name.endswith("__")
    return name[:-1] if mutates else name


def node_metas(node: Node) -> list[Any]:
    """What torch says of a node's results and tensor arguments, and its plain arguments."""
    found: list[Any] = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return [*found, *(a for a in node.args if isinstance(a, complex))]


class Converter:
    """Translates one program. ``refused`` collects the nodes that have no translation."""

    def __init__(self, emitter: TorchEmitter, symbols: TorchSymbols, weights: Weights) -> None:
        self.e = emitter
        self.symbols = symbols
        self.weights = weights
        self.env: dict[Node, Any] = {}
        self.refused: list[tuple[Node, UnsupportedNode]] = []
        self.final: set[Any] = set()  # operators that decomposing doesn't help
        self.assumed: list[Constraint] = []
        self._lost: set[Node] = set()  # nodes that have nothing to stand for their results

    def run(self, graph: torch.fx.Graph, inputs: Mapping[str, Value]) -> list[Value]:
        """Translate all nodes; the tensors among the outputs, in order."""
        for node in graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, inputs)
            elif node.op == "output":
                return self._outputs(node)
            else:
                self._step(node)
        raise InvalidModelError("the program has no output node")

    def inline(self, module: torch.fx.GraphModule, values: Sequence[Any]) -> list[Any]:
        """What a graph inside the program gives for these values, translated where the emitter
        stands. Conditions that its nodes demand hold there alone."""
        demanded = len(self.assumed)
        rest = iter(values)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = next(rest)
            elif node.op == "output":
                for c in self.assumed[demanded:]:
                    self.e.context.require(c.left, c.relation, c.right, c.origin)
                del self.assumed[demanded:]
                if not self._lost.isdisjoint(node.all_input_nodes):
                    raise Refused("a node inside it has no translation")
                found = self.value(node.args[0])
                return found if isinstance(found, list) else [found]
            else:
                self._step(node)
        raise InvalidModelError("a graph inside the program has no output node")

    def _step(self, node: Node) -> None:
        if node.op == "call_function":
            self._call(node)
        elif node.op == "get_attr":
            self._attribute(node)
        else:
            self._refuse(node, f"a node of kind {node.op}", "")

    def _attribute(self, node: Node) -> None:
        """A graph that an operator holds, or a tensor that a graph does."""
        found: Any = node.graph.owning_module
        for name in str(node.target).split("."):
            found = getattr(found, name, None)
        if isinstance(found, torch.Tensor):
            found = self.e.weight(to_numpy(found), str(node.target))
        self.env[node] = found

    def _outputs(self, node: Node) -> list[Value]:
        """The output tensors; one that no rule has made is refused, not dropped."""
        values: list[Value] = []
        for item in node.args[0]:  # type: ignore[union-attr]
            value = self.value(item)
            if isinstance(value, Value):
                values.append(value)
            elif item in self._lost:
                continue  # what it depends on is refused
            elif isinstance(value, Pair):
                self._refuse(item, "a complex output", "return torch.view_as_real of it")
            elif isinstance(item, Node) and isinstance(item.meta.get("val"), torch.Tensor):
                self._refuse(item, "Cuvil doesn't compute this result of it", "")
        return values

    def _placeholder(self, node: Node, inputs: Mapping[str, Value]) -> None:
        if node.name in inputs:
            self.env[node] = inputs[node.name]
        elif node.name in self.weights and node.users:
            name, arrays = self.weights.get(node.name)
            self.e.loc = Location(name)
            parts = [self.e.weight(array, name) for array in arrays]
            self.env[node] = parts[0] if len(parts) == 1 else Pair(*parts)

    def value(self, item: Any) -> Any:
        """What stands for an argument: a value, a graph, a number, a list of those."""
        if isinstance(item, Node):
            return self.env.get(item)
        if isinstance(item, (list, tuple)):
            return [self.value(i) for i in item]
        return item

    def _call(self, node: Node) -> None:
        self.e.loc = location(node)
        self.symbols.place = str(self.e.loc)
        meta = node.meta.get("val")
        if not self._lost.isdisjoint(node.all_input_nodes):
            if isinstance(node.target, torch._ops.OpOverload) and _has_tensor(meta):
                if _rule_of(node) is None:
                    self._refuse(node, "Cuvil has no rule for it", "")
            self._poison(node, meta)
            return
        if node.target is operator.getitem:
            self.env[node] = self.value(node.args[0])[node.args[1]]
            return
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                self.env[node] = self._higher_order(node, meta)
                return
            if not isinstance(node.target, torch._ops.OpOverload) or not _has_tensor(meta):
                self._scalar(node, meta)
                return
            self.env[node] = self._tensor_op(node, meta)
        except Refused as error:
            if isinstance(error, Final):
                self.final.add(node.target)
            self._refuse(node, str(error), "")
            self._poison(node, meta)
        except CuvilError as error:
            error.where = error.where or str(self.e.loc)
            error.stage = error.stage or "capture"
            raise

    def _higher_order(self, node: Node, meta: Any) -> Any:
        rule = HIGHER_ORDER.get(op_key(node.target))
        if rule is None:
            raise Refused("Cuvil has no rule for it")
        results = rule(self, node)
        metas = list(meta) if isinstance(meta, (list, tuple)) else [meta]
        checked = [self._checked(v, m) for v, m in zip(results, metas, strict=True)]
        return checked if isinstance(meta, (list, tuple)) else checked[0]

    def _scalar(self, node: Node, meta: Any) -> None:
        key = op_key(node.target)
        if key == "_assert_scalar":
            self._assert(node)
        elif key in ("sym_constrain_range", "sym_constrain_range_for_size"):
            self._range(node)
        elif key not in SILENT and not all(_of_place(u) for u in node.users):
            args = [self.value(a) for a in node.args]
            self.env[node] = scalar_result(self.e, self.symbols, key, args, meta)

    def _assert(self, node: Node) -> None:
        """A condition the program itself checks at run time; here it is a constraint."""
        meta = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else node.args[0]
        if isinstance(meta, bool):
            return
        try:
            expression = meta.node.expr if isinstance(meta, torch.SymBool) else None
            if expression is not None:
                found = self.symbols.constraints(expression, str(self.e.loc))
                self.assumed += [c for c in found if not self.symbols.is_own_bound(c)]
        except Untranslatable as error:
            if isinstance(node.args[0], Node) and _of_place(node.args[0]):
                return
            if not isinstance(node.args[0], Node):
                raise Refused(f"its condition can't be checked: {error}") from None
            require_truth(self.e, node.args[0], self.value)

    def _range(self, node: Node) -> None:
        size = self.value(node.args[0])
        ends = ((">=", node.kwargs.get("min")), ("<=", node.kwargs.get("max")))
        for relation, end in ends:
            if isinstance(end, int) and not isinstance(size, Value):
                self.assumed.append(Constraint(size, relation, end, str(self.e.loc)))

    def _tensor_op(self, node: Node, meta: Any) -> Any:
        target: Any = node.target
        key = op_key(target)
        rule = _rule_of(node)
        if rule is None:
            number = " with complex numbers" if rule_for(key, ()) else ""
            raise Refused(f"Cuvil has no rule for it{number}")
        several = isinstance(meta, (list, tuple))
        metas = list(meta) if several else [meta]
        call = self._bind(node, key, metas)
        call.tuple_result = several
        try:
            result = rule(call)
        except (TypeError, ValueError, AttributeError) as error:
            unknown = call.unknown_numbers()
            if not unknown:
                raise
            raise Refused(f"its {unknown} must be known at compile time") from error
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(results) < len(metas):
            raise Refused(f"its rule gives {len(results)} of {len(metas)} results")
        if target._schema.is_mutable:
            results = [self._as_stored(v, m) for v, m in zip(results, metas, strict=False)]
        checked = [self._checked(v, m) for v, m in zip(results, metas, strict=False)]
        self._store_mutation(node, target, checked)
        return checked if several else checked[0]

    def _bind(self, node: Node, key: str, metas: list[Any]) -> Call:
        target: Any = node.target
        args: dict[str, Any] = {}
        arg_metas: dict[str, Any] = {}
        for i, parameter in enumerate(target._schema.arguments):
            if i < len(node.args):
                item: Any = node.args[i]
            elif parameter.name in node.kwargs:
                item = node.kwargs[parameter.name]
            else:
                item = parameter.default_value if parameter.has_default_value() else None
            args[parameter.name] = self.value(item)
            arg_metas[parameter.name] = item.meta.get("val") if isinstance(item, Node) else item
        overload = str(getattr(target, "_overloadname", ""))
        return Call(self.e, key, overload, args, arg_metas, metas, self.symbols)

    def _store_mutation(self, node: Node, target: Any, results: list[Any]) -> None:
        """After ``x.add_(y)`` the name x stands for the sum. Only called where x has no alias."""
        if not target._schema.is_mutable:
            return
        for i, parameter in enumerate(target._schema.arguments):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                written = node.args[i] if i < len(node.args) else node.kwargs.get(parameter.name)
                while isinstance(written, Node):
                    self.env[written] = results[0]
                    written = _in_place_source(written)

    def _as_stored(self, value: Any, meta: Any) -> Any:
        """A truth value written over a number, as x.eq_(y) does, is 0 or 1 of its dtype."""
        if not isinstance(value, Value) or not isinstance(meta, torch.Tensor):
            return value
        truth = value.type.dtype == BOOL and not meta.dtype.is_complex
        return self.e.cast(value, dtype_from_torch(meta.dtype)) if truth else value

    def _checked(self, value: Any, meta: Any) -> Any:
        """The value if its type is what torch says; float widths are adapted by a cast."""
        if isinstance(value, Pair):
            return Pair(self._checked_part(value.re, meta), self._checked_part(value.im, meta))
        if not isinstance(meta, torch.Tensor) or not isinstance(value, Value):
            return value
        return self._checked_part(value, meta)

    def _checked_part(self, value: Value, meta: torch.Tensor) -> Value:
        complex_ = meta.dtype.is_complex
        dtype = part_dtype(meta.dtype) if complex_ else dtype_from_torch(meta.dtype)
        if value.type.dtype != dtype:
            if not (dtype.is_float and value.type.dtype.is_float):
                raise self._mismatch(value, f"elements of {dtype}")
            value = self.e.cast(value, dtype)
        if value.type.rank != meta.dim():
            raise self._mismatch(value, f"rank {meta.dim()}")
        for axis, (have, size) in enumerate(zip(value.type.shape, meta.shape, strict=True)):
            self._check_dim(value, axis, have, size)
        return value

    def _check_dim(self, value: Value, axis: int, have: Dim, size: Any) -> None:
        if self.symbols.bind(size, have):
            return
        try:
            want = self.symbols.dim(size)
        except Untranslatable:
            return
        if have == want:
            return
        gap = self.e.simplify(add(have, mul(want, -1)))
        if gap == 0:
            return
        facts = self.e.context.facts
        if facts.nonnegative(gap) and facts.nonnegative(mul(gap, -1)):
            return
        if self.e.traced_size(gap) not in (0, None):
            raise self._mismatch(value, f"{want} in dimension {axis}")
        self.e.context.require(have, "==", want, f"torch's size of dimension {axis}")

    def _mismatch(self, value: Value, wanted: str) -> InvalidModelError:
        return InvalidModelError(
            f"the translation gives {value.type}, but torch says {wanted}",
            where=str(self.e.loc),
            hint="this is a fault of Cuvil's torch frontend; please report the operator",
            stage="capture",
        )

    def _refuse(self, node: Node, reason: str, hint: str) -> None:
        meta = node.meta.get("val")
        first = meta[0] if isinstance(meta, (list, tuple)) and meta else meta
        dtype = str(first.dtype).removeprefix("torch.") if isinstance(first, torch.Tensor) else ""
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        inside = f" in {modules[-1][0]}" if modules and modules[-1][0] else ""
        self.refused.append(
            (
                node,
                UnsupportedNode(
                    str(node.target),
                    dtype,
                    f"{self.e.loc}{inside}",
                    reason,
                    hint or "write it with other operators, or register it with cuvil.register_op",
                ),
            )
        )

    def _poison(self, node: Node, meta: Any) -> None:
        """Stand-ins for the results, so that the walk can go on and find every refused node."""
        several = isinstance(meta, (list, tuple))
        values: list[Any] = []
        for item in meta if several else [meta]:
            try:
                shape = self.symbols.shape(item.shape)
                type = TensorType(shape, dtype_from_torch(item.dtype))
                values.append(self.e.builder.op("refused", result_types=[type]).result)
            except (AttributeError, CuvilError, Untranslatable):  # noqa: PERF203
                values.append(None)
        self.env[node] = values if several else values[0]
        if None in values:
            self._lost.add(node)


def _of_place(node: Node) -> bool:
    """Whether it says that a tensor begins at 0 or later in its memory, as every one does."""
    of: Any = node.args[0] if node.target is operator.ge and node.args[1] == 0 else None
    return isinstance(of, Node) and op_key(of.target) == "sym_storage_offset"


def _rule_of(node: Node) -> Rule | None:
    return rule_for(op_key(node.target), node_metas(node)) or registered_rule(node.target)


def _has_tensor(meta: Any) -> bool:
    items = meta if isinstance(meta, (list, tuple)) else [meta]
    return any(isinstance(i, torch.Tensor) for i in items)


def _in_place_source(node: Node) -> Any:
    """The tensor that an in-place node returned, itself written to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or not node.args:
        return None
    return node.args[0]
