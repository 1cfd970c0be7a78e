"""The codes of a library as errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvil.errors import CuvilError, InputError, NoMemoryError, ShapeConstraintError
from cuvil.ir.signature import Signature

# Codes of native/abi.h.
_SHAPE, _CONSTRAINT, _MEMORY, _INDEX = 5, 6, 13, 14


def failure(
    signature: Signature, code: int, fault: Any, table: Mapping[str, int]
) -> Exception:
    """What a code of the library means, in plain words: ``fault`` are the two
    numbers beside it; ``table`` has the symbols' values."""
    try:
        if code == _SHAPE:
            signature.check_symbol(signature.symbols[fault[0]].name, fault[1])
        if code == _CONSTRAINT:
            signature.check_constraint(signature.numbered[fault[0]], table)
    except CuvilError as error:
        return error
    if code == _INDEX:
        return InputError(
            f"the model looked up index {fault[0]} in a dimension of size {max(fault[1], 0)}",
            hint="check the inputs that hold indices, such as token numbers",
        )
    if code == _MEMORY and fault[1] >= 0:
        return NoMemoryError(f"no memory for {fault[1]} bytes of a size that was computed")
    return ShapeConstraintError("the sizes that were computed need too much memory")
