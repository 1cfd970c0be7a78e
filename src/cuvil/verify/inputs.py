"""Inputs to verify with: the user's examples at other sizes, or generated ones."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import CuvilError, NoMemoryError
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.ir.types import NARROW_INTEGERS
from cuvil.ops.cast import cast_array
from cuvil.sym.expr import evaluate

Array = np.ndarray[Any, Any]
_SIZES = (2, 1, 3, 7, 16, 5, 32, 64)
_CANDIDATES = (1, 2, 3, 5, 7, 8, 16, 17, 32, 48, 64, 96, 128, 224, 256)
_TRIALS = 3
_MOST_CHOICES = 4096


def spread_of_sizes(signature: Signature, examples: Mapping[str, Array]) -> list[dict[str, int]]:
    """A few assignments of sizes to symbols that the bounds and constraints allow: the examples'
    own first, then small ones with 1 and odd numbers among them where they are allowed."""
    found: list[dict[str, int]] = []
    if examples:
        try:
            shapes = [examples[s.name].shape for s in signature.inputs]
            found.append(signature.bind(shapes))
        except (CuvilError, KeyError):
            pass
    if not signature.early:
        return found or [{}]
    names = [s.name for s in signature.early]
    choices = _choices(signature, found[0] if found else {})
    if not any(allowed_sizes(signature, dict(zip(names, values))) for values in choices):
        choices = _choices(signature, {}, 0)  # a size that must be 0
    for shift in range(_TRIALS):
        wanted = [_SIZES[(shift * (k + 1) + k) % len(_SIZES)] for k in range(len(names))]
        for values in sorted(choices, key=lambda sizes: _distance(sizes, wanted)):
            table = dict(zip(names, values))
            if table not in found and allowed_sizes(signature, table):
                found.append(table)
                break
    if not found:
        raise CuvilError(
            f"no sizes of {', '.join(names)} were found that satisfy the constraints",
            hint="pass example inputs",
        )
    return found


def sizes_inside(
    signature: Signature,
    ranges: Mapping[str, tuple[int, int | None]],
    wanted: Callable[[Mapping[str, int]], bool],
    near: Mapping[str, int] | None = None,
) -> dict[str, int] | None:
    """Small sizes, or some ``near`` to those, that are ``wanted``, and that the bounds and
    constraints allow, with each of these symbols in its range (low included, high not); None where
    none were found."""
    names = [s.name for s in signature.early]
    each = []
    for name, sizes in zip(names, _each_choices(signature, {})):
        low, high = ranges.get(name, (0, None))
        ends = {low, low + 1, *((high - 1,) if high is not None else ())} if name in ranges else ()
        more = {*ends, *sizes, *((near[name],) if near else ())}
        each.append(sorted(n for n in more if n >= low and (high is None or n < high)))
    goal = [near[name] for name in names] if near else []

    def order(values: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        return (_distance(values, goal) if near else math.prod(values)), values

    for values in sorted(_combined(each), key=order):
        table = dict(zip(names, values))
        if wanted(table) and allowed_sizes(signature, table):
            return table
    return None


def _choices(
    signature: Signature, known: Mapping[str, int], lowest: int = 1
) -> list[tuple[int, ...]]:
    """Sizes to try for all symbols: every combination of usual ones, or some of the many."""
    return _combined(_each_choices(signature, known, lowest))


def _each_choices(
    signature: Signature, known: Mapping[str, int], lowest: int = 1
) -> list[list[int]]:
    numbers = {int(n) for c in signature.constraints for n in re.findall(r"\d+", c.text)}
    usual = {*_CANDIDATES, *(k * n for n in numbers for k in (1, 2, 3))}
    each = []
    for s in signature.early:
        low = min(max(s.min, lowest), s.highest)  # zero is for tests of their own
        sizes = {low, min(low + 1, s.highest), known.get(s.name, low)}
        each.append(sorted(sizes | {n for n in usual if low <= n <= s.highest}))
    return each


def _combined(each: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    if math.prod(len(sizes) for sizes in each) <= _MOST_CHOICES:
        return list(itertools.product(*each))
    rng = random.Random(0)
    return [tuple(rng.choice(sizes) for sizes in each) for _ in range(_MOST_CHOICES)]


def _distance(sizes: Sequence[int], wanted: Sequence[int]) -> float:
    """How far sizes are from what is wanted, in octaves; smaller counts twice."""
    octaves = [math.log2((a + 1) / (b + 1)) for a, b in zip(sizes, wanted)]
    return sum(max(x, -2 * x) for x in octaves) + 1e-3 * sum(sizes)


def allowed_sizes(signature: Signature, table: Mapping[str, int]) -> bool:
    """Whether inputs of these sizes are among those that the signature takes."""
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
    limits: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Inputs of these sizes: examples repeated or cut along each axis, else random ones.

    Offsets, which rise from 0 to the size of another input, do so at other sizes too. Random
    integers stay below the input's number in ``limits``, and are 0 or 1 without one. Raises
    NoMemoryError, naming the input, where there is not the memory.
    """
    below = limits or {}
    out = {}
    for spec in signature.inputs:
        shape = tuple(evaluate(d, sizes) for d in spec.dims)
        example = examples.get(spec.name)
        try:
            end = _end_of(spec, signature, sizes, examples) if spec.name not in below else None
            if example is not None and end is not None:
                out[spec.name] = _offsets(example, shape[0], end)
            elif example is not None and example.size:
                out[spec.name] = _resized(example, shape)
            else:
                out[spec.name] = _random(spec, shape, rng, below.get(spec.name, 2))
        except MemoryError:
            size = math.prod(shape) * spec.element.size
            raise NoMemoryError(
                f"no memory to make up the input {spec.name!r} to verify with, {list(shape)} of "
                f"{spec.dtype}: {size} bytes",
                hint="give smaller sizes, or compile with verify=False (--no-verify)",
                stage="verify",
            ) from None
    return out


def _end_of(
    spec: TensorSpec, signature: Signature, sizes: Mapping[str, int], examples: Mapping[str, Array]
) -> int | None:
    """Where an example is offsets, the size that they are to end at; None for any other."""
    line = examples.get(spec.name)
    if line is None or line.ndim != 1 or line.dtype.kind not in "iu" or line.size < 2:
        return None
    if line[0] != 0 or line[-1] == 0 or (line[1:] < line[:-1]).any():
        return None
    for other in signature.inputs:
        shape = examples[other.name].shape if other.name in examples else ()
        if other is not spec and shape and shape[0] == line[-1]:
            return evaluate(other.dims[0], sizes)
    return None


def _offsets(example: Array, size: int, end: int) -> Array:
    """As many offsets as asked, that rise to ``end`` about as the example's do to theirs."""
    picks = np.linspace(0, example.size - 1, size).astype(np.int64)
    wide = example[picks].astype(np.int64) * end // int(example[-1])
    return wide.astype(example.dtype)


def _resized(example: Array, shape: tuple[int, ...]) -> Array:
    for axis, size in enumerate(shape):
        if example.shape[axis] != size:
            picks = np.arange(size) % example.shape[axis]
            example = np.take(example, picks, axis=axis)
    return np.array(example, order="C")  # ascontiguousarray would give rank 0 a dimension


def _random(
    spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, below: int
) -> Array:
    dtype = spec.element
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_narrow:
        whole = dtype in NARROW_INTEGERS
        small = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)
        return cast_array(np.asarray(small, np.float32), dtype)
    highest = min(below, int(np.iinfo(dtype.numpy).max))
    return rng.integers(0, max(1, highest), shape).astype(dtype.numpy)
