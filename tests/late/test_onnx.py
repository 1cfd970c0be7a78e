"""ONNX operators whose shapes are inputs: compiled once, then called with many shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from cuvil.errors import CuvilError, ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]


class Model:
    """A compiled model of one node, checked against what NumPy gives and the reference alike."""

    def __init__(
        self, folder: Path, op: str, inputs: dict[str, tuple[int, Sequence[Any]]],
        expected: Callable[..., Any], **attrs: Any,
    ) -> None:  # fmt: skip
        opset, constants = attrs.pop("opset", 18), attrs.pop("constants", None)
        names = attrs.pop("order", [*inputs, *(constants or {})])
        outputs = attrs.pop("outputs", ["y"])
        self.tolerance = attrs.pop("tolerance", 0.0)
        proto = model([node(op, names, outputs, **attrs)], inputs, outputs, constants, opset)
        self.module = capture_onnx(proto)
        self.names = list(inputs)
        self.expected = expected
        self.artifact: Artifact = quick_build(self.module, folder, 0)

    def __call__(self, *values: Any) -> None:
        feed = dict(zip(self.names, map(np.asarray, values), strict=True))
        want = self.expected(*map(np.asarray, values))
        want = want if isinstance(want, (list, tuple)) else [want]
        found = list(self.artifact.run(feed).values())
        meant = run_module(self.module, feed)
        for got in (found, meant):
            assert len(got) == len(want)
            for a, b in zip(got, want, strict=True):
                assert a.shape == np.shape(b)
                np.testing.assert_allclose(a, b, rtol=self.tolerance, atol=self.tolerance)

    def refuses(self, *values: Any, words: str = ".") -> None:
        feed = dict(zip(self.names, map(np.asarray, values), strict=True))
        with pytest.raises(ShapeConstraintError, match=words):
            self.artifact.run(feed)
        with pytest.raises(ShapeConstraintError):
            run_module(self.module, feed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("late")


def data(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


def test_reshape(folder: Path) -> None:
    def expected(x: Array, shape: Array) -> Array:
        return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])

    m = Model(folder, "Reshape", {"x": (FLOAT, ["a", 4]), "s": (INT64, [3])}, expected)
    x = data(6, 4)
    for shape in ((2, 3, 4), (0, -1, 2), (-1, 1, 1), (0, 0, 1), (24, 1, 1)):
        m(x, shape)
    m(data(0, 4), (0, 2, 2))
    m.refuses(x, (5, 5, 1), words="does not hold")
    m.refuses(x, (-1, -1, 2), words="is -1; allowed is 0 <=")
    m.refuses(x, (6, 4, 0))


def test_reshape_with_a_part_that_is_known(folder: Path) -> None:
    shape = [node("Concat", ["minus", "k"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])]
    proto = model(
        shape, {"x": (FLOAT, ["n", 6]), "k": (INT64, [1])}, ["y"],
        {"minus": np.array([-1], np.int64)},
    )  # fmt: skip
    artifact = quick_build(capture_onnx(proto), folder, 0)
    assert str(artifact.outputs[0]) == "y: f32[(6 * n) // reshape_1, reshape_1]"
    for k in (1, 2, 3, 12):
        got = artifact(data(4, 6), np.array([k]))
        np.testing.assert_array_equal(got, data(4, 6).reshape(-1, k))
    with pytest.raises(ShapeConstraintError):
        artifact(data(4, 6), np.array([5]))


def test_expand(folder: Path) -> None:
    def expected(x: Array, s: Array) -> Array:
        return x * np.ones(s, x.dtype)

    m = Model(folder, "Expand", {"x": (FLOAT, ["n", 1]), "s": (INT64, [3])}, expected)
    for s in ((2, 3, 5), (1, 1, 1), (4, 1, 7), (0, 3, 2), (2, 1, 0)):
        m(data(3, 1), s)
    m.refuses(data(3, 1), (2, 4, 5))
    m.refuses(data(3, 1), (2, -3, 5))


@pytest.mark.parametrize("step", [1, 2, -1, -3, None])
def test_slice(folder: Path, step: int | None) -> None:
    def expected(x: Array, start: Array, end: Array, by: Array | None = None) -> Array:
        return x[:, int(start[0]) : int(end[0]) : int(by[0]) if by is not None else step]

    inputs = {"x": (FLOAT, [2, "n"]), "start": (INT64, [1]), "end": (INT64, [1])}
    known = {"axes": np.array([1], np.int64)}
    order = ["x", "start", "end", "axes", "step"]
    if step is None:
        inputs["step"] = (INT64, [1])
    else:
        known["step"] = np.array([step], np.int64)
    m = Model(folder, "Slice", inputs, expected, constants=known, order=order)
    far = (1 << 63) - 1
    steps = [()] if step is not None else [([1],), ([-1],), ([3],), ([-far],)]
    for n in (0, 1, 7):
        for start, end in ((0, 4), (2, far), (-3, -1), (6, 1), (-far, far), (5, -far), (9, 2)):
            for by in steps:
                m(data(2, n), [start], [end], *by)
    if step is None:
        m.refuses(data(2, 7), [0], [4], [0])


def test_slice_with_ends_known_and_not(folder: Path) -> None:
    inputs = {"x": (FLOAT, ["n"]), "end": (INT64, [1])}
    m = Model(
        folder, "Slice", inputs, lambda x, end: x[: int(end[0])], order=["x", "start", "end"],
        constants={"start": np.zeros(1, np.int64)},
    )  # fmt: skip
    for end in (0, 1, 5, 9, -1, -9):
        m(data(5), [end])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(folder: Path, mode: str) -> None:
    def expected(x: Array, pads: Array) -> Array:
        (a, b, c, d) = (int(p) for p in pads)
        x = x[max(-a, 0) : x.shape[0] - max(-c, 0), max(-b, 0) : x.shape[1] - max(-d, 0)]
        widths = [(max(a, 0), max(c, 0)), (max(b, 0), max(d, 0))]
        return np.pad(x, widths, mode=mode)  # type: ignore[call-overload]

    m = Model(
        folder, "Pad", {"x": (FLOAT, ["n", 5]), "p": (INT64, [4])}, expected, mode=mode, opset=19
    )
    for pads in ((0, 0, 0, 0), (1, 2, 0, 1), (0, 1, 2, 0), (1, 0, 1, 3)):
        m(data(4, 5), pads)
    if mode == "constant":
        m(data(4, 5), (-1, 2, 1, -2))
        m(data(4, 5), (-2, 0, -2, 0))
        m.refuses(data(4, 5), (-3, 0, -3, 0), words="after padding")


@pytest.mark.parametrize("kind", [FLOAT, INT64, TensorProto.INT32])
def test_range(folder: Path, kind: int) -> None:
    dtype = {FLOAT: np.float32, INT64: np.int64}.get(kind, np.int32)
    m = Model(
        folder, "Range", {"a": (kind, []), "b": (kind, []), "c": (kind, [])},
        lambda a, b, c: np.arange(a, b, c, dtype=dtype),
    )  # fmt: skip
    for a, b, c in ((0, 5, 1), (1, 10, 3), (10, 1, -4), (3, 3, 1), (5, 2, 1), (-2, 4, 5)):
        m(dtype(a), dtype(b), dtype(c))
    if kind == FLOAT:
        m(dtype(0.5), dtype(2.25), dtype(0.5))
    m.refuses(dtype(0), dtype(3), dtype(0), words="length of the range .-1 where its step is 0")


def test_sizes_that_are_what_they_are(folder: Path) -> None:
    tile = Model(
        folder, "Tile", {"x": (FLOAT, ["n", 3]), "r": (INT64, [2])}, lambda x, r: np.tile(x, r)
    )
    for r in ((1, 1), (2, 3), (0, 2), (3, 1)):
        tile(data(2, 3), r)
    made = Model(folder, "ConstantOfShape", {"s": (INT64, [2])}, lambda s: np.zeros(s, np.float32))
    for s in ((2, 3), (0, 4), (1, 1)):
        made(s)
    made.refuses((2, -1), words="the shape")


def test_topk_one_hot_and_split(folder: Path) -> None:
    topk = Model(
        folder, "TopK", {"x": (FLOAT, ["n", 5]), "k": (INT64, [1])}, outputs=["y", "i"],
        expected=lambda x, k: (
            -np.sort(-x, axis=1)[:, : k[0]], np.argsort(-x, axis=1, kind="stable")[:, : k[0]]
        ),
    )  # fmt: skip
    for k in (0, 1, 3, 5):
        topk(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.float32), [k])
    topk.refuses(data(2, 5), [6])
    hot = Model(
        folder, "OneHot", {"i": (INT64, ["n"]), "d": (INT64, [1])},
        lambda i, d: np.eye(d[0], dtype=np.float32)[i],
        constants={"v": np.array([0, 1], np.float32)},
    )  # fmt: skip
    for d in (3, 5):
        hot([0, 2, 1], [d])
    parts = Model(
        folder, "Split", {"x": (FLOAT, ["n"]), "s": (INT64, [3])}, outputs=["a", "b", "c"],
        expected=lambda x, s: np.split(x, np.cumsum(s)[:-1]),
    )  # fmt: skip
    for s in ((1, 2, 3), (0, 6, 0), (6, 0, 0)):
        parts(data(6), s)
    parts.refuses(data(6), (1, 2, 4), words="the sizes of the parts")


def test_center_crop_pad(folder: Path) -> None:
    def expected(x: Array, s: Array) -> Array:
        for axis, want in enumerate(map(int, s)):
            more = want - x.shape[axis]
            lo = abs(more) // 2
            cut = [slice(None)] * 2
            if more < 0:
                cut[axis] = slice(lo, lo + want)
                x = x[tuple(cut)]
            else:
                widths = [(0, 0), (0, 0)]
                widths[axis] = (lo, more - lo)
                x = np.pad(x, widths)
        return x

    m = Model(folder, "CenterCropPad", {"x": (FLOAT, ["n", 5]), "s": (INT64, [2])}, expected)
    for s in ((4, 5), (7, 2), (1, 9), (0, 3)):
        m(data(4, 5), s)


def test_nonzero_and_compress(folder: Path) -> None:
    m = Model(folder, "NonZero", {"x": (FLOAT, ["n", 3])}, lambda x: np.array(np.nonzero(x)))
    for x in (np.zeros((4, 3)), np.eye(3), np.ones((0, 3)), data(5, 3)):
        m(x.astype(np.float32))
    c = Model(
        folder, "Compress", {"x": (FLOAT, ["n", 3]), "c": (TensorProto.BOOL, ["k"])},
        lambda x, c: np.compress(c, x, axis=0), axis=0,
    )  # fmt: skip
    for n in (0, 1, 2, 5):
        for bits in (0, 1, 0b1010):
            c(data(5, 3), np.array([bits >> i & 1 for i in range(n)], bool))


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique(folder: Path, axis: int | None, ordered: int) -> None:
    def expected(x: Array) -> list[Array]:
        found = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )  # fmt: skip
        values, first, inverse, counts = found
        order = np.arange(len(first)) if ordered else np.argsort(first)
        back = np.argsort(order)
        values = np.take(values, order, axis=axis or 0)
        return [values, first[order], back[inverse.reshape(-1)], counts[order]]

    more = {} if axis is None else {"axis": axis}
    m = Model(
        folder, "Unique", {"x": (FLOAT, ["n", "k"])}, expected, outputs=["y", "i", "v", "c"],
        sorted=ordered, **more,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    for shape in ((1, 1), (0, 3), (6, 2), (2, 50), (40, 3)):
        m(rng.integers(0, 3, shape).astype(np.float32))
    if axis is None:
        m(np.array([[np.nan, 1, np.nan], [-0.0, 0.0, np.inf]], np.float32))


def test_non_max_suppression(folder: Path) -> None:
    """Against the definition: a box stays if none that stayed before overlaps it too much."""

    def expected(boxes: Array, scores: Array, most: Array) -> Array:
        found = []
        for b, c in np.ndindex(*scores.shape[:2]):
            kept: list[int] = []
            for i in np.argsort(-scores[b, c], kind="stable"):
                free = all(share(boxes[b, i], boxes[b, j]) <= 0.5 for j in kept)
                if scores[b, c, i] > 0.2 and free and len(kept) < most[0]:
                    kept.append(int(i))
            found += [(b, c, i) for i in kept]
        return np.array(found, np.int64).reshape(-1, 3)

    def share(a: Array, b: Array) -> float:
        sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
        common = float(np.prod(np.maximum(sides, 0)))
        return common / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)

    m = Model(
        folder, "NonMaxSuppression",
        {"b": (FLOAT, ["n", "k", 4]), "s": (FLOAT, ["n", "c", "k"]), "m": (INT64, [1])},
        expected, constants={"iou": np.float32([0.5]), "low": np.float32([0.2])},
    )  # fmt: skip
    rng = np.random.default_rng(5)
    for n, c, k in ((1, 1, 0), (1, 1, 1), (2, 3, 40), (1, 2, 9)):
        low = rng.integers(0, 8, (n, k, 2))
        boxes = np.concatenate([low, low + rng.integers(1, 5, (n, k, 2))], 2).astype(np.float32)
        scores = (rng.integers(0, 10, (n, c, k)) / 10).astype(np.float32)
        for most in (0, 2, 1000):
            m(boxes, scores, [most])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_by_scales_that_are_data(folder: Path, mode: str) -> None:
    """As a model with the same scales as a constant."""

    def expected(x: Array, scales: Array) -> Array:
        same = model(
            [node("Resize", ["x", "", "s"], ["y"], mode=mode)],
            {"x": (FLOAT, x.shape)}, ["y"], {"s": scales}, 18,
        )  # fmt: skip
        return run_module(capture_onnx(same), {"x": x})[0]

    m = Model(
        folder, "Resize", {"x": (FLOAT, ["n", 1, 4, "w"]), "s": (FLOAT, [4])}, expected,
        order=["x", "", "s"], mode=mode, tolerance=1e-5,
    )  # fmt: skip
    for scales in ((1, 1, 2, 2), (1, 1, 0.6, 1.7), (1, 1, 1, 0.3), (1, 1, 0.1, 1)):
        m(data(2, 1, 4, 5), np.float32(scales))
    m.refuses(data(2, 1, 4, 5), np.float32((1, 1, -1, 1)), words="the size that the scales give")


AXES = "out of range or given twice"
WRONG_AXES = ([0, 2], [-3, 1], [1, 1], [0, -2], [-1, 1], [1 << 40, 0], [-(1 << 63), 0])


def test_axes_of_a_slice_at_run_time(folder: Path) -> None:
    def expected(x: Array, axes: Array) -> Array:
        where = [slice(None)] * 2
        for axis, part in zip(axes, (slice(1, 3), slice(-1, -9, -2)), strict=True):
            where[axis] = part
        return x[tuple(where)]

    ends = {"start": [1, -1], "end": [3, -9], "step": [1, -2]}
    m = Model(
        folder, "Slice", {"x": (FLOAT, ["n", 5]), "axes": (INT64, [2])}, expected,
        order=["x", "start", "end", "axes", "step"],
        constants={k: np.array(v, np.int64) for k, v in ends.items()},
    )  # fmt: skip
    for axes in ([0, 1], [1, 0], [-1, 0], [-1, -2]):
        m(data(4, 5), axes)
    for axes in WRONG_AXES:
        m.refuses(data(4, 5), axes, words=AXES)


def test_axes_of_pads_at_run_time(folder: Path) -> None:
    def expected(x: Array, axes: Array) -> Array:
        widths = [(0, 0), (0, 0)]
        widths[axes[0]], widths[axes[1]] = (1, 2), (0, 3)
        return np.pad(x, widths)

    m = Model(
        folder, "Pad", {"x": (FLOAT, ["n", 5]), "axes": (INT64, [2])}, expected,
        order=["x", "p", "", "axes"], constants={"p": np.array([1, 0, 2, 3], np.int64)},
    )  # fmt: skip
    for axes in ([0, 1], [1, 0], [-1, 0], [-1, -2]):
        m(data(4, 5), axes)
    for axes in WRONG_AXES:
        m.refuses(data(4, 5), axes, words=AXES)


@pytest.mark.parametrize(
    ("op", "count", "names", "constants"),
    [
        ("Slice", 1, ["x", "a", "b", "axes"], {"a": [0, 1], "b": [3, 3]}),
        ("Slice", 3, ["x", "a", "b", "axes"], {"a": [0, 1, 1], "b": [3, 3, 3]}),
        ("Pad", 2, ["x", "p", "", "axes"], {"p": [1, 1, 1]}),
        ("Pad", 1, ["x", "p", "", "axes"], {"p": [1, 1, 1, 1]}),
    ],
)
def test_axes_and_what_is_given_for_each_are_as_many(
    op: str, count: int, names: list[str], constants: dict[str, list[int]]
) -> None:
    stored = {k: np.array(v, np.int64) for k, v in constants.items()}
    inputs = {"x": (FLOAT, [4, 5]), "axes": (INT64, [count])}
    proto = model([node(op, names, ["y"])], inputs, ["y"], stored, 18)
    with pytest.raises(CuvilError, match="for each axis|axes of a tensor of rank 2"):
        capture_onnx(proto)
