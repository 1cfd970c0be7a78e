"""What the arguments and options of compiling may be."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

from cuvil.errors import InputError
from cuvil.errors.arguments import FLAG, PATH, TABLE, TEXT, Check, is_list, one_of, whole
from cuvil.errors.words import shown
from cuvil.passes.precision import PRECISIONS
from cuvil.runtime.loader import THREADS
from cuvil.sym.dim import Dim

_DIMS = "whole numbers of at least 0, names of symbolic dims, or cuvil.Dim"
_NAMED = Check(lambda value: is_list(value) and all(isinstance(item, str) for item in value), "")

ARGUMENTS: Mapping[str, Check] = {
    "input_spec": Check(is_list, "a list of (name, dtype, shape)").optional,
    "constraints": Check(is_list, 'a list of texts, such as ["seq % 8 == 0"]'),
    "target": TEXT,
    "precision": one_of(PRECISIONS),
    "enable_fusion": FLAG,
    "verify": FLAG,
    "threads": THREADS,
    "cache": FLAG,
    "profile": Check(
        lambda value: value is None or value is False or PATH.fits(value) or callable(value),
        "a file's path, or a function of (stage, seconds)",
    ),
    "options": TABLE,
}
TARGET = Check(
    lambda value: isinstance(value, str) or _NAMED.fits(value),
    "a target's name, or a list of names",
)

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?")
NAME = Check(
    lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
    "an identifier as C has them, such as 'kws': letters, digits, and underscores between them",
)

_ANY = Check(lambda value: True, "")  # checked where it is read
OPTIONS: Mapping[str, Check] = {
    "chains": FLAG,
    "fixed_inputs": Check(TABLE.fits, "the values by input name: {'shape': array}").optional,
    "flash": _ANY,
    "fuel": whole(0).optional,
    "input_contents": Check(
        TABLE.fits, "the shapes of the tensors by input name: {'xs': [(2, 3), (4, 3)]}"
    ).optional,
    "jobs": whole(1),
    "name": NAME.optional,
    "opt_level": whole(0, 3),
    "profile": FLAG,
    "ram": _ANY,
    "retune": _ANY,
    "tune": _ANY,
    "variants": _ANY,
    "winograd": FLAG,
}


def check_dims(name: str, shape: Any) -> tuple[Any, ...]:
    """A shape's dims, NumPy's numbers as Python's. Raises InputError for what is no shape."""
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise InputError(f"{name} is {shown(shape)}", hint=f"give a list of dims: {_DIMS}")
    return tuple(_dim(name, item) for item in shape)


def _dim(name: str, item: Any) -> Any:
    if isinstance(item, (str, Dim)) or type(item).__module__.startswith("torch."):
        return item
    try:
        size = -1 if isinstance(item, bool) else operator.index(item)
    except TypeError:
        size = -1
    if size < 0:
        raise InputError(f"{name} has the dim {shown(item)}", hint=f"give {_DIMS}")
    return size
