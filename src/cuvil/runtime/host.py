"""Steps of a model that run in Python before its native code: what a library has no type for.

``manifest.extra["host"]`` is an object with the keys

- ``steps``: objects with ``op`` (a name in OPERATORS), ``inputs``, ``outputs`` (names of string
  tensors) and ``attributes``, in the order of execution
- ``inputs``: every input of the model in the order of a call. One with a ``dtype`` of "str" is a
  string tensor and has a ``shape`` (sizes, names of dims, "?" for unknown); one with no dtype is
  the input of that name in the signature
- ``outputs``: likewise; a string one also has ``value``, the name of the tensor that it is

String tensors are NumPy object arrays of Python's str.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.runtime.arrays import is_masked

Array = np.ndarray[Any, Any]
STRING = "str"
_CASES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
)


@dataclass(frozen=True)
class HostOperator:
    """A pure function of string arrays and attributes, with how many arrays go in and come out.

    ``attributes`` tells for each attribute whether a value of it is well formed.
    """

    run: Callable[..., tuple[Array, ...]]
    inputs: int
    outputs: int
    attributes: Mapping[str, Callable[[Any], bool]]


def string_normalizer(
    x: Array,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    stopwords: Sequence[str] = (),
    locale: str = "",
) -> tuple[Array]:
    """Drop stop words, then change the case: ONNX StringNormalizer, opset 10.

    ``x`` is [C] or [1, C]; the result has its rank, and one empty string if no word is left. The
    comparison comes first, on the words as they are (in lower case unless it is case sensitive).
    Case is changed as Unicode has it, whatever the ``locale``. Raises ShapeConstraintError.
    """
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ShapeConstraintError(
            f"StringNormalizer takes strings of shape [C] or [1, C], not {list(x.shape)}"
        )
    key: Callable[[str], str] = str if is_case_sensitive else str.lower
    stop = {key(word) for word in stopwords}
    change = _CASES[case_change_action]
    words = [change(word) for word in x.reshape(-1) if key(word) not in stop]
    found = np.array(words or [""], dtype=object)
    return (found.reshape((1,) * (x.ndim - 1) + (-1,)),)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


OPERATORS: Mapping[str, HostOperator] = MappingProxyType(
    {
        "string_normalizer": HostOperator(
            string_normalizer, 1, 1,
            MappingProxyType({
                "case_change_action": lambda v: isinstance(v, str) and v in _CASES,
                "is_case_sensitive": lambda v: type(v) is int and v in (0, 1),
                "stopwords": _is_texts,
                "locale": lambda v: isinstance(v, str),
            }),
        ),
    }
)  # fmt: skip


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
    output the name of its tensor."""

    steps: tuple[HostStep, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    values: Mapping[str, str]

    @staticmethod
    def read(tree: Any, signature: Signature) -> HostPlan:
        """The plan that a manifest holds.

        Raises ArtifactError for a malformed one, and for an operator this version doesn't have.
        """
        if not isinstance(tree, dict):
            raise _malformed("it is not an object")
        inputs = _specs(tree.get("inputs"), signature.inputs, "input")
        outputs = _specs(tree.get("outputs"), signature.outputs, "output")
        known = {spec.name for spec in inputs if spec.dtype == STRING}
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
            if item.get("dtype") == STRING
        }
        for name, value in values.items():
            if not isinstance(value, str) or value not in known:
                raise _malformed(f"output {name!r} is {value!r}, which nothing makes")
        return HostPlan(tuple(steps), inputs, outputs, values)

    def run(self, strings: Mapping[str, Array]) -> dict[str, Array]:
        """The string outputs by name, new arrays, from the string inputs by name."""
        values = dict(strings)
        for step in self.steps:
            operator = OPERATORS[step.op]
            results = operator.run(*(values[n] for n in step.inputs), **step.attributes)
            values.update(zip(step.outputs, results))
        return {name: values[value].copy() for name, value in self.values.items()}


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


def _specs(value: Any, numeric: Sequence[TensorSpec], kind: str) -> tuple[TensorSpec, ...]:
    """Specs in public order; the numeric ones must be all of the signature's, in its order."""
    table = {spec.name: spec for spec in numeric}
    found = []
    for item in _objects(value, f"{kind}s"):
        name, dtype, shape = item.get("name"), item.get("dtype"), item.get("shape")
        if not isinstance(name, str) or name in {spec.name for spec in found}:
            raise _malformed(f"an {kind} is named {name!r}")
        if dtype is None and name in table:
            found.append(table[name])
            continue
        if dtype != STRING or name in table:
            raise _malformed(f"{kind} {name!r} has dtype {dtype!r}")
        if not isinstance(shape, list) or not all(type(d) in (int, str) for d in shape):
            raise _malformed(f"the shape of {kind} {name!r} is {shape!r}")
        found.append(TensorSpec(name, STRING, tuple(shape)))
    if [spec for spec in found if spec.dtype != STRING] != list(numeric):
        raise _malformed(f"its {kind}s are not those of the signature")
    return tuple(found)


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
        if not _is_texts(value) or len(value) != count:  # type: ignore[arg-type]
            raise _malformed(f"{op} has {key} {value!r}")
        names.append(tuple(value))  # type: ignore[arg-type]
    if not isinstance(attributes, dict):
        raise _malformed(f"{op} has attributes {attributes!r}")
    for key, value in attributes.items():
        check = operator.attributes.get(key)
        if check is None or not check(value):
            raise _malformed(f"{op} has the attribute {key} = {value!r}")
    return HostStep(str(op), names[0], names[1], attributes)
