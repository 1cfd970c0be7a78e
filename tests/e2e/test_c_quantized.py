"""Quantised models in C: bytes are multiplied, bytes lie in flash, and the results are those of
ONNX Runtime and of ONNX's reference, on this machine and on a Cortex-M4."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import cuvil
from cuvil.runners.built import Built
from tests.e2e.c_models import keyword_spotting, mlp
from tests.e2e.c_quantized import FORMS, quantized, sizes_of_weights
from tests.e2e.mcu import M4, M7, missing, run_on
from tests.e2e.test_c_target import COMPILERS, _compile

MODELS = {"mlp": mlp, "keywords": keyword_spotting}
SLOW = {("keywords", "QOperator"), ("keywords", "dynamic"), ("mlp", "QDQ")}
STEP = 1 / 255  # of the scores, which are quantised as well
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _built(make: Any, form: str, folder: Path) -> tuple[Built, Path, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = quantized(make, form, folder)
    built = cuvil.compile(path, target="c", cache=False)  # verified
    assert isinstance(built, Built)
    x = np.random.default_rng(1).standard_normal(built.inputs[0].shape).astype(np.float32)
    return built, path, x


def _expected(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"input": x})[0])


CASES = [
    pytest.param(name, form, marks=[pytest.mark.slow] if (name, form) in SLOW else [])
    for name in MODELS for form in FORMS
]  # fmt: skip


@pytest.mark.parametrize(("name", "form"), CASES)
def test_bytes_are_multiplied(name: str, form: str, tmp_path: Path) -> None:
    make = MODELS[name]
    built, path, x = _built(make, form, tmp_path)
    found = np.asarray(built(x))
    # A number that lies between two steps may be rounded to either.
    most = 1e-6 if form == "dynamic" else 1.01 * STEP
    assert np.abs(found - _expected(path, x)).max() <= most
    text = bytes(built.package.library).decode()
    assert "cuvil_tile_f32" not in text
    kind = "i8" if form == "QDQ" else "u8"
    assert f"cuvil_tile_{kind}(" in text
    if name == "keywords":
        assert f"cuvil_depthwise_{kind}(" in text
    for compiler in ("clang", "cortex_m4", "cortex_m0"):
        _compile(COMPILERS[compiler], built.save(tmp_path / "net.c")[0])


def test_qdq_agrees_with_the_reference_of_onnx(tmp_path: Path) -> None:
    for make in MODELS.values():
        built, path, x = _built(make, "QDQ", tmp_path)
        (want,) = ReferenceEvaluator(onnx.load(str(path))).run(None, {"input": x})
        assert np.abs(np.asarray(built(x)) - want).max() <= 1.01 * STEP


@pytest.mark.slow
def test_flash_and_ram_are_those_of_bytes(tmp_path: Path) -> None:
    model, x = keyword_spotting(64)
    real = cuvil.compile(model, (x,), target="c").manifest.extra["memory"]
    built, path, _ = _built(lambda: keyword_spotting(64), "QDQ", tmp_path)
    memory = built.manifest.extra["memory"]
    weights, channels = sizes_of_weights(path), 9 * 64 + 12
    assert weights <= memory["weights"] <= weights + 12 * channels + 64  # scales, sums, biases
    assert memory["flash"] < 0.45 * real["flash"]
    assert memory["ram"] < 0.3 * real["ram"]


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
@pytest.mark.parametrize(
    ("name", "form", "most"),
    [
        ("mlp", "QOperator", 20_000), ("keywords", "QDQ", 2_200_000),
        pytest.param("keywords", "QOperator", 2_200_000, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_on_a_cortex_m4(name: str, form: str, most: int, tmp_path: Path) -> None:
    built, path, x = _built(MODELS[name], form, tmp_path)
    here = np.asarray(built(x))
    (found,), instructions = run_on(M4, built, {built.inputs[0].name: x}, tmp_path)
    np.testing.assert_array_equal(found, here)  # integers, and floats rounded alike
    assert np.abs(found - _expected(path, x)).max() <= 1.01 * STEP
    assert 0 < instructions < most


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
@pytest.mark.slow
def test_on_a_cortex_m7(tmp_path: Path) -> None:
    built, _, x = _built(keyword_spotting, "dynamic", tmp_path)
    (found,), _ = run_on(M7, built, {built.inputs[0].name: x}, tmp_path)
    np.testing.assert_allclose(found, np.asarray(built(x)), rtol=1e-5, atol=1e-7)
