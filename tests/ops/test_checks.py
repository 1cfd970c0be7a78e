"""The comparer rejects what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.checks import assert_matches, check_against
from tests.ops.generators import cases


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.float32([1.0]), np.float32([1.0001])),
        (np.float32([1.0]), np.float32([np.nan])),
        (np.float32([np.inf]), np.float32([-np.inf])),
        (np.float32([1e-6]), np.float32([0.0])),
        (np.float16([1.0]), np.float16([1.01])),
        (np.int64([2**53 + 1]), np.int64([2**53])),
        (np.float32([1.0]), np.float32([[1.0]])),
        (np.zeros(0, np.float32), np.zeros((0, 1), np.float32)),
    ],
)
def test_a_wrong_result_is_rejected(got: np.ndarray, want: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        assert_matches(got, want, "wrong")


def test_rounding_is_accepted() -> None:
    assert_matches(np.float32([1.0, np.nan]), np.float32([1.000001, np.nan]), "close")


def test_an_oracle_that_knows_nothing_is_rejected() -> None:
    with pytest.raises(AssertionError, match="no case of abs"):
        check_against("abs", lambda c: None)


def test_a_wrong_oracle_is_rejected() -> None:
    with pytest.raises(AssertionError):
        check_against("reduce_sum", lambda c: [c.arrays[0]])


def test_cases_are_the_same_for_the_same_seed() -> None:
    first, second = (list(cases("cuvil.add", np.random.default_rng(3))) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        for x, y in zip(a.arrays, b.arrays, strict=True):
            np.testing.assert_array_equal(x, y)
    with pytest.raises(KeyError):
        next(cases("no_such_op", np.random.default_rng(0)))
