"""The batch indices of RoiAlign stay below the number of images."""

from __future__ import annotations

import pytest

from cuvil.frontends.onnx import capture_onnx
from cuvil.verify.ranges import integer_limits
from tests.frontends.onnx_models import FLOAT, INT64, model, node


@pytest.mark.parametrize(("images", "below"), [(4, 4), ("n", 1)])
def test_images_that_regions_name_are_there(images: int | str, below: int) -> None:
    inputs = {"x": (FLOAT, (images, 2, 8, 8)), "r": (FLOAT, ("k", 4)), "b": (INT64, ("k",))}
    nodes = [node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=2)]
    assert integer_limits(capture_onnx(model(nodes, inputs, ["y"]))) == {"b": below}
