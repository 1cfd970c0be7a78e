"""Sizes to verify at: within bounds and constraints, small, with 1 and odd ones where allowed."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.errors import CuvilError
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.verify.inputs import make_inputs, spread_of_sizes


def _signature(
    *dims: int | str, rules: tuple[str, ...] = (), **bounds: tuple[int, int]
) -> Signature:
    symbols = [SymbolSpec(d, *bounds.get(d, (0, None))) for d in dims if isinstance(d, str)]
    return Signature(
        (TensorSpec("x", "f32", dims),), (), tuple(symbols),
        tuple(ConstraintSpec(rule) for rule in rules),
    )  # fmt: skip


def test_one_and_odd_numbers() -> None:
    found = spread_of_sizes(_signature("batch", "seq"), {})
    assert len(found) == 3
    assert {s["batch"] for s in found} == {1, 2, 3}
    assert any(s["seq"] == 1 for s in found) and any(s["seq"] % 2 and s["seq"] > 1 for s in found)


def test_multiples_stay_small() -> None:
    """One symbol's rule does not make the others large."""
    signature = _signature("n", 3, "h", "w", rules=("h % 32 == 0", "w % 32 == 0"))
    for sizes in spread_of_sizes(signature, {}):
        assert sizes["n"] <= 3 and sizes["h"] == sizes["w"] == 32
    odd = spread_of_sizes(_signature("seq", rules=("seq % 300 == 0",)), {})
    assert [s["seq"] for s in odd] == [300, 600, 900]


def test_bounds_and_the_example_come_first() -> None:
    signature = _signature("n", "m", rules=("n * m <= 40",), m=(5, 512))
    found = spread_of_sizes(signature, {"x": np.zeros((4, 10))})
    assert found[0] == {"n": 4, "m": 10}
    assert all(s["m"] >= 5 and s["n"] * s["m"] <= 40 for s in found)


def test_no_size_is_said() -> None:
    with pytest.raises(CuvilError, match="no sizes of n were found"):
        spread_of_sizes(_signature("n", rules=("n % 1009 == 5", "n % 1013 == 7")), {})


def test_an_example_of_rank_0_keeps_its_rank() -> None:
    specs = (TensorSpec("n", "f32", ()),)
    rng = np.random.default_rng(0)
    made = make_inputs(Signature(specs, ()), {}, {"n": np.full((), 3, np.float32)}, rng)
    assert made["n"].shape == () and made["n"] == 3
