"""ONNX operators whose axes or lengths are data or symbols, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx_models import FLOAT, INT64
from tests.late.test_onnx import AXES, Model, data, folder  # noqa: F401  (a fixture)

Array = np.ndarray[Any, Any]


def test_running_sums_along_an_axis_that_is_data(folder: Path) -> None:  # noqa: F811
    m = Model(folder, "CumSum", {"x": (FLOAT, ["n", 3, 2]), "axis": (INT64, [])},
              lambda x, axis: np.cumsum(x, int(axis)))  # fmt: skip
    for axis in (0, 1, 2, -1, -3):
        m(data(4, 3, 2), axis)
    for axis in (3, -4, 1 << 40):
        m.refuses(data(4, 3, 2), axis, words="axis")


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMean"])
def test_reductions_over_axes_that_are_data(folder: Path, op: str, keep: int) -> None:  # noqa: F811
    function = {"ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMean": np.mean}[op]
    m = Model(
        folder, op, {"x": (FLOAT, ["n", 3, 2]), "axes": (INT64, [2])},
        lambda x, axes: function(x, axis=tuple(axes % 3), keepdims=bool(keep)),
        keepdims=keep, tolerance=1e-6,
    )  # fmt: skip
    for axes in ((0, 1), (2, 0), (-1, 1)):
        m(data(4, 3, 2), axes)
    for axes in ((1, 1), (0, 3), (-1, 2)):
        m.refuses(data(4, 3, 2), axes, words=AXES)


def test_reductions_over_some_number_of_axes(folder: Path) -> None:  # noqa: F811
    m = Model(
        folder, "ReduceSum", {"x": (FLOAT, ["n", 3, 2]), "axes": (INT64, ["k"])},
        lambda x, axes: np.sum(x, axis=tuple(axes) if axes.size else None, keepdims=True),
    )  # fmt: skip
    for axes in ([], [1], [2, 0], [-1, 1, 0]):
        m(data(4, 3, 2), np.array(axes, np.int64))
    m.refuses(data(4, 3, 2), [1, 1, 1, 1], words=AXES)


def test_dims_of_one_come_and_go_where_data_says(folder: Path) -> None:  # noqa: F811
    m = Model(folder, "Squeeze", {"x": (FLOAT, ["n", 1, "k"]), "axes": (INT64, [1])},
              lambda x, axes: np.squeeze(x, int(axes[0])))  # fmt: skip
    m(data(4, 1, 3), [1])
    m(data(1, 1, 3), [0])
    m(data(4, 1, 1), [-1])
    m.refuses(data(4, 1, 3), [0])
    m = Model(folder, "Unsqueeze", {"x": (FLOAT, ["n", 3]), "axes": (INT64, [2])},
              lambda x, axes: np.expand_dims(x, tuple(axes)))  # fmt: skip
    for axes in ((0, 1), (3, 0), (-1, 1), (2, 1)):
        m(data(4, 3), axes)
    m.refuses(data(4, 3), (1, 1), words=AXES)
    m.refuses(data(4, 3), (0, 4), words=AXES)


def _parts(z: Array) -> Array:
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize(("inverse", "onesided"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transforms_of_any_length(folder: Path, inverse: int, onesided: int) -> None:  # noqa: F811
    kind = {(0, 0): np.fft.fft, (0, 1): np.fft.rfft, (1, 0): np.fft.ifft}

    def expected(x: Array) -> Array:
        if not inverse:
            return _parts(kind[0, onesided](x[..., 0], axis=1))
        z = x[..., 0] + 1j * x[..., 1]
        if onesided:
            return np.fft.irfft(z, axis=1)[..., None]
        return _parts(np.fft.ifft(z, axis=1))

    m = Model(
        folder, "DFT", {"x": (FLOAT, [2, "n", 1 + inverse])}, expected, inverse=inverse,
        onesided=onesided, opset=20, tolerance=2e-5,
    )  # fmt: skip
    for size in (2, 5, 8, 67):
        x = np.random.default_rng(size).standard_normal((2, size, 1 + inverse), np.float32)
        if inverse and onesided:
            x[:, [0, -1], 1] = 0  # a real signal's first and last bins are real
        m(x)


def test_a_transform_along_an_axis_and_of_a_length_that_are_data(
    folder: Path,  # noqa: F811
) -> None:
    def expected(x: Array, length: Array, axis: Array) -> Array:
        return _parts(np.fft.fft(x[..., 0], int(length), axis=int(axis) % 3))

    m = Model(
        folder, "DFT", {"x": (FLOAT, ["n", 6, 1]), "l": (INT64, []), "a": (INT64, [])}, expected,
        opset=20, tolerance=2e-5,
    )  # fmt: skip
    for length, axis in ((4, 0), (6, 1), (9, -2), (3, -3)):
        m(data(5, 6, 1) / 8, length, axis)


def test_frames_whose_step_and_length_are_data(folder: Path) -> None:  # noqa: F811
    def expected(x: Array, step: Array, length: Array) -> Array:
        starts = range(0, x.shape[1] - length + 1, step)
        frames = np.stack([x[:, s : s + length, 0] for s in starts], 1)
        return _parts(np.fft.rfft(frames))

    m = Model(
        folder, "STFT", {"x": (FLOAT, [2, "n", 1]), "step": (INT64, []), "length": (INT64, [])},
        expected, order=["x", "step", "", "length"], opset=17, tolerance=2e-5,
    )  # fmt: skip
    for step, length in ((3, 8), (1, 5), (20, 19)):
        m(data(2, 19, 1) / 16, step, length)
    m.refuses(data(2, 19, 1), 3, 20)
    m.refuses(data(2, 19, 1), 0, 8)


def test_expanding_to_and_from_sizes_that_may_be_one(folder: Path) -> None:  # noqa: F811
    m = Model(folder, "Expand", {"x": (FLOAT, ["n", 2]), "s": (INT64, [2])},
              lambda x, s: x * np.ones(s, x.dtype))  # fmt: skip
    for s in ((3, 1), (3, 2), (1, 1)):
        m(data(3, 2), s)
    m.refuses(data(3, 2), (3, 3))
    m = Model(folder, "Expand", {"x": (FLOAT, ["n", 2])}, lambda x: x * np.ones((4, 2), x.dtype),
              constants={"s": np.array([4, 2])})  # fmt: skip
    for n in (1, 4):
        m(data(n, 2))
    m.refuses(data(3, 2))
