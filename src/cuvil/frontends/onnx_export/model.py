"""A module at stage "fused" as an ONNX model: groups of operators become local functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
)
from onnx.shape_inference import InferenceError

from cuvil.errors import InvalidModelError, UnsupportedOpError
from cuvil.frontends.onnx_export.control import WRITERS as CONTROL
from cuvil.frontends.onnx_export.control import bind_sizes
from cuvil.frontends.onnx_export.scope import Constants, Names, Scope
from cuvil.frontends.onnx_export.tables import WRITERS, unsupported_ops
from cuvil.frontends.onnx_export.types import (
    Array,
    first_opset,
    onnx_type,
    raw_of,
    tensor_of,
    value_info,
)
from cuvil.ir.control import REQUIRE
from cuvil.ir.core import Block, Function, Module, Op
from cuvil.ir.signature import Binding
from cuvil.ir.types import DType, dtype_of
from cuvil.sym.facts import Facts
from cuvil.version import __version__

DOMAIN = "cuvil"
_LEAST_OPSET, _LEAST_IR = 17, 10  # local functions in ONNX Runtime from 1.18 on
_INSIDE = 1024  # bytes up to which a constant stays in the graph, where shapes are inferred from it
_LAZY = frozenset({"constant", "dims", "broadcast", "iota"})


@dataclass(frozen=True)
class Initializer:
    """A constant that is kept outside the graph: ``type`` is ONNX's number of its dtype, ``array``
    its data as ONNX has them."""

    name: str
    type: int
    dims: tuple[int, ...]
    array: Array


@dataclass(frozen=True)
class Exported:
    """A model: ``head`` is everything but its graph, ``graph`` the graph without ``weights``.

    With them written as initializers at the graph's end, the two are a ModelProto.
    """

    head: bytes
    graph: bytes
    weights: tuple[Initializer, ...]
    functions: tuple[str, ...]


def export_module(module: Module, bindings: Iterable[Binding]) -> Exported:
    """The model; ``bindings`` say which dims of inputs tell the symbols' values.

    Raises UnsupportedOpError with all operators that ONNX lacks.
    """
    missing = unsupported_ops(module)
    if missing:
        raise UnsupportedOpError(missing, stage="onnx")
    writer = _Model(module.main, tuple(bindings))
    graph, weights = writer.graph(module.name)
    opset = _opset(writer, graph, weights)
    head = _model(writer, opset)
    return Exported(
        head.SerializeToString(deterministic=True), graph.SerializeToString(deterministic=True),
        tuple(weights), tuple(f.name for f in writer.functions),
    )  # fmt: skip


class _Model:
    def __init__(self, function: Function, bindings: tuple[Binding, ...]) -> None:
        self.function = function
        self.facts = Facts(function.symbols)
        taken = [*function.input_names, *function.output_names]
        self.constants = Constants()
        self.scope = Scope(Names(taken), self.facts, self.constants)
        self.functions: list[FunctionProto] = []
        self._known: dict[bytes, str] = {}
        self._names = Names()
        for name, value in zip(function.input_names, function.inputs, strict=True):
            self.scope.define(value, name)
        for binding in bindings:
            self._bind(binding)

    def _bind(self, binding: Binding) -> None:
        """The value of a symbol from the size of an input."""
        s = self.scope
        name = self.function.input_names[binding.input]
        size = s.node("Shape", name, start=binding.axis, end=binding.axis + 1, out=binding.symbol)
        if binding.offset:
            size = s.node("Sub", size, s.ints([binding.offset]), out=binding.symbol)
        if binding.slope != 1:
            size = s.node("Div", size, s.ints([binding.slope]), out=binding.symbol)
        s.symbols[binding.symbol] = size

    def graph(self, name: str) -> tuple[GraphProto, list[Initializer]]:
        """The main graph, and the large constants that it refers to."""
        function = self.function
        self._block(self.scope, function.body)
        outputs = self._outputs()
        _drop_unread(self.scope, {info.name for info in outputs})
        read = set(_read_by(self.scope.nodes))
        weights, small = [], []
        for key, array in self.constants.arrays.items():
            if key not in read:
                continue
            if array.nbytes > _INSIDE:
                kind = onnx_type(dtype_of(array.dtype))
                assert kind is not None
                weights.append(Initializer(key, kind, array.shape, raw_of(array)))
            else:
                small.append(tensor_of(array, key))
        inputs = [value_info(n, v.type) for n, v in zip(function.input_names, function.inputs)]
        return helper.make_graph(self.scope.nodes, _plain(name), inputs, outputs, small), weights

    def _outputs(self) -> list[ValueInfoProto]:
        """Each result under its own name, or a similar one where an input has it."""
        found = []
        for name, value in zip(self.function.output_names, self.function.outputs, strict=True):
            if name in self.function.input_names:  # a name is one tensor's
                if self.scope.name(value) == name:
                    found.append(value_info(name, value.type))
                    continue
                name = self.scope.names.fresh(name)
            self.scope.nodes.append(helper.make_node("Identity", [self.scope.name(value)], [name]))
            found.append(value_info(name, value.type))
        return found

    def _block(self, scope: Scope, block: Block) -> None:
        for op in block.ops:
            if op is block.last:
                continue
            scope.place = _plain(op.loc.name)
            self._op(scope, op)
        scope.place = ""

    def _op(self, scope: Scope, op: Op) -> None:
        if op.name == REQUIRE:
            return
        if op.short == "sizes":
            return bind_sizes(scope, op)
        if op.short in _LAZY:
            return scope.defer(op.result, lambda s: WRITERS[op.short](s, op)[0])
        if op.name in CONTROL:
            results = CONTROL[op.name](scope, op, self._block)
        elif op.short == "fused":
            results = self._fused(scope, op)
        else:
            results = WRITERS[op.short](scope, op)
        for value, name in zip(op.results, results, strict=True):
            scope.define(value, name)

    def _fused(self, scope: Scope, op: Op) -> list[str]:
        """A call of a local function, or the one operator that it would hold."""
        block = op.regions[0]
        body = Scope(Names(), self.facts, None)
        names = [body.names.fresh(a.name or f"in{i}") for i, a in enumerate(block.args)]
        results = self._inlined(body, block, names)
        _drop_unread(body, set(results))
        working = [n for n in body.nodes if n.op_type != "Constant"]
        if len(working) <= 1:
            return self._inlined(scope, block, [scope.name(v) for v in op.operands])
        outputs: list[str] = []
        for name in results:
            again = name in outputs or not any(name in n.output for n in body.nodes)
            outputs.append(body.node("Identity", name) if again else name)
        made = helper.make_function(
            DOMAIN, "", [*names, *(body.symbols[s] for s in body.asked)], outputs, body.nodes, []
        )
        title = self._function(made, op.attrs["name"])
        given = [*map(scope.name, op.operands), *map(scope.symbol, body.asked)]
        return scope.many(title, given, len(op.results), domain=DOMAIN)

    def _inlined(self, scope: Scope, block: Block, names: list[str]) -> list[str]:
        for argument, name in zip(block.args, names, strict=True):
            scope.define(argument, name)
        for inner in block.ops:
            if inner is not block.last:
                self._op(scope, inner)
        return [scope.name(v) for v in block.terminator.operands]

    def _function(self, made: FunctionProto, wish: str) -> str:
        """The name of a function; equal ones are one."""
        content = made.SerializeToString(deterministic=True)
        if content not in self._known:
            made.name = self._known[content] = self._names.fresh(_plain(wish))
            self.functions.append(made)
        return self._known[content]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./]", "_", text)


def _drop_unread(scope: Scope, wanted: set[str]) -> None:
    """Remove nodes whose results nobody reads."""
    read = set(wanted)
    kept = []
    for node in reversed(scope.nodes):
        if not read.isdisjoint(node.output):
            kept.append(node)
            read.update(_read_by([node]))
    scope.nodes[:] = reversed(kept)


def _read_by(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """The names that nodes read, those in their subgraphs too."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read_by(attribute.g.node)
            yield from (output.name for output in attribute.g.output)


def _model(writer: _Model, opset: int) -> ModelProto:
    """The model but for its graph."""
    model = ModelProto(producer_name="cuvil", producer_version=__version__)
    used = [helper.make_opsetid("", opset)]
    model.ir_version = max(_LEAST_IR, helper.find_min_ir_version_for(used))
    for function in writer.functions:
        del function.opset_import[:]
        function.opset_import.extend(used)
    model.opset_import.extend(used)
    if writer.functions:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.functions.extend(writer.functions)
    return model


def _opset(writer: _Model, graph: GraphProto, weights: list[Initializer]) -> int:
    """The lowest opset in which the model is valid. Raises InvalidModelError if there is none."""
    checked = GraphProto()
    checked.CopyFrom(graph)
    for weight in weights:  # their data is of no account to the checker
        checked.input.append(
            helper.make_tensor_value_info(weight.name, weight.type, weight.dims)
        )
    least = max([_LEAST_OPSET, *(first_opset(d) for d in _dtypes(writer.function))])
    reason = ""
    for opset in range(least, defs.onnx_opset_version() + 1):
        model = _model(writer, opset)
        model.graph.CopyFrom(checked)
        try:
            checker.check_model(model, full_check=True)
            return opset
        except (checker.ValidationError, InferenceError) as error:
            reason = str(error)
    raise InvalidModelError(
        f"the ONNX model is not valid: {reason.splitlines()[0] if reason else 'unknown'}",
        stage="onnx", hint="report this model",
    )  # fmt: skip


def _dtypes(function: Function) -> set[DType]:
    return {v.type.dtype for op in function.walk() for v in (*op.operands, *op.results)}
