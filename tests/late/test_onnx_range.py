"""Range-11 of integers: as many elements as Python's range has, over the whole of each type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from cuvil.errors import CuvilError, InvalidModelError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import INT64, model, node
from tools.quick_build import quick_build

BITS = {INT64: 64, TensorProto.INT32: 32, TensorProto.INT16: 16}
SCALARS = ("a", "b", "c")


def _cases(bits: int) -> list[tuple[int, int, int]]:
    """(start, limit, step) with few elements: most a span apart that the type has no number for."""
    low, high, quarter = -(1 << bits - 1), (1 << bits - 1) - 1, 1 << bits - 2
    return [
        (low, high, quarter), (high, low, low), (low, high, high), (high, low, -quarter),
        (quarter, -quarter - 5, -quarter // 2), (low, low, 1), (high, high, low), (low, high, low),
        (high - 2, high, 1), (low + 3, low, -1), (low + 1, low + 3, 1), (low, 0, high),
        (-1, high, quarter), (0, low, low), (0, 2, high), (2, 0, low), (1, high, quarter - 1),
    ]  # fmt: skip


def test_the_lengths_of_some() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    assert len(range(low, high, 1 << 62)) == 4
    assert len(range(1 << 62, -(1 << 62) - 5, -(1 << 61))) == 5


@pytest.mark.parametrize("kind", BITS)
def test_ends_that_a_call_gives(kind: int, tmp_path: Path) -> None:
    dtype = np.dtype(f"i{BITS[kind] // 8}")
    module = capture_onnx(
        model([node("Range", [*SCALARS], ["y"])], {n: (kind, []) for n in SCALARS}, ["y"])
    )
    artifact = quick_build(module, tmp_path)
    for case in _cases(BITS[kind]):
        expected = np.array(list(range(*case)), dtype)
        feed = {name: np.array(v, dtype) for name, v in zip(SCALARS, case, strict=True)}
        for found in (artifact.run(feed)["y"], run_module(module, feed)[0]):
            assert found.dtype == dtype, case
            np.testing.assert_array_equal(found, expected, str(case))


@pytest.mark.parametrize("kind", BITS)
def test_ends_that_are_constants(kind: int) -> None:
    dtype = np.dtype(f"i{BITS[kind] // 8}")
    for case in _cases(BITS[kind]):
        given = {name: np.array(v, dtype) for name, v in zip(SCALARS, case, strict=True)}
        nodes = [node("Range", [*SCALARS], ["line"]), node("Add", ["line", "x"], ["y"])]
        module = capture_onnx(model(nodes, {"x": (kind, [])}, ["y"], given))
        found = run_module(module, {"x": np.zeros((), dtype)})[0]
        np.testing.assert_array_equal(found, np.array(list(range(*case)), dtype), str(case))


@pytest.mark.parametrize("case", [(0, (1 << 63) - 1, 1), (-(1 << 63), (1 << 63) - 1, 1)])
def test_more_than_there_is_memory_for_is_refused(
    case: tuple[int, int, int], tmp_path: Path
) -> None:
    nodes = [node("Range", [*SCALARS], ["y"])]
    given = {name: np.array(v, np.int64) for name, v in zip(SCALARS, case, strict=True)}
    module = capture_onnx(model(nodes, {n: (INT64, []) for n in SCALARS}, ["y"]))
    with pytest.raises(CuvilError, match=r"memory|range_size is 9223372036854775807"):
        quick_build(module, tmp_path).run(given)
    with pytest.raises(InvalidModelError, match="Range: .* elements"):
        capture_onnx(model(nodes, {}, ["y"], given))
