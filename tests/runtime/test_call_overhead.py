"""The short path of a call takes no value that isn't its own to take."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.errors import InputError
from cuvil.runtime.arrays import data_pointers, taker
from tests.verify.models import compiled


@pytest.mark.parametrize("array", [np.zeros(5), np.zeros((3, 4), np.int8)[1:, 2:], np.zeros(())])
def test_the_pointer_is_where_the_first_element_lies(array: np.ndarray) -> None:
    pointers = data_pointers()
    assert pointers is not None
    assert pointers[id(array) >> 3] == array.__array_interface__["data"][0]


def test_values_are_taken_in_order() -> None:
    values = {"b": 1, "a": 2}
    assert taker(["a", "b"])(values) == (2, 1)
    assert taker(["b"])(values) == (1,) and taker([])(values) == ()


def test_a_wrong_name_among_the_right_number_is_named() -> None:
    x = np.zeros((2, 6), np.float32)
    with compiled() as artifact:
        with pytest.raises(InputError, match="there is no input 'z'; the inputs are x"):
            artifact.run({"z": x})
        with pytest.raises(InputError, match="input 'x' is missing"):
            artifact.run({})
        with pytest.raises(InputError, match="inputs are ndarray; expected a dict"):
            artifact.run(x)  # type: ignore[arg-type]
