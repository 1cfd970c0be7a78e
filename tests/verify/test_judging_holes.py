"""What a comparison must not let pass: each bound is held by a result that is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.ir.core import Block, Function, Module
from cuvil.verify.either import as_stored, compare_either
from cuvil.verify.report import compare
from cuvil.verify.tolerance import movement
from tests.frontends.torch_helper import Fn

_INF, _NAN = math.inf, math.nan
# A source that is run on inputs off by a unit is not interpreted.
_UNUSED = Module(Function("main", Block(), [], []))
_I0 = torch.tensor(
    [0.0, 1.0, -1.0, 0.5, 1e38, -1e38, _INF, -_INF, _NAN, 88.8, -104.0, 1e5, -7.3]
)  # fmt: skip


def _either(expected: Any, exact: Any, found: Any) -> bool:
    arrays = ([np.array(a)] for a in (expected, exact, found))
    return compare_either(["y"], *arrays, 1e-5, 1e-3)[0].passed


def test_an_overflow_of_the_model_is_excused_beside_other_ends() -> None:
    """In f32, i0(-104) is an infinity, which float64 doesn't give: it is beyond f32's largest."""
    with cuvil.compile(Fn(torch.i0), (_I0,), cache=False) as artifact:
        got = artifact(_I0).double()
        report = cuvil.verify(artifact, (_I0,))
    want = torch.i0(_I0.double()).float().double()
    assert torch.allclose(got, want, rtol=1e-5, equal_nan=True)
    assert report.passed
    assert bool(report.source_off) == (float(torch.i0(_I0)[9]) == _INF)


F = np.float32


def test_each_element_is_one_of_the_two() -> None:
    expected, exact = F([_INF, 1.0, 2.0, _NAN]), np.array([1e37, 1.0, 2.5, _INF])
    for found, passed in (
        ([_INF, 1.0, 2.0, _NAN], True), ([1e37, 1.0, 2.0, _NAN], True),
        ([1e37, 1.0, 2.5, _INF], True), ([_INF, 1.0, 2.5, _NAN], True),
        ([1.1e37, 1.0, 2.0, _NAN], False), ([1e37, 1.0, 2.2, _NAN], False),
        ([1e37, 1.1, 2.0, _NAN], False), ([1e37, 0.0, 2.0, _NAN], False),
        ([1e37, 1.0, 2.0, 3.0], False), ([1e37, 1.0, 2.0, -_INF], False),
        ([_NAN, 1.0, 2.0, _NAN], False), ([-_INF, 1.0, 2.0, _NAN], False),
    ):  # fmt: skip
        assert _either(expected, exact, F(found)) == passed, found
    assert _either([1, 2], [1, 3], [1, 3]) and not _either([1, 2], [1, 3], [2, 3])
    assert not _either(F([1.0, 2.0]), [1.0, 2.0], F([1.0]))


def test_a_number_that_only_float64_holds_is_no_scale() -> None:
    expected, exact = F([_INF, 1.0]), np.array([1e43, 1.0])
    assert as_stored(exact, np.dtype(F)).tolist() == [_INF, 1.0]
    assert _either(expected, exact, F([_INF, 1.0]))
    for found in ([_INF, 5.0], [_INF, 1e30], [1e38, 1.0]):
        assert not _either(expected, exact, F(found))


def test_masks_at_the_end_of_the_range_are_no_scale() -> None:
    for dtype in (np.float32, np.float64):
        low = np.finfo(dtype).min
        right = np.array([low, 1.0, 0.5], dtype)
        for found, passed in (([low, 1.0, 0.5], True), ([low, 1.0, 0.6], False),
                              ([low, 1.000001, 0.5], True), ([0.0, 1.0, 0.5], False)):  # fmt: skip
            (error,) = compare(["y"], [right], [np.array(found, dtype)], 1e-5, 1e-3)
            assert error.passed == passed
    (error,) = compare(["y"], [F([-3.4e38])], [F([-3.39e38])], 1e-5, 1e-3)
    assert not error.passed


def test_a_model_of_masked_scores_is_checked() -> None:
    low = torch.finfo(torch.float32).min
    model = Fn(lambda x: torch.where(x > 0, x.exp(), low))
    x = torch.tensor([1.0, -1.0, 2.0])
    with cuvil.compile(model, (x,)) as artifact:
        assert cuvil.verify(artifact).passed
        artifact.source.origin.model = Fn(lambda x: torch.where(x > 0, x.exp() + 1, low))
        assert not cuvil.verify(artifact).passed


@pytest.mark.parametrize(("found", "passed"), [(0, True), (99, True), (50, False), (3, False)])
def test_a_place_that_rounding_moves_is_one_of_those_it_moves_to(found: int, passed: bool) -> None:
    """Two maxima that one unit of rounding tells apart: no other place is right."""
    x = np.zeros(100, np.float32)
    x[[0, 99]] = 1.0

    def run(inputs: Any) -> list[np.ndarray]:
        return [np.argmax(inputs["x"], keepdims=True)]

    given = [np.array([found])]
    allowed = movement(_UNUSED, run, {"x": x}, {}, found=given)
    (error,) = compare(["y"], run({"x": x}), given, 1e-5, 1e-3, allowed)
    assert error.passed == passed


def test_whole_numbers_that_move_by_a_step_or_by_little_are_as_before() -> None:
    x = np.full(64, 0.5, np.float32)

    def run(inputs: Any) -> list[np.ndarray]:
        y = inputs["x"].astype(np.float64)
        return [np.round(y).astype(np.int8), (y * 2**30).astype(np.int64)]

    found = run({"x": x})
    step, large = movement(_UNUSED, run, {"x": x}, {}, found=found)
    assert step.max() == 4 and large.max() == 4 * 2**6
