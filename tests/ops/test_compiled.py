"""Every operator, compiled, against its reference; one without a kernel is named and fails.

Many calls share one library (tests/ops/compiled.py). All calls are compiled without the
optimizer, which is the fast way to judge what codegen wrote; a sample of them again as a model
would be, where loops become vector code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cuvil.errors import InvalidModelError
from cuvil.ir.types import DTYPES, dtype_of
from cuvil.ops.cast import cast_array
from cuvil.ops.registry import registry
from tests.ops.agreement import disagreement
from tests.ops.checks import infer, run
from tests.ops.compiled import Call, batches
from tests.ops.generators import cases
from tests.ops.values import Array, Case, case, specials

_A_LIBRARY = 400
_OPTIMIZED = 12  # calls of each operator compiled with the optimizer
_NARROW = ("int8", "int16", "uint16", "uint32", "uint64")
_TWINS = {"float16": ("bfloat16",), "int32": ("int8", "int16"), "uint8": ("uint16", "uint64")}
_TWINNED = 6
_BASES = ("float32", "int32", "uint8", "int64", "float64")  # what other dtypes are made from
_WEIGHTED = ("matmul", "conv", "conv_transpose")  # compiled with a constant operand too

_ALL = sorted(name.removeprefix("cuvil.") for name in registry())


# Narrow types are moved: a few calls each, of operators that take them, on arbitrary codes.
_STORED = ("f8e4m3fn", "f8e5m2", "f8e8m0fnu", "f4e2m1fn", "i4", "u2")


def _convert(array: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        import ml_dtypes

        with np.errstate(all="ignore"):
            return array.astype(np.float32).astype(ml_dtypes.bfloat16)
    return array.astype(dtype)


def _twins(name: str, found: Sequence[Case]) -> list[Case]:
    """A few of the calls in the dtypes that the generators leave out."""
    twins: list[Case] = []
    for source, targets in _TWINS.items():
        matching = [c for c in found if any(a.dtype == source for a in c.arrays)]
        step = max(1, len(matching) // _TWINNED)
        for target in targets:
            for original in matching[::step]:
                arrays = [_convert(a, target) if a.dtype == source else a for a in original.arrays]
                twin = case(*arrays, **original.attrs)
                if _valid(name, twin):
                    twins.append(twin)
    return twins


def _other_dtypes(name: str, found: Sequence[Case]) -> list[Case]:
    """Two calls in each dtype that the operator takes and none of ``found`` has."""
    tested = {dtype_of(a.dtype) for c in found for a in c.arrays}
    twins: list[Case] = []
    for target in (d for d in DTYPES.values() if not d.is_narrow and d not in tested):
        made: list[Case] = []
        for original in found:
            kinds = [a.dtype.name for a in original.arrays]
            for source in (k for k in _BASES if k in kinds):
                arrays = [
                    cast_array(a, target) if a.dtype == source else a for a in original.arrays
                ]
                twin = case(*arrays, **original.attrs)
                if len(made) < 2 and _valid(name, twin):
                    made.append(twin)
                    break
            if len(made) == 2:
                break
        twins += made
    return twins


def _stored_twins(name: str, found: Sequence[Case]) -> list[Case]:
    """A call in each of some narrow types, whose elements are arbitrary bytes."""
    twins: list[Case] = []
    fitting = [c for c in found if c.arrays and c.arrays[0].dtype == "float32" and c.arrays[0].size]
    if registry()[f"cuvil.{name}"].name in ("cuvil.cast", "cuvil.bitcast"):
        return twins  # their own generator has them all
    for number, target in enumerate(_STORED):
        for original in fitting[number :: len(_STORED)][:2]:
            arrays = [
                np.random.default_rng(number).integers(0, 256, a.shape).astype(np.uint8)
                .reshape(a.shape).view(DTYPES[target].numpy) if a.dtype == "float32" else a
                for a in original.arrays
            ]  # fmt: skip
            twin = case(*arrays, **original.attrs)
            if _valid(name, twin):
                twins.append(twin)
    return twins


def _narrow_specials(name: str) -> list[Case]:
    """Maps over the special values of the narrow integers, each with each."""
    definition = registry()[f"cuvil.{name}"]
    arity = definition.operands[0]
    if definition.fusion != "map" or arity > 2 or definition.attrs:
        return []
    found = []
    for dtype in _NARROW:
        values = specials(dtype)
        grid = np.meshgrid(*[values] * arity, indexing="ij")
        candidate = case(*(g.reshape(-1) for g in grid))
        if _valid(name, candidate):
            found.append(candidate)
    return found


def _valid(name: str, candidate: Case) -> bool:
    try:
        infer(name, candidate)
    except InvalidModelError:
        return False
    return True


def _calls(name: str) -> list[Call]:
    found = list(cases(name, np.random.default_rng(1)))
    every = [*found, *_twins(name, found), *_stored_twins(name, found), *_narrow_specials(name)]
    every += _other_dtypes(name, every)
    calls = [Call(name, c) for c in every]
    if name in _WEIGHTED:
        calls += [Call(name, c, (1,)) for c in every]
    if name == "matmul_blocks":
        calls += [Call(name, c, tuple(range(1, len(c.arrays)))) for c in every]
    return calls


def _groups(names: Sequence[str], count: int) -> list[list[str]]:
    """Names dealt out so that each group has about as many calls as the others."""
    sizes = {n: len(_calls(n)) for n in names}
    groups: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(names, key=lambda n: -sizes[n]):
        min(groups, key=lambda g: sum(sizes[m] for m in g)).append(name)
    return [sorted(g) for g in groups]


def _check(calls: Sequence[Call], opt_level: int) -> None:
    wrong: list[str] = []
    for batch in batches(calls, _A_LIBRARY):
        for call, results in zip(batch.calls, batch.run(opt_level=opt_level), strict=True):
            expected = run(call.name, call.case)
            assert len(results) == len(expected), str(call)
            wrong += [
                f"{problem} (weights {call.weights})"
                for k, (got, want) in enumerate(zip(results, expected, strict=True))
                if (problem := disagreement(call.name, call.case, k, got, want))
            ]
    assert not wrong, f"{len(wrong)} results are wrong:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("names", _groups(_ALL, 16), ids=lambda g: "-".join(g)[:40])
def test_compiled_calls_agree_with_the_reference(names: list[str]) -> None:
    _check([call for name in names for call in _calls(name)], 0)


@pytest.mark.parametrize("names", _groups(_ALL, 8), ids=lambda g: "-".join(g)[:40])
def test_optimized_calls_agree_with_the_reference(names: list[str]) -> None:
    calls = []
    for name in names:
        found = _calls(name)
        picked = np.random.default_rng(2).permutation(len(found))[:_OPTIMIZED]
        calls += [found[i] for i in sorted(picked)]
    _check(calls, 3)
