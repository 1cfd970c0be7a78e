"""Walks graphs, functions and branches, and translates node after node.

A node that can't be translated is noted and its outputs stand for nothing; nodes that read them
are passed over, so that one run finds every node with a reason of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto, defs, helper

from cuvil.errors import CuvilError, InvalidModelError, UnsupportedNode
from cuvil.frontends.onnx.attributes import Raw, node_attributes, python_value
from cuvil.frontends.onnx.graph import node_label, ordered
from cuvil.frontends.onnx.load import opset_table
from cuvil.frontends.onnx.node import FIXED, Item, ItemList, Node, Refused
from cuvil.frontends.onnx.scope import Context, Scope, domain_of
from cuvil.frontends.onnx.tables import HANDLERS, REASONS
from cuvil.frontends.onnx.types import UnsupportedType, code_of
from cuvil.ir.core import Location, Value

MAX_DEPTH = 64


class Walker:
    """Translates graphs into the context's emitter."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.depth = 0
        self.prefix = ""

    def graph(
        self,
        scope: Scope,
        graph: Any,
        opsets: Mapping[str, int],
        bound: Raw,
        outputs: Sequence[str],
    ) -> list[Item | None]:
        """Translate the nodes a graph (or function) needs; the values of its outputs."""
        if self.depth > MAX_DEPTH:
            raise InvalidModelError(f"functions or graphs are nested more than {MAX_DEPTH} deep")
        self.depth += 1
        outer = scope.parent if scope.parent is not None else ()
        for i, node in ordered(graph.node, outputs, scope.names(), outer):
            self._node(scope, node, i, opsets, bound)
        self.depth -= 1
        return [self._read(scope, name, name) for name in outputs]

    def _read(self, scope: Scope, name: str, where: str) -> Item | None:
        try:
            return scope[name]
        except UnsupportedType as error:
            reason = f"tensors of type {error} are not supported"
            self.context.problems.append(UnsupportedNode("constant", str(error), name, reason))
            scope.values[name] = None
            return None

    def _node(
        self, scope: Scope, proto: NodeProto, index: int, opsets: Mapping[str, int], bound: Raw
    ) -> None:
        label = self.prefix + node_label(proto, index)
        e = self.context.e
        e.loc = Location(label, proto.op_type)
        inputs = [self._read(scope, name, label) if name else None for name in proto.input]
        domain = domain_of(proto.domain)
        lost = any(item is None and name for item, name in zip(inputs, proto.input, strict=True))
        supported = self._is_known(domain, proto, opsets)
        results: Sequence[Item | None] = []
        if not lost and supported:
            results = self._translated(scope, proto, domain, inputs, opsets, bound, label)
        elif not supported:
            reason, hint = REASONS.get(
                proto.op_type if domain == "" else domain,
                ("there is no translation for it", "express it with other operators"),
            )
            self._problem(proto, domain, opsets, inputs, label, reason, hint)
        for name, item in zip(proto.output, [*results, *[None] * len(proto.output)], strict=False):
            if name:
                scope.values[name] = item

    def _is_known(self, domain: str, proto: NodeProto, opsets: Mapping[str, int]) -> bool:
        if (domain, proto.op_type) in self.context.functions:
            return True
        if domain != "":
            return False
        if proto.op_type in HANDLERS or proto.op_type == "If":
            return True
        schema = _schema(proto.op_type, opsets.get("", 1))
        return schema is not None and proto.op_type not in REASONS and (
            schema.has_function or schema.has_context_dependent_function
        )

    def _problem(
        self,
        proto: NodeProto,
        domain: str,
        opsets: Mapping[str, int],
        inputs: Sequence[Item | None],
        label: str,
        reason: str,
        hint: str,
    ) -> None:
        op = f"{domain or 'ai.onnx'}.{proto.op_type} (opset {opsets.get(domain, 1)})"
        first = next((item for item in inputs if isinstance(item, Value)), None)
        dtype = str(first.type.dtype) if first is not None else ""
        self.context.problems.append(UnsupportedNode(op, dtype, label, reason, hint))

    def _translated(
        self,
        scope: Scope,
        proto: NodeProto,
        domain: str,
        inputs: Sequence[Item | None],
        opsets: Mapping[str, int],
        bound: Raw,
        label: str,
    ) -> Sequence[Item | None]:
        raw = node_attributes(proto, bound)
        try:
            results = self._results(scope, proto, domain, inputs, opsets, raw, label)
            return [self._settled(item) for item in results]
        except Refused as refusal:
            self._problem(proto, domain, opsets, inputs, label, refusal.reason, refusal.hint)
        except UnsupportedType as error:
            reason = f"tensors of type {error} are not supported"
            self._problem(proto, domain, opsets, inputs, label, reason, "")
        except CuvilError as error:
            error.where = error.where or f"{label} ({proto.op_type})"
            error.stage = error.stage or "capture"
            raise
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise InvalidModelError(
                f"{proto.op_type}: {error}", where=f"{label} ({proto.op_type})", stage="capture"
            ) from error
        return []

    def _settled(self, item: Item | None) -> Item | None:
        return self.context.knowledge.settle(item) if isinstance(item, Value) else item

    def _results(
        self,
        scope: Scope,
        proto: NodeProto,
        domain: str,
        inputs: Sequence[Item | None],
        opsets: Mapping[str, int],
        raw: Mapping[str, Any],
        label: str,
    ) -> Sequence[Item | None]:
        function = self.context.functions.get((domain, proto.op_type))
        if function is not None:
            return self._call(function, inputs, opset_table(function.opset_import), raw, label)
        version = opsets.get("", 1)
        attrs = {name: python_value(a) for name, a in raw.items()}
        node = Node(
            proto.op_type, domain, version, inputs, proto.output, attrs,
            self.context.e, self.context.knowledge,
        )  # fmt: skip
        if proto.op_type == "If":
            return self._branch(scope, node, opsets, raw, label)
        handler = HANDLERS.get(proto.op_type)
        if handler is None:
            return self._expanded(proto, node, raw, label)
        if proto.op_type == "Constant":
            attrs["__folder__"] = self.context.folder
        result = handler(node)
        return [result] if isinstance(result, (Value, ItemList)) else list(result)

    def _branch(
        self, scope: Scope, node: Node, opsets: Mapping[str, int], raw: Raw, label: str
    ) -> Sequence[Item | None]:
        known = self.context.knowledge.dims(node[0])
        if known is None or len(known) != 1:
            raise Refused("its condition is not known at compile time", FIXED)
        graph = node.attrs["then_branch" if known[0] else "else_branch"]
        inner = Scope(self.context, graph, {}, scope)
        names = [value.name for value in graph.output]
        kept, self.prefix = self.prefix, f"{label}/"
        results = self.graph(inner, graph, opsets, {}, names)
        self.prefix = kept
        return results

    def _call(
        self,
        function: Any,
        inputs: Sequence[Item | None],
        opsets: Mapping[str, int],
        raw: Mapping[str, Any],
        label: str,
    ) -> Sequence[Item | None]:
        """Inline a function. Its left-out inputs are names that read as left out."""
        names = list(function.input)
        given = {n: v for n, v in zip(names, inputs, strict=False) if v is not None}
        absent = {n for n in names if n not in given}
        bound = {a.name: a for a in getattr(function, "attribute_proto", ())} | dict(raw)
        body = _without(function, absent)
        scope = Scope(self.context, None, dict(given), None)
        kept, self.prefix = self.prefix, f"{label}/"
        results = self.graph(scope, body, opsets, bound, list(function.output))
        self.prefix = kept
        return results

    def _expanded(
        self, proto: NodeProto, node: Node, raw: Mapping[str, Any], label: str
    ) -> Sequence[Item | None]:
        """An operator that ONNX itself defines by a function of simpler ones."""
        schema = _schema(proto.op_type, node.version)
        filled = NodeProto()
        filled.CopyFrom(proto)
        del filled.attribute[:]
        filled.attribute.extend(raw.values())
        if schema.has_function:
            function = schema.function_body
        else:
            types = [_type_proto(item) for item in node.inputs]
            body = schema.get_context_dependent_function(
                filled.SerializeToString(), [t.SerializeToString() for t in types]
            )
            function = type(schema_function())()
            function.ParseFromString(body)
        defaults = {
            name: a.default_value for name, a in schema.attributes.items() if a.default_value.name
        }
        opsets = opset_table(function.opset_import) if function.opset_import else {"": node.version}
        opsets = {"": node.version, **{k: max(v, 1) for k, v in opsets.items()}}
        return self._call(function, node.inputs, opsets, {**defaults, **raw}, label)


def schema_function() -> Any:
    """An empty FunctionProto."""
    return helper.make_function("", "f", [], [], [], [])


def _schema(op: str, version: int) -> Any:
    try:
        return defs.get_schema(op, version, "")
    except defs.SchemaError:
        return None


def _type_proto(item: Item | None) -> Any:
    if not isinstance(item, Value):
        return helper.make_tensor_type_proto(0, None)
    shape = [d if isinstance(d, int) else None for d in item.type.shape]
    return helper.make_tensor_type_proto(code_of(item.type.dtype), shape)


def _without(function: Any, absent: set[str]) -> Any:
    """The function with the names of inputs the caller left out made empty."""
    if not absent:
        return function
    copy = type(function)()
    copy.CopyFrom(function)
    for node in copy.node:
        for i, name in enumerate(node.input):
            if name in absent:
                node.input[i] = ""
    return copy
