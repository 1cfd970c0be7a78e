"""What a model's declared dims are: a size (0 too), or a symbol."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import cuvil
from cuvil.api.capture import capture
from cuvil.api.request import CompileRequest
from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node


def test_a_declared_0_is_a_size() -> None:
    nodes = [node("Reshape", ["x", "s"], ["y"], allowzero=1)]
    proto = model(nodes, {"x": (FLOAT, (0, 3))}, ["y"], {"s": np.array([3, 0, 2])})
    module = capture_onnx(proto)
    assert module.main.inputs[0].type.shape == (0, 3)
    assert run_module(module, {"x": np.zeros((0, 3), np.float32)})[0].shape == (3, 0, 2)


def test_what_has_no_size_is_open() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (None, -1, "n", 2))}, ["y"])
    module = capture_onnx(proto)
    assert list(map(str, module.main.inputs[0].type.shape)) == ["x_d0", "x_d1", "n", "2"]
    assert run_module(module, {"x": np.zeros((0, 1, 5, 2), np.float32)})[0].shape == (0, 1, 5, 2)


def test_an_input_without_a_shape_is_given_one_by_its_spec() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, None)}, ["y"])
    with pytest.raises(InvalidModelError, match="'x' has no declared shape") as caught:
        cuvil.compile(proto)
    assert 'input_spec=[("x", None, ("n", 3, 224, 224))]' in caught.value.hint
    spec = [("x", None, ("n", 3, 224, 224))]
    found = capture(CompileRequest(proto, input_spec=spec)).module.main.inputs[0].type.shape
    assert (str(found[0]), *found[1:]) == ("n", 3, 224, 224)


def test_nothing_is_split_by_sizes_that_are_data() -> None:
    nodes = [node("Split", ["x", "s"], ["a", "b"], axis=0)]
    proto = model(nodes, {"x": (FLOAT, (0, 3)), "s": (INT64, (2,))}, ["a", "b"])
    given = {"x": np.zeros((0, 3), np.float32), "s": np.array([0, 0])}
    assert [a.shape for a in run_module(capture_onnx(proto), given)] == [(0, 3), (0, 3)]


@pytest.mark.parametrize(
    ("spec", "said"),
    [((3, 4), "(3, 4)"), (("b", 4), "('b', 4)"), ((2, 4), None)],
)
def test_a_spec_that_overrules_a_fixed_size_is_said(
    spec: tuple[object, ...], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2, 4))}, ["y"])
    with caplog.at_level(logging.WARNING, "cuvil"):
        capture(CompileRequest(proto, input_spec=[("x", None, spec)]))
    line = f"input 'x' is compiled as {said}; the file fixes it at (2, 4)"
    assert caplog.messages == ([] if said is None else [line])


@pytest.mark.parametrize("suffix", [".so", ".wasm", ".c"])
def test_what_was_compiled_is_no_model(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"")
    with pytest.raises(InvalidModelError, match="what a model was compiled to") as caught:
        cuvil.compile(path)
    assert ".cuvilpkg" in caught.value.hint


def test_a_size_that_must_be_0_is_verified_at_0() -> None:
    """Reshape-14 with allowzero: [n, 4] to [0, 4] is right for n = 0 alone."""
    nodes = [node("Reshape", ["x", "s"], ["y"], allowzero=1)]
    proto = model(nodes, {"x": (FLOAT, ("n", 4))}, ["y"], {"s": np.array([0, 4])})
    compiled = cuvil.compile(proto)
    assert compiled(np.zeros((0, 4), np.float32)).shape == (0, 4)
    with pytest.raises(cuvil.ShapeConstraintError, match="n"):
        compiled(np.zeros((1, 4), np.float32))
