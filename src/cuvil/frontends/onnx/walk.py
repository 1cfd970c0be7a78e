"""Walks graphs, functions and branches, and translates node after node.

A node that can't be translated is noted and its outputs stand for nothing; nodes that read them
are passed over, so that one run finds every node with a reason of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto

from cuvil.errors import CuvilError, InvalidModelError, UnsupportedNode
from cuvil.frontends.onnx import custom
from cuvil.frontends.onnx.attributes import Raw, node_attributes, python_value
from cuvil.frontends.onnx.declared import check_declared
from cuvil.frontends.onnx.expansion import defined_by_function, expansion, without_inputs
from cuvil.frontends.onnx.gradient import DOMAIN as TRAINING
from cuvil.frontends.onnx.gradient import gradient
from cuvil.frontends.onnx.graph import node_label, ordered
from cuvil.frontends.onnx.load import opset_table
from cuvil.frontends.onnx.node import Item, Node, Refused
from cuvil.frontends.onnx.schemas import check_attributes
from cuvil.frontends.onnx.scope import Context, Scope, domain_of
from cuvil.frontends.onnx.table_control import CONTROL
from cuvil.frontends.onnx.tables import HANDLERS, reason, refused_by_name
from cuvil.frontends.onnx.texts import COMPARES, Texts, moved
from cuvil.frontends.onnx.types import UnsupportedType
from cuvil.ir.core import Location, Value

MAX_DEPTH = 64
# What reading a field of the wrong kind, or too deep a chain of shape arithmetic, comes to.
_MALFORMED = (
    AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
    ZeroDivisionError,
)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """What a graph's nodes are read with: names, opset versions, and a function's attributes."""

    scope: Scope
    opsets: Mapping[str, int]
    bound: Raw
    prefix: str = ""
    depth: int = 0


@dataclass(frozen=True)
class Place:
    """A node, its label, its domain and that domain's version."""

    proto: NodeProto
    label: str
    domain: str
    version: int


class Walker:
    """Translates graphs into the context's emitter."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def graph(self, frame: Frame, graph: Any, outputs: Sequence[str]) -> list[Item | None]:
        """Translate the nodes that outputs of a graph (or function) need; their values."""
        if frame.depth > MAX_DEPTH:
            raise InvalidModelError(f"functions or graphs are nested more than {MAX_DEPTH} deep")
        scope = frame.scope
        outer = scope.parent if scope.parent is not None else ()
        for i, proto in ordered(graph.node, outputs, scope.names(), outer):
            domain = domain_of(proto.domain)
            label = frame.prefix + node_label(proto, i)
            self._node(frame, Place(proto, label, domain, frame.opsets.get(domain, 1)))
        return [self._read(scope, name, name) for name in outputs]

    def subgraph(
        self, frame: Frame, label: str, graph: Any, inputs: Mapping[str, Item | None]
    ) -> list[Item | None]:
        """Translate a branch or a loop's body in place; the values of its outputs."""
        scope = Scope(self.context, graph, dict(inputs), frame.scope)
        inner = Frame(scope, frame.opsets, frame.bound, f"{label}/", frame.depth + 1)
        names = [value.name for value in graph.output]
        results = self.graph(inner, graph, names)
        check_declared(graph, dict(zip(names, results, strict=True)), as_declared=False)
        return results

    def _read(self, scope: Scope, name: str, where: str) -> Item | None:
        try:
            return scope[name]
        except UnsupportedType as error:
            reason = f"tensors of type {error} are not supported"
            self.context.problems.append(UnsupportedNode("constant", str(error), name, reason))
            scope.values[name] = None
            return None

    def _node(self, frame: Frame, place: Place) -> None:
        proto, scope = place.proto, frame.scope
        self.context.count_node()
        self.context.e.loc = Location(place.label, proto.op_type)
        inputs = [self._read(scope, name, place.label) if name else None for name in proto.input]
        lost = any(item is None and name for item, name in zip(inputs, proto.input, strict=True))
        results: Sequence[Item | None] = []
        if not self._is_known(place):
            self._problem(place, inputs, *reason(place.domain, proto.op_type))
        elif not lost:
            results = self._translated(frame, place, inputs)
        for name, item in zip(proto.output, [*results, *[None] * len(proto.output)], strict=False):
            if name:
                scope.values[name] = item

    def _is_known(self, place: Place) -> bool:
        key = (place.domain, place.proto.op_type)
        if key in self.context.functions or key in HANDLERS or key in CONTROL:
            return True
        if key == (TRAINING, "Gradient") or custom.registered(*key) is not None:
            return True
        if place.domain != "" or refused_by_name(*key):
            return False
        return defined_by_function(place.proto.op_type, place.version)

    def _problem(
        self, place: Place, inputs: Sequence[Item | None], reason: str, hint: str = ""
    ) -> None:
        op = f"{place.domain or 'ai.onnx'}.{place.proto.op_type} (opset {place.version})"
        first = next((item for item in inputs if isinstance(item, Value)), None)
        dtype = str(first.type.dtype) if first is not None else ""
        self.context.problems.append(UnsupportedNode(op, dtype, place.label, reason, hint))

    def _translated(
        self, frame: Frame, place: Place, inputs: Sequence[Item | None]
    ) -> Sequence[Item | None]:
        where = f"{place.label} ({place.proto.op_type})"
        try:
            results = self._results(frame, place, inputs)
            return [self._settled(item) for item in results]
        except Refused as refusal:
            self._problem(place, inputs, refusal.reason, refusal.hint)
        except UnsupportedType as error:
            self._problem(place, inputs, f"tensors of type {error} are not supported")
        except CuvilError as error:
            error.where = error.where or where
            error.stage = error.stage or "capture"
            raise
        except _MALFORMED as error:
            message = f"{place.proto.op_type}: {error}"
            raise InvalidModelError(message, where=where, stage="capture") from error
        return []

    def _settled(self, item: Item | None) -> Item | None:
        return self.context.knowledge.settle(item) if isinstance(item, Value) else item

    def _results(
        self, frame: Frame, place: Place, inputs: Sequence[Item | None]
    ) -> Sequence[Item | None]:
        proto = place.proto
        raw = node_attributes(proto, frame.bound)
        function = self.context.functions.get((place.domain, proto.op_type))
        if function is not None:
            opsets = opset_table(function.opset_import)
            return self._call(frame, place, function, inputs, raw, opsets)
        check_attributes(raw, proto.op_type, place.version, place.domain)
        attrs = {name: python_value(a) for name, a in raw.items()}
        key = (place.domain, proto.op_type)
        given = [item.value if isinstance(item, Texts) else item for item in inputs]
        only_moved = any(isinstance(i, Texts) for i in inputs) and moved(key, inputs)
        alike = key == COMPARES and all(isinstance(i, Texts) for i in inputs)
        node = Node(
            proto.op_type, place.domain, place.version,
            given if only_moved or alike else inputs, proto.output, attrs,
            self.context.e, self.context.knowledge, self.context.folder, self.context.words,
        )  # fmt: skip
        own = custom.registered(place.domain, proto.op_type)
        if own is not None and (place.domain, proto.op_type) not in HANDLERS:
            return custom.translate(own, node)
        if (place.domain, proto.op_type) == (TRAINING, "Gradient"):
            return gradient(node, lambda name: frame.scope[name])
        control = CONTROL.get((place.domain, proto.op_type))
        if control is not None:
            return control(node, _Inliner(self, frame, place.label))
        handler = HANDLERS.get((place.domain, proto.op_type))
        result = handler(node) if handler is not None else None
        if result is None:
            body, opsets, defaults = expansion(node, proto, raw)
            return self._call(frame, place, body, inputs, {**defaults, **raw}, opsets)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        return [Texts(r) if isinstance(r, Value) else r for r in results] if only_moved else results

    def _call(
        self,
        frame: Frame,
        place: Place,
        function: FunctionProto,
        inputs: Sequence[Item | None],
        raw: Mapping[str, AttributeProto],
        opsets: Mapping[str, int],
    ) -> Sequence[Item | None]:
        """Inline a function. Inputs the caller left out read as left out inside."""
        given = {n: v for n, v in zip(function.input, inputs, strict=False) if v is not None}
        body = without_inputs(function, {n for n in function.input if n not in given})
        bound = {a.name: a for a in function.attribute_proto} | dict(raw)
        scope = Scope(self.context, None, dict(given), None)
        inner = Frame(scope, opsets, bound, f"{place.label}/", frame.depth + 1)
        used = zip(function.output, place.proto.output, strict=False)
        outputs = [name for name, asked in used if asked]
        results = dict(zip(outputs, self.graph(inner, body, outputs), strict=True))
        return [results.get(name) for name in function.output]


@dataclass(frozen=True)
class _Inliner:
    """Translates the graphs of one node where the emitter stands."""

    walker: Walker
    frame: Frame
    label: str

    @property
    def problems(self) -> list[UnsupportedNode]:
        return self.walker.context.problems

    def first(self, usual: bool) -> bool:
        return self.walker.context.choices.take(self.label, usual)

    def __call__(self, graph: Any, given: Mapping[str, Item | None]) -> list[Item | None]:
        return self.walker.subgraph(self.frame, self.label, graph, given)
