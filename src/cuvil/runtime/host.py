"""What of a model runs in Python beside its native code: what a library has no type for.

``manifest.extra["host"]`` is an object with the keys

- ``steps``: objects with ``op`` (a name in OPERATORS of text_ops.py), ``inputs``, ``outputs``
  (names of tensors) and ``attributes``, in the order of execution
- ``made``: which of the library's inputs are tensors of the steps: objects with ``input``,
  ``value`` (the name in the steps) and ``codes``, whether it is one of strings
- ``inputs``: every input of the model in the order of a call. One with a ``dtype`` of "str" is a
  string tensor and has a ``shape`` (sizes, names of dims, "?" for unknown); one with no dtype is
  the input of that name in the signature
- ``outputs``: likewise; a string one also has ``value``, the name of the tensor that it is

Strings that the library moves or looks up are numbers there (runtime/coded.py): such an input or
output has ``codes``, the library's tensor, instead of a part in the steps, and ``vocabulary`` has
the strings that the model names. One with a ``dtype`` of "map" is a dict: as an input it has
``key``, ``value`` and ``columns``, the library's inputs and their keys; as an output it is a list
of dicts and has ``values``, the library's output, and its ``keys``.

String tensors are NumPy object arrays of Python's str.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.runtime.arrays import is_masked
from cuvil.runtime.coded import (
    Codes,
    MapSpec,
    are_keys,
    map_spec,
    maps_of_rows,
    rows_of_map,
    texts,
)
from cuvil.runtime.text_ops import OPERATORS, is_texts

Array = np.ndarray[Any, Any]
STRING, MAP = "str", "map"


@dataclass(frozen=True)
class HostStep:
    """One operator on tensors by name."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class HostPlan:
    """All steps, and the model's inputs and outputs in order; ``values`` has for each string
    output of a step the name of its tensor. ``coded`` has for inputs and outputs of strings the
    library's tensor, ``maps`` the inputs that are maps, ``zipped`` the outputs that are, each with
    the library's output and its keys. ``made`` has for the library's inputs that steps make the
    name of the tensor, and whether it is one of strings."""

    steps: tuple[HostStep, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    values: Mapping[str, str]
    coded: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, MapSpec] = field(default_factory=dict)
    zipped: Mapping[str, tuple[str, tuple[Any, ...]]] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, tuple[str, bool]] = field(default_factory=dict)

    @staticmethod
    def read(tree: Any, signature: Signature) -> HostPlan:
        """The plan that a manifest holds.

        Raises ArtifactError for a malformed one, and for an operator this version doesn't have.
        """
        if not isinstance(tree, dict):
            raise _malformed("it is not an object")
        made = _made(tree.get("made", []))
        library = signature.inputs
        inputs, codes_in, maps, _ = _specs(tree.get("inputs"), library, "input", list(made))
        outputs, codes_out, _, zipped = _specs(tree.get("outputs"), signature.outputs, "output")
        words = tree.get("vocabulary", [])
        if not is_texts(words) or len(set(words)) != len(words):
            raise _malformed("its vocabulary is no list of different texts")
        known = {s.name for s in inputs if s.dtype == STRING}
        steps = []
        for item in _objects(tree.get("steps"), "steps"):
            step = _step(item)
            for name in step.inputs:
                if name not in known:
                    raise _malformed(f"{step.op} reads {name!r}, which nothing makes")
            for name in step.outputs:
                if name in known:
                    raise _malformed(f"{name!r} is made twice")
                known.add(name)
            steps.append(step)
        values = {
            item["name"]: item.get("value")
            for item in tree["outputs"]
            if item.get("dtype") == STRING and "codes" not in item
        }
        for name, value in values.items():
            if not isinstance(value, str) or value not in known:
                raise _malformed(f"output {name!r} is {value!r}, which nothing makes")
        for name, (value, _) in made.items():
            if value not in known:
                raise _malformed(f"the library's {name!r} is {value!r}, which nothing makes")
        numbers = {word: i for i, word in enumerate(words)}
        coded = {**codes_in, **codes_out}
        return HostPlan(tuple(steps), inputs, outputs, values, coded, maps, zipped, numbers, made)

    def codes(self) -> Codes:
        """The numbers of strings, for one call."""
        return Codes(self._vocabulary, self.words)

    @cached_property
    def _vocabulary(self) -> Array:
        return texts(self.words)

    def numbers(self, given: Mapping[str, Any], codes: Codes) -> dict[str, Any]:
        """The library's inputs, from all inputs by name; strings are object arrays of str."""
        found: dict[str, Any] = {}
        if self.made:
            values = self._values(given)
            for name, (value, texts) in self.made.items():
                found[name] = codes.encode(values[value]) if texts else values[value]
        for spec in self.inputs:
            value = given[spec.name]
            if spec.name in self.maps:
                found.update(rows_of_map(spec.name, value, self.maps[spec.name], codes))
            elif spec.name in self.coded:
                found[self.coded[spec.name]] = codes.encode(value)
            elif spec.dtype != STRING:
                found[spec.name] = value
        return found

    def decoded(self, found: Mapping[str, Any], codes: Codes) -> dict[str, Any]:
        """Outputs of strings and maps, from the library's outputs by name."""
        made: dict[str, Any] = {}
        for spec in self.outputs:
            if spec.name in self.zipped:
                name, keys = self.zipped[spec.name]
                made[spec.name] = maps_of_rows(np.asarray(found[name]), keys)
            elif spec.name in self.coded:
                made[spec.name] = codes.decode(np.asarray(found[self.coded[spec.name]]))
        return made

    def run(self, strings: Mapping[str, Array]) -> dict[str, Array]:
        """The string outputs by name, new arrays, from the string inputs by name."""
        values = self._values(strings)
        return {name: values[value].copy() for name, value in self.values.items()}

    def made_shapes(self, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """The shapes of the library's inputs that steps make. Raises InputError where strings are
        given as shapes alone."""
        for spec in self.inputs:
            if self.made and spec.dtype == STRING and not isinstance(given[spec.name], np.ndarray):
                raise InputError(f"the sizes depend on the strings in {spec.name!r}: give them")
        values = self._values(given) if self.made else {}
        return {name: values[value].shape for name, (value, _) in self.made.items()}

    def _values(self, strings: Mapping[str, Array]) -> dict[str, Array]:
        """All tensors of the steps by name."""
        values = dict(strings)
        for step in self.steps:
            operator = OPERATORS[step.op]
            results = operator.run(*(values[n] for n in step.inputs), **step.attributes)
            values.update(zip(step.outputs, results))
        return values


def string_input(value: Any, spec: TensorSpec) -> Array:
    """An input as a new object array of str.

    Raises InputError for anything but a NumPy array of str, ShapeConstraintError for a rank or
    size that ``spec`` rules out.
    """
    place = f"input {spec.name!r}"
    hint = "pass a NumPy array of str"
    if isinstance(value, np.str_):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise InputError(f"{place} takes strings, not {type(value).__name__}", hint=hint)
    if is_masked(value):
        raise InputError(f"{place} is a masked array", hint="pass array.filled(...) instead")
    array = np.array(value, dtype=object)
    if value.dtype.kind not in "UOT" or not all(isinstance(v, str) for v in array.flat):
        what = "an object that is no str" if value.dtype.kind in "OT" else str(value.dtype)
        raise InputError(f"{place} takes strings, not {what}", hint=hint)
    fits = array.ndim == spec.rank and all(
        not isinstance(dim, int) or dim == given for dim, given in zip(spec.shape, array.shape)
    )
    if not fits:
        raise ShapeConstraintError(
            f"{place} has shape {list(array.shape)}; expected "
            f"[{', '.join(str(d) for d in spec.shape)}]"
        )
    return array


def _malformed(what: str) -> ArtifactError:
    return ArtifactError(f"the manifest's host steps are malformed: {what}")


def _objects(value: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise _malformed(f"{place} is not a list of objects")
    return value


def _made(value: Any) -> dict[str, tuple[str, bool]]:
    """The library's inputs that steps make, with the tensor's name and whether it has strings."""
    found: dict[str, tuple[str, bool]] = {}
    for item in _objects(value, "made"):
        name, source, texts = item.get("input"), item.get("value"), item.get("codes")
        fits = isinstance(name, str) and isinstance(source, str) and isinstance(texts, bool)
        if not fits or name in found:
            raise _malformed(f"an input that is made is {item!r}")
        found[str(name)] = (str(source), bool(texts))
    return found


def _specs(
    value: Any, numeric: Sequence[TensorSpec], kind: str, made: Sequence[str] = ()
) -> Any:
    """Specs in public order, and what stands for those that are none of the library's: coded
    strings, maps in, maps out, and what steps have ``made``. All of the library's must be there,
    in its order where they are public."""
    table = {spec.name: spec for spec in numeric}
    found: list[TensorSpec] = []
    coded: dict[str, str] = {}
    maps: dict[str, MapSpec] = {}
    zipped: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for item in _objects(value, f"{kind}s"):
        name, dtype, shape = item.get("name"), item.get("dtype"), item.get("shape", [])
        if not isinstance(name, str) or name in {spec.name for spec in found}:
            raise _malformed(f"an {kind} is named {name!r}")
        if dtype is None and name in table:
            found.append(table[name])
            continue
        if dtype not in (STRING, MAP) or name in table:
            raise _malformed(f"{kind} {name!r} has dtype {dtype!r}")
        if not isinstance(shape, list) or not all(type(d) in (int, str) for d in shape):
            raise _malformed(f"the shape of {kind} {name!r} is {shape!r}")
        found.append(TensorSpec(name, dtype, tuple(shape)))
        if dtype == MAP and kind == "input":
            maps[name] = map_spec(item, _malformed)
        elif dtype == MAP:
            keys = item.get("keys")
            if not are_keys(keys, str) and not are_keys(keys, int):
                raise _malformed(f"the keys of {name!r} are {keys!r}")
            zipped[name] = (str(item.get("values")), tuple(keys or ()))
        elif "codes" in item:
            coded[name] = str(item["codes"])
    hidden = [*made, *coded.values(), *(c for m in maps.values() for c, _ in m.columns)]
    hidden += [values for values, _ in zipped.values()]
    public = [spec.name for spec in found if spec.dtype not in (STRING, MAP)]
    if sorted([*public, *hidden]) != sorted(table) or public != [n for n in table if n in public]:
        raise _malformed(f"its {kind}s are not those of the signature")
    return tuple(found), coded, maps, zipped


def _step(item: Mapping[str, Any]) -> HostStep:
    op, attributes = item.get("op"), item.get("attributes")
    operator = OPERATORS.get(op) if isinstance(op, str) else None
    if operator is None:
        raise ArtifactError(
            f"the package needs the host operator {op!r}, which this cuvil does not have",
            hint="upgrade cuvil, or compile the model again with this version",
        )
    names = []
    for key, count in (("inputs", operator.inputs), ("outputs", operator.outputs)):
        value = item.get(key)
        if not is_texts(value) or len(value) != count:  # type: ignore[arg-type]
            raise _malformed(f"{op} has {key} {value!r}")
        names.append(tuple(value))  # type: ignore[arg-type]
    if not isinstance(attributes, dict):
        raise _malformed(f"{op} has attributes {attributes!r}")
    for key, value in attributes.items():
        check = operator.attributes.get(key)
        if check is None or not check(value):
            raise _malformed(f"{op} has the attribute {key} = {value!r}")
    return HostStep(str(op), names[0], names[1], attributes)
