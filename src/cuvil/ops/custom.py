"""Operators that users define, beside those of the house.

A registered operator has one implementation: C++ (one element, or whole tensors), a composition
of other operators, or a Python function that runs in this process. All but compositions become an
ordinary OpDef, so that every stage treats them like the house's own.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.errors import InputError, InvalidModelError, VerificationError
from cuvil.errors.arguments import FUNCTION, TABLE, TEXT, Check, check_all, one_of
from cuvil.errors.words import shown
from cuvil.ir.types import DTYPES, DType, TensorType, dtype_of
from cuvil.ops.base import TOLERANCE_CLASSES, Array, Attrs, OpDef, ShapeContext

_NAME = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_.]*)::)?([A-Za-z_][A-Za-z0-9_]*)")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ATTR_KINDS = ("bool", "int", "ints", "float", "floats", "str")
DIALECT = "custom"
_ARGUMENTS: Mapping[str, Check] = {
    "shape": FUNCTION.optional,
    "attrs": TABLE,
    "cxx": TEXT.optional,
    "function": TEXT.optional,
    "fusion": one_of(("map", "kernel")),
    "compose": FUNCTION.optional,
    "python": FUNCTION.optional,
    "reference": FUNCTION.optional,
    "tolerance": one_of(TOLERANCE_CLASSES),
}


@dataclass(frozen=True)
class CustomOp:
    """A registered operator. ``definition`` is None for a composition.

    ``source`` is C++ text that defines ``function``; ``attrs`` maps an attribute's name to its
    kind, in the order they are passed. ``digest`` tells one text from another, not functions.
    """

    name: str
    attrs: Mapping[str, str]
    definition: OpDef | None
    compose: Callable[..., Any] | None = None
    python: Callable[..., Any] | None = None
    shape: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    has_reference: bool = True
    source: str = ""
    function: str = ""
    digest: str = ""

    @property
    def has_shape(self) -> bool:
        """Whether it says itself what its results are like: a map without a rule broadcasts."""
        return self.shape is not None or (
            self.definition is not None and self.definition.fusion == "map"
        )

    @property
    def namespace(self) -> str:
        """The C++ namespace that holds its source."""
        return "custom_" + identifier(self.name)


@dataclass
class CustomTable:
    """The operators registered in this process, by name and by their OpDef's name."""

    _by_name: dict[str, CustomOp] = field(default_factory=dict)
    _by_definition: dict[str, CustomOp] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, op: CustomOp, replace: bool) -> None:
        """Raises InputError where the name is taken, unless it is to be replaced."""
        with self._lock:
            if op.name in self._by_name and not replace:
                raise InputError(
                    f"an operator {op.name!r} is registered already", hint="pass replace=True"
                )
            old = self._by_name.pop(op.name, None)
            if old is not None and old.definition is not None:
                del self._by_definition[old.definition.name]
            self._by_name[op.name] = op
            if op.definition is not None:
                self._by_definition[op.definition.name] = op

    def clear(self) -> None:
        """Forget them all."""
        with self._lock:
            self._by_name.clear()
            self._by_definition.clear()

    def find(self, name: str) -> CustomOp | None:
        """By the name it was registered under."""
        return self._by_name.get(name)

    def of(self, op_name: str) -> CustomOp | None:
        """By the full name of the IR's op."""
        return self._by_definition.get(op_name)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The Python functions among them, by name."""
        return {op.name: op.python for op in self if op.python is not None}

    def __iter__(self) -> Iterator[CustomOp]:
        return iter(sorted(self._by_name.values(), key=lambda op: op.name))


# What users registered holds for a process, as for every framework's custom operators.
CUSTOM = CustomTable()


def identifier(name: str) -> str:
    """``ns::op`` as a C++ name, different for different names."""
    return name.replace("::", "__").replace(".", "_")


def make_custom(
    name: str,
    shape: Callable[..., Any] | None,
    attrs: Mapping[str, str],
    cxx: str | None,
    function: str | None,
    fusion: str,
    compose: Callable[..., Any] | None,
    python: Callable[..., Any] | None,
    reference: Callable[..., Any] | None,
    tolerance: str,
) -> CustomOp:
    """Checked and put together. Raises InputError that says what is missing or contradicts."""
    check_all(_ARGUMENTS, locals(), f"of operator {shown(name)}, ")
    _check(name, attrs, cxx, function, fusion, compose, python)
    if compose is not None:
        return CustomOp(name, dict(attrs), None, compose)
    entry = function or name.rsplit("::", 1)[-1]
    source = _wrapped(name, cxx) if cxx is not None else ""
    numpy_rule = python if python is not None else reference
    operator = identifier(name) if "::" in name else f"op__{name}"
    definition = OpDef(
        f"{DIALECT}.{operator}",
        fusion if cxx is not None else "kernel",
        _inference(name, shape),
        _numpy_reference(name, numpy_rule),
        (0, None),
        dict.fromkeys(() if fusion == "map" and cxx is not None else attrs, "attr"),
        tolerance,
        scalar=_scalar(name, entry) if fusion == "map" and cxx is not None else None,
        source=source,
        doc=f"registered as {name}",
    )
    text = json.dumps([name, source, entry, fusion, sorted(attrs.items()), tolerance])
    key = hashlib.sha256(text.encode()).hexdigest()
    return CustomOp(
        name, dict(attrs), definition, None, python, shape, reference, numpy_rule is not None,
        source, entry, key,
    )  # fmt: skip


def _check(
    name: str, attrs: Mapping[str, str], cxx: str | None, function: str | None, fusion: str,
    compose: Any, python: Any,
) -> None:  # fmt: skip
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{shown(name)} is no operator's name", hint='use "namespace::operator"')
    ways = {"cxx": cxx, "compose": compose, "python": python}
    given = [way for way, value in ways.items() if value is not None]
    if len(given) != 1:
        raise InputError(
            f"operator {name!r} has {' and '.join(given) or 'no implementation'}",
            hint="give one of cxx (source text), compose and python (functions)",
        )
    if function is not None and not _FUNCTION.fullmatch(function):
        raise InputError(f"{function!r} is no C++ function's name")
    for key, kind in attrs.items():
        if not isinstance(key, str) or not key.isidentifier() or kind not in ATTR_KINDS:
            raise InputError(
                f"attribute {key!r} of operator {name!r} has the kind {kind!r}",
                hint=f"the kinds are {', '.join(ATTR_KINDS)}",
            )
        if fusion == "map" and cxx is not None and kind not in ("bool", "int", "float"):
            raise InputError(f"attribute {key!r} of the map {name!r} must be a number")
    entry = function or name.rsplit("::", 1)[-1]
    if cxx is not None and not re.search(rf"\b{re.escape(entry)}\b", cxx):
        raise InputError(
            f"the source of operator {name!r} has no function {entry}",
            hint="define it, or say which function it is with function=",
        )


def _wrapped(name: str, source: str) -> str:
    """The source in a namespace of its own, its includes before it. The compiler's messages count
    its lines, under the operator's name."""
    lines = source.splitlines()
    includes = [line for line in lines if line.lstrip().startswith("#include")]
    body = ["" if line in includes else line for line in lines]
    head = "".join(f"{line}\n" for line in includes)
    space = f"custom_{identifier(name)}"
    inside = "\n".join([f'#line 1 "{name}"', *body])
    return f"{head}namespace {space} {{\nnamespace {{\n{inside}\n}}\n}}  // namespace {space}\n"


def _scalar(name: str, function: str) -> Callable[[Sequence[str], Sequence[DType], DType], str]:
    def text(operands: Sequence[str], types: Sequence[DType], result: DType) -> str:
        return f"custom_{identifier(name)}::{function}({', '.join(operands)})"

    return text


def _inference(
    name: str, shape: Callable[..., Any] | None
) -> Callable[[ShapeContext, Sequence[TensorType], Attrs], list[TensorType]]:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        if shape is None:
            if not types:
                raise InvalidModelError(f"{name} without inputs needs a shape rule")
            return [types[0].with_shape(ctx.broadcast([t.shape for t in types], name))]
        return result_types(name, shape(*types, **attrs))

    return infer


def result_types(name: str, given: Any) -> list[TensorType]:
    """What a shape rule gave, as types: a TensorType, (shape, dtype), or a list of such."""
    several = isinstance(given, list) or (
        isinstance(given, tuple) and all(isinstance(g, TensorType) for g in given)
    )
    return [_one_type(name, item) for item in (given if several else [given])]


def _one_type(name: str, item: Any) -> TensorType:
    if isinstance(item, TensorType):
        return item
    if isinstance(item, tuple) and len(item) == 2:
        return TensorType(tuple(item[0]), _dtype(name, item[1]))
    raise InvalidModelError(
        f"the shape rule of {name} gives {item!r}", hint="return (shape, dtype) or a list of such"
    )


def _dtype(name: str, given: Any) -> DType:
    if isinstance(given, DType):
        return given
    if isinstance(given, str) and given in DTYPES:
        return DTYPES[given]
    try:
        return dtype_of(given)
    except (KeyError, TypeError):
        raise InvalidModelError(f"the shape rule of {name} gives the dtype {given!r}") from None


def _numpy_reference(
    name: str, function: Callable[..., Any] | None
) -> Callable[[Sequence[Array], Attrs, Sequence[TensorType]], list[Array]]:
    def reference(
        arrays: Sequence[Array], attrs: Attrs, types: Sequence[TensorType]
    ) -> list[Array]:
        if function is None:
            raise VerificationError(
                f"operator {name} has no reference to compare with",
                hint="register it with reference=, or compile with verify=False",
            )
        got = function(*arrays, **attrs)
        results = list(got) if isinstance(got, (tuple, list)) else [got]
        if len(results) != len(types):
            raise VerificationError(f"{name} gives {len(results)} results, not {len(types)}")
        return [np.asarray(r, t.dtype.numpy) for r, t in zip(results, types, strict=True)]

    return reference
