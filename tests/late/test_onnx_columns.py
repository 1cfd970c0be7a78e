"""Col2Im whose sizes are inputs, against PyTorch's fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
DILATION, PADDING, STRIDE = (1, 2), (1, 0), (2, 1)
CALLS = [((5, 6), (2, 2)), ((4, 9), (3, 1)), ((3, 3), (1, 2)), ((7, 8), (2, 3))]


def _columns(image: tuple[int, int], kernel: tuple[int, int]) -> Array:
    """[2, 3 * kernel, places], as unfold makes them."""
    x = torch.randn(2, 3, *image)
    found = torch.nn.functional.unfold(x, kernel, DILATION, PADDING, STRIDE)
    return np.asarray(found.numpy())


def test_sizes_of_image_and_block_are_data(tmp_path: Path) -> None:
    inputs = {"x": (FLOAT, ["n", "rows", "places"]), "i": (INT64, [2]), "k": (INT64, [2])}
    proto = model(
        [node("Col2Im", ["x", "i", "k"], ["y"], dilations=list(DILATION), strides=list(STRIDE),
              pads=[*PADDING, *PADDING])],
        inputs, ["y"], None, 18,
    )  # fmt: skip
    module = capture_onnx(proto)
    artifact = quick_build(module, tmp_path, 0)
    for image, kernel in CALLS:
        x = _columns(image, kernel)
        feed = {"x": x, "i": np.array(image), "k": np.array(kernel)}
        want = torch.nn.functional.fold(
            torch.from_numpy(x), image, kernel, DILATION, PADDING, STRIDE
        )
        for got in (artifact.run(feed)["y"], run_module(module, feed)[0]):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-6, atol=1e-6)
    wrong = {"x": x, "i": np.array([7, 9]), "k": np.array(kernel)}
    with pytest.raises(ShapeConstraintError, match="a column for each place of the block"):
        artifact.run(wrong)
