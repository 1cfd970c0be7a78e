"""The part of a graph that works on strings, where it stands apart from the numbers.

String tensors that flow from inputs through StringNormalizer and Identity to outputs become steps
that an artifact runs in Python (runtime/host.py says what they look like). A graph that does
anything else with strings has no such part: its translation refuses the nodes it can't express.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.attributes import node_attributes, python_value
from cuvil.frontends.onnx.graph import node_label, ordered, reads
from cuvil.frontends.onnx.load import opset_table
from cuvil.frontends.onnx.scope import domain_of

_ATTRIBUTES: Mapping[str, Any] = {
    "case_change_action": "NONE", "is_case_sensitive": 0, "stopwords": [], "locale": "",
}  # fmt: skip
_CASES = ("NONE", "LOWER", "UPPER")
_SINCE = 10  # the opset that brought StringNormalizer
Dims = list["int | str"]


@dataclass(frozen=True)
class _Strings:
    """A string tensor: the name the steps have for it, and its shape."""

    value: str
    shape: Dims


@dataclass(frozen=True)
class StringPart:
    """String inputs by name with their shapes, the steps, and string outputs by name."""

    inputs: Mapping[str, Dims]
    steps: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, _Strings]

    def tree(self, inputs: Sequence[str], outputs: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Plain data for the manifest. ``inputs`` are all inputs' names in order; ``outputs`` has
        for each output of the graph the names of the artifact's outputs it became."""
        ins = [_entry(n, self.inputs[n]) if n in self.inputs else {"name": n} for n in inputs]
        outs = []
        for names in outputs:
            for name in names:
                made = self.outputs.get(name)
                outs.append(
                    {"name": name}
                    if made is None
                    else {**_entry(name, made.shape), "value": made.value}
                )
        return {"steps": [dict(s) for s in self.steps], "inputs": ins, "outputs": outs}


def string_part(
    model: ModelProto,
    sizes: Mapping[str, Sequence[Any]],
    dynamic: Mapping[str, Mapping[int, Any]],
    fixed: Collection[str],
) -> StringPart | None:
    """The part of a model that works on strings, None where there is none that stands apart.

    ``sizes`` and ``dynamic`` are dims by input name that replace the declared ones, ``fixed`` the
    inputs that become constants. Raises InvalidModelError for a node that contradicts its
    specification.
    """
    graph = model.graph
    stored = {t.name for t in graph.initializer}
    shapes: dict[str, Dims] = {}
    for value in graph.input:
        kind = value.type.tensor_type
        if kind.elem_type != TensorProto.STRING or value.name in stored:
            continue
        if not kind.HasField("shape") or value.name in fixed:
            return None
        named = dynamic.get(value.name, {})
        shapes[value.name] = _shape(value.name, kind.shape.dim, sizes.get(value.name), named)
    if not shapes:
        return None
    made = {name: _Strings(name, shape) for name, shape in shapes.items()}
    known = {value.name for value in graph.input} | stored
    known |= {t.values.name for t in graph.sparse_initializer}
    names = [value.name for value in graph.output]
    functions = {(domain_of(f.domain), f.name) for f in model.functions}
    version = opset_table(model.opset_import)[""]
    steps = []
    for i, node in ordered(graph.node, names, known):
        if made.keys().isdisjoint(reads(node)):
            continue
        known_op = not domain_of(node.domain) and ("", node.op_type) not in functions
        if not known_op or len(node.input) != 1 or len(node.output) != 1:
            return None
        if node.op_type == "Identity":
            made[node.output[0]] = made[node.input[0]]
        elif node.op_type == "StringNormalizer" and version >= _SINCE:
            x = made[node.input[0]]
            step = _normalizer(node, node_label(node, i), x)
            steps.append(step)
            made[node.output[0]] = _Strings(node.output[0], [*x.shape[:-1], "?"])
        else:
            return None
    return StringPart(shapes, steps, {name: made[name] for name in names if name in made})


def _entry(name: str, shape: Dims) -> dict[str, Any]:
    return {"name": name, "dtype": "str", "shape": list(shape)}


def _shape(
    name: str, declared: Any, sizes: Sequence[Any] | None, named: Mapping[int, Any]
) -> Dims:
    """Sizes, names, and "?" for what is unknown."""
    dims: Dims = [
        int(d.dim_value) if d.dim_value > 0 else str(d.dim_param) or "?" for d in declared
    ]
    if sizes is not None and len(sizes) != len(dims):
        raise InvalidModelError(
            f"input {name!r} has rank {len(dims)}, the given shape {tuple(sizes)} has rank "
            f"{len(sizes)}"
        )
    asked = {i: d for i, d in enumerate(sizes or ()) if d is not None} | dict(named)
    for axis, dim in asked.items():
        if not -len(dims) <= axis < len(dims):
            raise InvalidModelError(f"input {name!r} has no dimension {axis}")
        dims[axis] = dim if type(dim) is int else str(getattr(dim, "name", dim))
    return dims


def _normalizer(node: NodeProto, label: str, x: _Strings) -> dict[str, Any]:
    where = f"{label} (StringNormalizer)"
    attributes = dict(_ATTRIBUTES)
    for name, raw in node_attributes(node, {}).items():
        value = python_value(raw)
        if name not in attributes or type(value) is not type(attributes[name]):
            raise InvalidModelError(f"the attribute {name!r} is not one of it", where=where)
        attributes[name] = value
    if attributes["case_change_action"] not in _CASES or attributes["is_case_sensitive"] not in (
        0, 1,
    ):  # fmt: skip
        raise InvalidModelError(f"its attributes are {attributes}", where=where)
    rank = len(x.shape)
    if rank not in (1, 2) or (rank == 2 and isinstance(x.shape[0], int) and x.shape[0] != 1):
        raise InvalidModelError(f"it takes [C] or [1, C], not {x.shape}", where=where)
    return {
        "op": "string_normalizer", "inputs": [x.value], "outputs": [node.output[0]],
        "attributes": attributes,
    }  # fmt: skip
