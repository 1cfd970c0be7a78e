"""Resize against ONNX Runtime where it has the mode, and against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.onnx_run import run_onnx
from tests.ops.values import Array, Case, case, plain


def _onnx(c: Case) -> list[Array] | None:
    x, a = c.arrays[0], c.attrs
    if 0 in x.shape or x.dtype == np.float16 or a.get("antialias"):
        return None
    if len(c.arrays) > 1:  # scales as f64 data; the operator's cases have them
        return None
    if a.get("exclude_outside") and a["mode"] != "cubic":
        return None
    attrs: dict[str, Any] = {
        "mode": a["mode"], "coordinate_transformation_mode": a["coordinate"],
        "exclude_outside": int(a.get("exclude_outside", False)),
        "cubic_coeff_a": a.get("cubic_coeff", -0.75),
        "extrapolation_value": a.get("extrapolation", 0.0),
    }  # fmt: skip
    if a["mode"] == "nearest":
        attrs["nearest_mode"] = a["nearest"]
    roi = np.array(a["roi"], np.float32) if "roi" in a else None
    scales = np.array(a["scales"], np.float32) if "scales" in a else None
    sizes = None if scales is not None else np.array(a["sizes"], np.int64)
    inputs = [x, roi, scales, sizes]
    while inputs[-1] is None:
        inputs.pop()
    try:
        return run_onnx("Resize", inputs, 1, **attrs)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "'Cubic' mode only" in str(error):
            return None
        raise


def test_resize_as_onnx_runtime() -> None:
    check_against("resize", _onnx, scale=4.0)


_TORCH: dict[tuple[str, str], dict[str, Any]] = {
    ("linear", "half_pixel"): {"mode": "bilinear", "align_corners": False},
    ("linear", "align_corners"): {"mode": "bilinear", "align_corners": True},
    ("cubic", "half_pixel"): {"mode": "bicubic", "align_corners": False},
    ("cubic", "align_corners"): {"mode": "bicubic", "align_corners": True},
    ("nearest", "asymmetric"): {"mode": "nearest"},
    ("nearest", "half_pixel"): {"mode": "nearest-exact"},
}
_SHAPES = [((4, 6), (8, 12)), ((5, 7), (3, 11)), ((6, 5), (1, 20)), ((1, 1), (3, 2)),
           ((13, 3), (4, 9))]  # fmt: skip


@pytest.mark.parametrize(("mode", "coordinate"), sorted(_TORCH))
@pytest.mark.parametrize(("size", "out"), _SHAPES)
def test_resize_as_torch(
    mode: str, coordinate: str, size: tuple[int, int], out: tuple[int, int]
) -> None:
    x = plain(np.random.default_rng(5), (2, 3, *size), "float64")
    want = functional.interpolate(torch.tensor(x), out, **_TORCH[mode, coordinate])
    nearest = "floor" if coordinate == "asymmetric" else "round_prefer_ceil"
    got = run(
        "resize",
        case(x, sizes=(2, 3, *out), mode=mode, coordinate=coordinate, nearest=nearest),
    )[0]
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("mode", "coefficient"), [("linear", 0.0), ("cubic", -0.5)])
@pytest.mark.parametrize(("size", "out"), _SHAPES)
def test_antialias_as_torch(
    mode: str, coefficient: float, size: tuple[int, int], out: tuple[int, int]
) -> None:
    """torch's filter leaves out what lies outside, and has a = -0.5."""
    x = plain(np.random.default_rng(6), (1, 2, *size), "float64")
    want = functional.interpolate(torch.tensor(x), out, mode=f"bi{mode}", antialias=True)
    got = run(
        "resize",
        case(x, sizes=(1, 2, *out), mode=mode, coordinate="half_pixel", antialias=True,
             exclude_outside=True, cubic_coeff=coefficient),
    )[0]  # fmt: skip
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-12, atol=1e-12)


def test_a_whole_ratio_gives_whole_coordinates() -> None:
    """6 to 20: position 10 is exactly 3, which 10 / (20 / 6) in floats may miss."""
    x = np.arange(6, dtype=np.float32)
    attrs = {"sizes": (20,), "mode": "nearest", "coordinate": "asymmetric", "nearest": "floor"}
    assert run("resize", case(x, **attrs))[0].tolist() == [i * 6 // 20 for i in range(20)]


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"mode": "lanczos"}, "no mode"), ({"nearest": "up"}, "no nearest mode"),
     ({"coordinate": "x"}, "no coordinate mode"), ({"sizes": (1,)}, "one entry"),
     ({"coordinate": "tf_crop_and_resize"}, "needs a roi"), ({"scales": (0.0, 1.0)}, "positive")],
)  # fmt: skip
def test_wrong_attributes_are_refused(attrs: dict[str, Any], reason: str) -> None:
    good = {"sizes": (2, 2), "mode": "nearest", "coordinate": "asymmetric", "nearest": "floor"}
    with pytest.raises(InvalidModelError, match=reason):
        infer("resize", case(np.zeros((1, 2), np.float32), **{**good, **attrs}))
