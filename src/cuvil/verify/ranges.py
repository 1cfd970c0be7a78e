"""Which numbers an integer input may hold, read off how the program uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cuvil.ir.control import inside, is_control
from cuvil.ir.core import Module, Op, Value

# Ops that hand the same numbers on.
_THROUGH = ("cast", "reshape", "broadcast", "transpose", "slice", "concat")
_LIMIT = 1 << 16


def integer_limits(module: Module) -> dict[str, int]:
    """By name of integer inputs, a number that all their elements should stay below.

    An index stays below the size of the dimension it looks into, whatever is looked up; what is
    compared with constants, as one-hot encoding does, reaches one beyond the largest. Inputs whose
    use tells nothing are left out.
    """
    found = {}
    main = module.main
    for name, value in zip(main.input_names, main.inputs, strict=True):
        if value.type.dtype.kind not in "iu":
            continue
        indices, compared = _limits(value)
        if indices:
            found[name] = min(indices)
        elif compared:
            # A mask is compared with 0 alone, and must not be made of nothing else.
            found[name] = min(max(2, *compared), _LIMIT)
    return {name: limit for name, limit in found.items() if limit > 0}


def _limits(value: Value) -> tuple[list[int], list[int]]:
    """Sizes that the value indexes, and one beyond each constant that it is compared with."""
    indices: list[int] = []
    compared: list[int] = []
    seen = {id(value)}
    work = [value]
    while work:
        current = work.pop()
        for (_, place), op in current.uses.items():
            indices += _indexed(op, place)
            compared += _compared(op, current)
            handed = inside(op, place) if is_control(op) else []
            if op.short in _THROUGH or handed:
                fresh = [r for r in handed or op.results if id(r) not in seen]
                seen.update(id(r) for r in fresh)
                work += fresh
    return indices, compared


def _indexed(op: Op, place: int) -> Iterator[int]:
    """The static size of the dimension that operand ``place`` of ``op`` looks into; 1 where an
    open number of images is looked into, as the first is there."""
    if op.short == "gather" and place == 1:
        size = op.operands[0].type.shape[op.attrs["axis"]]
        if isinstance(size, int):
            yield size
    if op.short == "roi_align" and place == 2:
        images = op.operands[0].type.shape[0]
        yield images if isinstance(images, int) else 1


def _compared(op: Op, value: Value) -> Iterator[int]:
    if op.short != "eq":
        return
    for other in op.operands:
        array = _constant(other) if other is not value else None
        if array is not None and array.size:
            yield int(array.max()) + 1


def _constant(value: Value) -> np.ndarray[Any, Any] | None:
    while value.op is not None and value.op.short in _THROUGH and len(value.op.operands) == 1:
        value = value.op.operands[0]
    op = value.op
    return op.attrs["value"].array if op is not None and op.short == "constant" else None
