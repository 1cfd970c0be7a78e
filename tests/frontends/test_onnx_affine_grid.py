"""AffineGrid against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, compare, floats, model, node


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("sizes", [(1, 1, 3, 4), (2, 3, 4, 5), (1, 1, 2, 3, 4), (2, 1, 3, 2, 5)])
@pytest.mark.parametrize("batch", [None, "n"])
@pytest.mark.parametrize("known", [True, False])
def test_affine_grid(sizes: tuple[int, ...], corners: int, batch: str | None, known: bool) -> None:
    count = len(sizes) - 2
    size = np.array(sizes, np.int64)
    inputs: dict[str, Any] = {"x": (FLOAT, (batch or sizes[0], count, count + 1))}
    given = {"x": floats(sizes[0], count, count + 1)}
    if not known:
        inputs["size"] = (INT64, size.shape)
        given["size"] = size
    nodes = [node("AffineGrid", ["x", "size"], ["y"], align_corners=corners)]
    proto = model(nodes, inputs, ["y"], {"size": size} if known else None, 20, ir=9)
    want = ReferenceEvaluator(proto).run(None, given)
    compare(run_module(capture_onnx(proto), given), want, 1e-5)
