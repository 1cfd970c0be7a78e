"""The part of a graph that works on strings before the numbers.

String tensors that flow from inputs and constants through operators on strings become steps that
an artifact runs in Python (runtime/host.py says what they look like). What they make is an output,
or an input of the rest of the graph, where strings are numbers (texts.py). An operator on strings
that needs something of the rest has no place here: its translation refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto

from cuvil.errors import InputError, InvalidModelError
from cuvil.frontends.onnx.attributes import node_attributes, python_value
from cuvil.frontends.onnx.graph import node_label, ordered, reads
from cuvil.frontends.onnx.load import opset_table
from cuvil.frontends.onnx.scope import domain_of
from cuvil.frontends.onnx.texts import CODES, MADE, Dims, HostValue
from cuvil.frontends.onnx.types import string_list
from cuvil.ir.text_pattern import pattern_fault
from cuvil.ir.types import BOOL, F32, F64, I32, I64, DType

_CASES = ("NONE", "LOWER", "UPPER")
_NUMBERS: Mapping[int, tuple[str, DType]] = MappingProxyType(
    {
        TensorProto.FLOAT: ("float32", F32), TensorProto.DOUBLE: ("float64", F64),
        TensorProto.INT32: ("int32", I32), TensorProto.INT64: ("int64", I64),
    }
)  # fmt: skip


@dataclass(frozen=True)
class StringPart:
    """String inputs by name, the steps, and by name what they make: outputs of strings, and what
    the rest of the graph reads. ``apart`` are the places of the nodes that became steps."""

    inputs: Mapping[str, Dims]
    steps: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, HostValue]
    handed: Mapping[str, HostValue]
    apart: Collection[int]

    def rest(self, graph: Any) -> Any:
        """The graph without the nodes that became steps; the others keep their places."""
        empty = NodeProto()
        return SimpleNamespace(
            node=[empty if i in self.apart else node for i, node in enumerate(graph.node)]
        )

    def made(self) -> list[dict[str, Any]]:
        """The library's inputs that steps make, for the manifest."""
        return [
            {"input": name + (CODES if v.dtype is None else MADE), "value": v.value,
             "codes": v.dtype is None}
            for name, v in self.handed.items()
            if name not in self.inputs
        ]  # fmt: skip


@dataclass(frozen=True)
class _Call:
    """A node on strings, its attributes checked against the defaults."""

    node: NodeProto
    inputs: Sequence[HostValue]
    attributes: Mapping[str, Any]
    where: str

    def step(self, op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        outputs = [name or f".{self.node.output[0]}.{i}" for i, name in enumerate(self.outputs)]
        return {
            "op": op, "inputs": [x.value for x in self.inputs], "outputs": outputs,
            "attributes": dict(attributes),
        }  # fmt: skip

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs; those left out are empty."""
        count = 2 if self.node.op_type == "StringSplit" else 1
        return [*self.node.output, *[""] * count][:count]


# Step, shapes and dtypes of the outputs.
_Made = tuple[dict[str, Any], Sequence[tuple[Dims, "DType | None"]]]


def _normalizer(c: _Call) -> _Made:
    if c.attributes["case_change_action"] not in _CASES or c.attributes[
        "is_case_sensitive"
    ] not in (0, 1):
        raise InvalidModelError(f"its attributes are {dict(c.attributes)}", where=c.where)
    shape = c.inputs[0].shape
    rank = len(shape)
    if rank not in (1, 2) or (rank == 2 and isinstance(shape[0], int) and shape[0] != 1):
        raise InvalidModelError(f"it takes [C] or [1, C], not {shape}", where=c.where)
    return c.step("string_normalizer", c.attributes), [([*shape[:-1], "?"], None)]


def _concat(c: _Call) -> _Made:
    a, b = (x.shape for x in c.inputs)
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b)
    shape: Dims = [x if x == y or y == 1 else y if x == 1 else "?" for x, y in pairs]
    return c.step("string_concat", {}), [(shape, None)]


def _split(c: _Call) -> _Made:
    asked = {"delimiter": c.attributes["delimiter"]}
    if c.attributes["maxsplit"] is not None:
        asked["maxsplit"] = c.attributes["maxsplit"]
    shape = c.inputs[0].shape
    return c.step("string_split", asked), [([*shape, "?"], None), (list(shape), I64)]


def _match(c: _Call) -> _Made:
    pattern = c.attributes["pattern"]
    fault = pattern_fault(pattern)
    if fault:
        raise InvalidModelError(fault, where=c.where)
    return c.step("regex_full_match", {"pattern": pattern}), [(list(c.inputs[0].shape), BOOL)]


def _cast(c: _Call) -> _Made | None:
    found = _NUMBERS.get(c.attributes["to"])
    if found is None:
        return None
    return c.step("text_to_number", {"to": found[0]}), [(list(c.inputs[0].shape), found[1])]


# By operator: the opset that brought it, its attributes with their defaults (a type where there is
# none), and how a step is made of it.
_OPERATORS: Mapping[str, tuple[int, Mapping[str, Any], Callable[[_Call], _Made | None]]] = {
    "StringNormalizer": (
        10,
        {"case_change_action": "NONE", "is_case_sensitive": 0, "stopwords": [], "locale": ""},
        _normalizer,
    ),
    "StringConcat": (20, {}, _concat),
    "StringSplit": (20, {"delimiter": "", "maxsplit": None}, _split),
    "RegexFullMatch": (20, {"pattern": ""}, _match),
    "Cast": (9, {"to": 0, "saturate": 1, "round_mode": "up"}, _cast),
}


class _Walk:
    """Follows the strings of one graph."""

    def __init__(self, model: ModelProto, inputs: Mapping[str, Dims]) -> None:
        graph = model.graph
        self.made = {name: HostValue(name, shape) for name, shape in inputs.items()}
        self.steps: list[dict[str, Any]] = []
        self.constants = {
            t.name: t for t in graph.initializer if t.data_type == TensorProto.STRING
        }
        self.functions = {(domain_of(f.domain), f.name) for f in model.functions}
        self.version = opset_table(model.opset_import)[""]
        self.apart: set[int] = set()  # places of the nodes that became steps

    def visit(self, place: int, node: NodeProto) -> None:
        """A step of the node if it works on strings that are known here."""
        if domain_of(node.domain) or ("", node.op_type) in self.functions:
            return
        if node.op_type == "Constant":
            self._constant(node)
        elif node.op_type == "Identity" and node.input[0] in self.made:
            self.made[node.output[0]] = self.made[node.input[0]]
            self.apart.add(place)
        elif node.op_type in _OPERATORS and self._known(node):
            self._step(place, node)

    def _known(self, node: NodeProto) -> bool:
        names = list(node.input)
        if self.version < _OPERATORS[node.op_type][0]:
            return False
        if not all(name in self.constants or self._is_text(name) for name in names):
            return False
        return len(names) == (2 if node.op_type == "StringConcat" else 1)

    def _is_text(self, name: str) -> bool:
        return name in self.made and self.made[name].dtype is None

    def _constant(self, node: NodeProto) -> None:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == TensorProto.STRING:
                self.constants[node.output[0]] = attribute.t

    def _operand(self, name: str) -> HostValue:
        if name not in self.made:
            tensor = self.constants[name]
            shape = [int(d) for d in tensor.dims]
            words = string_list(tensor)
            self.steps.append(
                {"op": "text_constant", "inputs": [], "outputs": [name],
                 "attributes": {"words": words, "shape": shape}}
            )  # fmt: skip
            self.made[name] = HostValue(name, list(shape))
        return self.made[name]

    def _step(self, place: int, node: NodeProto) -> None:
        where = f"{node_label(node, place)} ({node.op_type})"
        attributes = _attributes(node, where)
        if node.op_type == "Cast" and attributes["to"] not in _NUMBERS:
            return
        call = _Call(node, [self._operand(name) for name in node.input], attributes, where)
        found = _OPERATORS[node.op_type][2](call)
        if found is None:
            return
        step, results = found
        self.steps.append(step)
        for name, value, (shape, dtype) in zip(call.outputs, step["outputs"], results):
            if name:
                self.made[name] = HostValue(value, shape, dtype)
        self.apart.add(place)


def _attributes(node: NodeProto, where: str) -> dict[str, Any]:
    found = dict(_OPERATORS[node.op_type][1])
    for name, raw in node_attributes(node, {}).items():
        value, usual = python_value(raw), found.get(name)
        fits = type(value) is (int if usual is None else type(usual))
        if name not in found or not fits:
            raise InvalidModelError(f"the attribute {name!r} is not one of it", where=where)
        found[name] = value
    return found


def string_part(
    model: ModelProto,
    sizes: Mapping[str, Sequence[Any]],
    dynamic: Mapping[str, Mapping[int, Any]],
    fixed: Collection[str],
) -> StringPart | None:
    """The part of a model that works on strings, None where there is none.

    ``sizes`` and ``dynamic`` are dims by input name that replace the declared ones, ``fixed`` the
    inputs that become constants. Raises InvalidModelError for a node that contradicts its
    specification.
    """
    graph = model.graph
    stored = {t.name for t in graph.initializer}
    shapes: dict[str, Dims] = {}
    for value in graph.input:
        kind = value.type.tensor_type
        if kind.elem_type != TensorProto.STRING or value.name in (*stored, *fixed):
            continue
        if kind.HasField("shape"):
            named = dynamic.get(value.name, {})
            shapes[value.name] = _shape(value.name, kind.shape.dim, sizes.get(value.name), named)
    known = {value.name for value in graph.input} | stored
    known |= {t.values.name for t in graph.sparse_initializer}
    names = [value.name for value in graph.output]
    walk = _Walk(model, shapes)
    order = ordered(graph.node, names, known)
    for place, node in order:
        walk.visit(place, node)
    if not walk.steps and not any(name in walk.made for name in names):
        return None
    read = {name for place, node in order if place not in walk.apart for name in reads(node)}
    outputs = {n: walk.made[n] for n in names if n in walk.made and walk.made[n].dtype is None}
    read |= {n for n in names if n in walk.made and n not in outputs}
    # Inputs that only the rest reads are its own affair.
    used = {n for step in walk.steps for n in step["inputs"]} | {v.value for v in outputs.values()}
    handed = {n: walk.made[n] for n in sorted(read) if n in walk.made and n not in walk.constants}
    own = {n: shape for n, shape in shapes.items() if n in used or n in handed}
    return StringPart(own, walk.steps, outputs, handed, walk.apart)


def _shape(
    name: str, declared: Any, sizes: Sequence[Any] | None, named: Mapping[int, Any]
) -> Dims:
    """Sizes, names, and "?" for what is unknown."""
    dims: Dims = [
        int(d.dim_value)
        if d.HasField("dim_value") and d.dim_value >= 0
        else str(d.dim_param) or "?"
        for d in declared
    ]
    if sizes is not None and len(sizes) != len(dims):
        raise InputError(
            f"input {name!r} has rank {len(dims)}, the given shape {tuple(sizes)} has rank "
            f"{len(sizes)}"
        )
    asked = {i: d for i, d in enumerate(sizes or ()) if d is not None} | dict(named)
    for axis, dim in asked.items():
        if not -len(dims) <= axis < len(dims):
            raise InputError(f"input {name!r} has no dimension {axis}")
        dims[axis] = dim if type(dim) is int else str(getattr(dim, "name", dim))
    return dims
