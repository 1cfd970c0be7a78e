"""How far a program's outputs move by rounding alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.ops.numeric import is_float
from cuvil.reference.interpreter import run_op, sizes_of

Array = np.ndarray[Any, Any]
_EXACT = frozenset({"constant", "reshape", "round"})
_OF_WHOLE = frozenset({"add", "sub", "max", "min", "cast", "broadcast", "transpose"})


def outputs_with_noise(
    module: Module,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    seed: int = 0,
    least: float = 0.0,
) -> list[Array]:
    """The reference's outputs when each floating result of an op of the body is off by one unit
    of rounding (at least ``least``), up or down at random, but for whole numbers that are rounded
    to, moved, added or compared, as codes are: those are exact. Where these leave a tolerance, no
    build can be judged by it.
    """
    rng = np.random.default_rng(seed)
    main = module.main
    known: dict[int, Array] = {
        id(v): np.asarray(inputs[n]) for n, v in zip(main.input_names, main.inputs, strict=True)
    }
    last = {id(value): op for op in main.body.ops for value in (*op.operands, *op.results)}
    sizes = dict(symbols)
    for op in main.body.ops:
        operands = [known[id(v)] for v in op.operands]
        if op.name == "func.return":
            return operands
        sizes.update(sizes_of(op, operands))
        results = run_op(op, operands, sizes)
        exact = op.short in _EXACT or (op.short in _OF_WHOLE and all(map(_is_whole, operands)))
        for value, array in zip(op.results, results, strict=True):
            known[id(value)] = array if exact else _noisy(array, rng, least)
        for value in op.operands:
            if last[id(value)] is op:
                known.pop(id(value), None)
    return []


def _is_whole(array: Array) -> bool:
    """Whether all elements are integers that f32 holds."""
    if array.dtype.kind != "f" or not is_float(array):
        return True
    return bool(((np.abs(array) <= 1 << 24) & (array == np.rint(array))).all())


def unit_of(dtype: np.dtype[Any]) -> float:
    """The unit of rounding of a floating dtype: bfloat16 is the one that NumPy does not know."""
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 2.0**-7


def _noisy(array: Array, rng: np.random.Generator, least: float) -> Array:
    if array.dtype.kind != "f" or not is_float(array):
        return array
    signs = rng.integers(0, 2, array.shape, dtype=np.int8) * 2 - 1
    noisy: Array = array * (1 + signs * max(unit_of(array.dtype), least)).astype(array.dtype)
    return noisy
