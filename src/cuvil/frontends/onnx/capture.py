"""An ONNX model to a captured module: the driver over graphs, functions and nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from cuvil.errors import InputError, InvalidModelError, UnsupportedNode, UnsupportedOpError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.onnx.choices import Choices, with_choices
from cuvil.frontends.onnx.declared import check_declared
from cuvil.frontends.onnx.dims import Given, InputDims
from cuvil.frontends.onnx.load import load_model, opset_table
from cuvil.frontends.onnx.node import UNCOUNTED, Item, ItemList, LateList, Nothing
from cuvil.frontends.onnx.scope import Context, Scope
from cuvil.frontends.onnx.stretched import warn_of_stretching
from cuvil.frontends.onnx.strings import StringPart, string_part
from cuvil.frontends.onnx.texts import (
    CODES,
    MADE,
    VALUES,
    HostValue,
    MapInput,
    Maps,
    Texts,
    host_tree,
    text_entry,
)
from cuvil.frontends.onnx.types import UnsupportedType, dtype_from, type_name
from cuvil.frontends.onnx.walk import Frame, Walker
from cuvil.ir.core import Module, Value
from cuvil.ir.types import I64, DType, TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.dim import Dim

Shapes = Mapping[str, Sequence[Given]]
Contents = Mapping[str, Sequence[Sequence[Given]] | None]
SEQUENCE_HINT = "say what it holds with input_contents, or give the model tensors instead"


def capture_onnx(
    source: str | os.PathLike[str] | bytes | ModelProto,
    dynamic: Mapping[str, Mapping[int, str | Dim]] | None = None,
    constraints: Sequence[str | Constraint] = (),
    input_shapes: Shapes | None = None,
    fixed_inputs: Mapping[str, np.ndarray[Any, Any] | None] | None = None,
    input_contents: Contents | None = None,
) -> Module:
    """Translate a model, at stage "captured".

    ``dynamic`` names input dims (it wins over the model's declaration), ``input_shapes`` sizes
    them (an entry may also be a name, a Dim, or None for "as declared"). ``fixed_inputs`` gives
    values to inputs that decide shapes or branches: they become constants and leave the call;
    module.source["fixed_inputs"] names them. An optional input is there unless its fixed value is
    None. ``input_contents`` says what an input holds that is a sequence or optional: the shapes of
    its tensors, or None for nothing. A sequence's tensors become inputs of their own, ``name_0``,
    ``name_1`` ...; module.source["contents"] has how many tensors such an output has (or None).
    Strings that stand apart become module.call["host"], the steps that runtime/host.py describes,
    and are no part of the function. Raises InvalidModelError for a malformed model,
    UnsupportedOpError with every node that can't be translated.
    """
    model, folder = load_model(source)
    given = _Given(
        dynamic or {}, constraints, input_shapes or {}, fixed_inputs or {}, input_contents or {}
    )
    return with_choices(lambda choices: _captured(model, folder, given, choices))


@dataclass(frozen=True)
class _Given:
    """What the caller says of the inputs."""

    dynamic: Mapping[str, Mapping[int, str | Dim]]
    constraints: Sequence[str | Constraint]
    shapes: Shapes
    fixed: Mapping[str, np.ndarray[Any, Any] | None]
    contents: Contents


def _captured(model: ModelProto, folder: str | None, given: _Given, choices: Choices) -> Module:
    emitter = Emitter({})
    context = Context(emitter, folder, model, choices)
    strings = string_part(model, given.shapes, given.dynamic, given.fixed)
    inputs = _Inputs(
        model, context, given.dynamic, given.shapes, given.fixed, strings, given.contents
    )  # fmt: skip
    scope = Scope(context, model.graph, inputs.declare(), None)
    asked = inputs.dims.constraints(given.constraints)
    graph_names = [value.name for value in model.graph.output]
    names = [n for n in graph_names if strings is None or n not in strings.outputs]
    graph = model.graph if strings is None else strings.rest(model.graph)
    outputs = Walker(context).graph(Frame(scope, opset_table(model.opset_import), {}), graph, names)
    problems = [*inputs.problems, *context.problems]
    values, labels = _flatten(names, outputs, problems)
    if problems:
        raise UnsupportedOpError(problems)
    made = dict(zip(names, outputs, strict=True))
    learned = emitter.context
    warn_of_stretching(learned.constraints, asked, learned.symbols, inputs.dims.origins)
    as_declared = not (given.dynamic or given.shapes)
    facts = {
        "frontend": "onnx",
        "opset": opset_table(model.opset_import)[""],
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "dims": inputs.dims.originals, "origins": inputs.dims.origins,
        "fixed_inputs": sorted(given.fixed),
        "contents": _counts(made),
        "notes": context.notes + check_declared(model.graph, made, as_declared),
    }  # fmt: skip
    call = _host_call(context, inputs, strings, graph_names, made)
    return emitter.finish(
        values, labels, asked, model.graph.name or "model", source=facts, call=call
    )


def _host_call(
    context: Context,
    inputs: _Inputs,
    strings: StringPart | None,
    graph_names: Sequence[str],
    made: Mapping[str, Item | None],
) -> dict[str, Any]:
    """What of the call Python does: strings and maps, if there are any."""
    if strings is not None:
        every = {n: strings.outputs.get(n, made.get(n)) for n in graph_names}
        tree = host_tree(context.words, inputs.names(), inputs.texts, every)
        return {"host": {**tree, "steps": list(strings.steps), "made": strings.made()}}
    if inputs.texts or any(isinstance(item, (Texts, Maps)) for item in made.values()):
        return {"host": host_tree(context.words, inputs.names(), inputs.texts, made)}
    return {}


class _Inputs:
    """The graph's inputs: those that are constants, those of the call, and their shapes."""

    def __init__(
        self,
        model: ModelProto,
        context: Context,
        dynamic: Mapping[str, Mapping[int, str | Dim]],
        shapes: Shapes,
        fixed: Mapping[str, Any],
        strings: StringPart | None,
        contents: Contents,
    ) -> None:
        self.context = context
        self.strings = strings.inputs if strings is not None else {}
        self.handed = strings.handed if strings is not None else {}
        self.dims = InputDims(context.e.context)
        self.dynamic = dynamic
        self.shapes = shapes
        self.fixed = fixed
        self.contents = contents
        self.problems: list[UnsupportedNode] = []
        self.texts: dict[str, dict[str, Any]] = {}
        stored = {t.name for t in model.graph.initializer}
        stored |= {t.values.name for t in model.graph.sparse_initializer}
        self.protos = [value for value in model.graph.input if value.name not in stored]
        known = {value.name for value in self.protos}
        for name in (*dynamic, *shapes, *fixed, *contents):
            if name not in known:
                raise InputError(
                    f"the model has no input {name!r}",
                    hint=f"its inputs are: {', '.join(sorted(known)) or 'none'}",
                )

    def declare(self) -> dict[str, Item | None]:
        """Emit the function's arguments; name to value (None for one that can't be)."""
        seen: set[str] = set()
        for proto in self.protos:
            if proto.name in seen:
                raise InvalidModelError(f"the model has two inputs called {proto.name!r}")
            seen.add(proto.name)
            if proto.name not in self.fixed and proto.type.HasField("tensor_type"):
                self.dims.learn(*self._dims(proto))
        found: dict[str, Item | None] = {}
        for proto in self.protos:
            if proto.name in self.strings and proto.name not in self.handed:
                entry = {"name": proto.name, "dtype": "str", "shape": self.strings[proto.name]}
                self.texts[proto.name] = entry
            else:
                found[proto.name] = self._declare(proto)
        made = {n: v for n, v in self.handed.items() if n not in self.strings}
        return found | {name: self._made(name, value) for name, value in made.items()}

    def _made(self, name: str, value: HostValue) -> Item:
        """What steps make of strings, as an input of the library."""
        dims = ["" if d == "?" else d for d in value.shape]
        shape = self.dims.shape(name, dims, {})
        if value.dtype is None:
            return Texts(self.context.e.input(name + CODES, TensorType(shape, I64)))
        return self.context.e.input(name + MADE, TensorType(shape, value.dtype))

    def names(self) -> list[str]:
        """The inputs of the call in order, those of strings too."""
        return [proto.name for proto in self.protos if proto.name not in self.fixed]

    def _declare(self, proto: Any) -> Item | None:
        kind = proto.type.WhichOneof("value") or "no type"
        if proto.name in self.contents:
            held = self.contents[proto.name]
            inner = proto.type.optional_type.elem_type if kind == "optional_type" else proto.type
            return Nothing() if held is None else self._held(proto.name, inner, held)
        if kind == "map_type":
            return self._map(proto)
        if kind == "optional_type":
            return self._optional(proto)
        if kind != "tensor_type":
            word = kind.removesuffix("_type")
            reason = f"the input is of kind {word}, and how many tensors it holds is not known"
            place = f"input {proto.name}"
            self.problems.append(UnsupportedNode(word, "", place, reason, SEQUENCE_HINT))
            return None
        if proto.type.tensor_type.elem_type == TensorProto.STRING:
            return self._text(proto)
        dtype = self._dtype(proto.name, proto.type.tensor_type.elem_type)
        if dtype is None:
            return None
        if proto.name in self.fixed:
            return self._fixed(proto.name, dtype)
        declared, given = self._dims(proto)
        shape = self.dims.shape(proto.name, declared, given)
        return self.context.e.input(proto.name, TensorType(shape, dtype))

    def _text(self, proto: Any) -> Texts:
        """Strings, which the library gets as numbers."""
        words = self.context.words
        if proto.name in self.fixed:
            array = np.asarray(self.fixed[proto.name])
            numbers = words.numbers(str(w) for w in array.reshape(-1)).reshape(array.shape)
            return Texts(self.context.e.weight(numbers, proto.name))
        shape = self.dims.shape(proto.name, *self._dims(proto))
        self.texts[proto.name] = text_entry(proto.name, shape)
        return Texts(self.context.e.input(proto.name + CODES, TensorType(shape, I64)))

    def _map(self, proto: Any) -> MapInput:
        """A map, of which the library gets the values of keys that the model names."""
        kind = proto.type.map_type
        columns = self.context.words.columns.setdefault(proto.name, [])
        texts = kind.key_type == TensorProto.STRING
        values = kind.value_type.tensor_type.elem_type
        self.texts[proto.name] = {
            "name": proto.name, "dtype": "map", "columns": columns,
            "key": "str" if texts else "i64", "value": type_name(values),
        }  # fmt: skip
        return MapInput(proto.name, texts, values)

    def _optional(self, proto: Any) -> Item | None:
        """What the optional holds, or nothing."""
        if proto.name in self.fixed and self.fixed[proto.name] is None:
            return Nothing()
        held = ValueInfoProto(name=proto.name)
        held.type.CopyFrom(proto.type.optional_type.elem_type)
        return self._declare(held)

    def _dtype(self, name: str, code: int) -> DType | None:
        try:
            return dtype_from(code)
        except UnsupportedType as error:
            reason = f"tensors of type {error} are not supported"
            self.problems.append(UnsupportedNode("input", str(error), f"input {name}", reason))
            return None

    def _held(self, name: str, kind: Any, shapes: Sequence[Sequence[Given]]) -> Item | None:
        """A sequence of tensors of these shapes, or the only one of them."""
        listed = kind.HasField("sequence_type")
        tensor = kind.sequence_type.elem_type.tensor_type if listed else kind.tensor_type
        dtype = self._dtype(name, tensor.elem_type)
        if dtype is None:
            return None
        if not listed and len(shapes) != 1:
            raise InvalidModelError(f"input {name!r} holds one tensor, not {len(shapes)}")
        items = []
        for i, given in enumerate(shapes):
            label = f"{name}_{i}" if listed else name
            shape = self.dims.shape(label, [""] * len(given), dict(enumerate(given)))
            items.append(self.context.e.input(label, TensorType(shape, dtype)))
        return ItemList(tuple(items)) if listed else items[0]

    def _fixed(self, name: str, dtype: DType) -> Value:
        array = np.asarray(self.fixed[name])
        if array.dtype != dtype.numpy:
            raise InvalidModelError(f"input {name!r} is {dtype}, its fixed value {array.dtype}")
        return self.context.e.weight(array, name)

    def _dims(self, proto: Any) -> tuple[list[Any], dict[int, Given]]:
        asked = self.shapes.get(proto.name)
        if proto.type.tensor_type.HasField("shape"):
            declared = [
                int(d.dim_value) if d.HasField("dim_value") else d.dim_param
                for d in proto.type.tensor_type.shape.dim
            ]
        elif asked is not None:
            declared = [""] * len(asked)
        else:
            raise InvalidModelError(
                f"input {proto.name!r} has no declared shape",
                hint=f'give one, as in input_spec=[("{proto.name}", None, ("n", 3, 224, 224))]',
            )
        if asked is not None and len(asked) != len(declared):
            raise InputError(
                f"input {proto.name!r} has rank {len(declared)}, the given shape {tuple(asked)} "
                f"has rank {len(asked)}"
            )
        given: dict[int, Given] = {i: d for i, d in enumerate(asked or ()) if d is not None}
        for axis, name in self.dynamic.get(proto.name, {}).items():
            if not -len(declared) <= axis < len(declared):
                rank = len(declared)
                raise InputError(
                    f"dynamic_dims names axis {axis} of {proto.name!r}, which has rank {rank}",
                    hint=f"axes are 0 to {rank - 1}" if rank else "a scalar has no axes",
                )
            given[axis % len(declared)] = name
        return declared, given


def _flatten(
    names: Sequence[str], outputs: Sequence[Item | None], problems: list[UnsupportedNode]
) -> tuple[list[Value], list[str]]:
    values: list[Value] = []
    labels: list[str] = []
    for name, item in zip(names, outputs, strict=True):
        if isinstance(item, LateList):
            reason = "how many tensors the sequence has is found when the model runs"
            dtype = str(item.item.dtype)
            problems.append(UnsupportedNode("output", dtype, f"output {name}", reason, UNCOUNTED))
        elif item is not None:
            values.extend(_values(item))
            labels.extend(_labels(name, item))
        elif not problems:
            problems.append(UnsupportedNode("output", "", name, "it was not computed"))
    return values, labels


def _values(item: Item) -> list[Value]:
    if isinstance(item, ItemList):
        return list(item.items)
    if isinstance(item, (Texts, Maps)):
        return [item.value]
    if isinstance(item, Value):
        return [item]
    if isinstance(item, Nothing):
        return []
    raise InvalidModelError("an output of the model is a map, as it came in")


def _labels(name: str, item: Item | None) -> list[str]:
    """The names of an output's tensors: its own, or one for each item of a sequence."""
    if isinstance(item, ItemList):
        return [f"{name}_{i}" for i in range(len(item.items))]
    if isinstance(item, Nothing):
        return []
    return [name + CODES if isinstance(item, Texts) else
            name + VALUES if isinstance(item, Maps) else name]  # fmt: skip


def _counts(outputs: Mapping[str, Item | None]) -> dict[str, int | None]:
    """How many tensors the outputs hold that are no single tensor; None for nothing."""
    return {
        name: len(item.items) if isinstance(item, ItemList) else None
        for name, item in outputs.items()
        if isinstance(item, (ItemList, Nothing))
    }
