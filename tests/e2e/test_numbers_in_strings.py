"""Strings that a model reads as numbers: it is verified on digits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node

TEXT = onnx.TensorProto.STRING


@pytest.mark.parametrize("joined", [False, True])
def test_a_cast_from_strings_is_verified(joined: bool) -> None:
    nodes = [node("Cast", ["t" if joined else "s"], ["f"], to=FLOAT), node("Neg", ["f"], ["y"])]
    if joined:
        nodes.insert(0, node("StringConcat", ["s", "s"], ["t"]))
    compiled = cuvil.compile(model(nodes, {"s": (TEXT, ("n", 2))}, ["y"], opset=20, ir=9))
    assert cuvil.verify(compiled).cases
    want = np.array([[-33, -1212]], np.float32) if joined else np.array([[-3, -12]], np.float32)
    np.testing.assert_array_equal(compiled(np.array([["3", "12"]], object)), want)
