"""Inputs to verify with: the user's examples at other sizes, or generated ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.errors import CuvilError
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.sym.expr import evaluate

Array = np.ndarray[Any, Any]
_SIZES = (2, 1, 3, 7, 16, 5, 32, 64)
_TRIALS = 3


def spread_of_sizes(signature: Signature, examples: Mapping[str, Array]) -> list[dict[str, int]]:
    """A few assignments of sizes to symbols that the bounds and constraints allow: the examples'
    own first, then small ones with 1 and odd numbers among them."""
    found: list[dict[str, int]] = []
    if examples:
        try:
            shapes = [examples[s.name].shape for s in signature.inputs]
            found.append(signature.bind(shapes))
        except (CuvilError, KeyError):
            pass
    if not signature.symbols:
        return found or [{}]
    names = [s.name for s in signature.symbols]
    for shift in range(64):
        table = {}
        for number, symbol in enumerate(signature.symbols):
            wanted = _SIZES[(shift * (number + 1) + number) % len(_SIZES)] * (1 + shift // 8)
            table[symbol.name] = max(symbol.min, min(wanted, symbol.highest))
        if table not in found and _allowed(signature, table):
            found.append(table)
        if len(found) >= _TRIALS + bool(examples):
            break
    if not found:
        raise CuvilError(
            f"no sizes of {', '.join(names)} were found that satisfy the constraints",
            hint="pass example inputs",
        )
    return found


def _allowed(signature: Signature, table: Mapping[str, int]) -> bool:
    try:
        shapes = [tuple(evaluate(d, table) for d in s.dims) for s in signature.inputs]
        return signature.bind(shapes) == dict(table)
    except CuvilError:
        return False


def make_inputs(
    signature: Signature,
    sizes: Mapping[str, int],
    examples: Mapping[str, Array],
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Inputs of these sizes: examples repeated or cut along each axis, else random ones."""
    out = {}
    for spec in signature.inputs:
        shape = tuple(evaluate(d, sizes) for d in spec.dims)
        example = examples.get(spec.name)
        if example is not None and example.size:
            out[spec.name] = _resized(example, shape)
        else:
            out[spec.name] = _random(spec, shape, rng)
    return out


def _resized(example: Array, shape: tuple[int, ...]) -> Array:
    for axis, size in enumerate(shape):
        if example.shape[axis] != size:
            picks = np.arange(size) % example.shape[axis]
            example = np.take(example, picks, axis=axis)
    return np.ascontiguousarray(example)


def _random(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    dtype = spec.element
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(0, 2, shape).astype(dtype.numpy)
