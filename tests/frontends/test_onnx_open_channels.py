"""Channels that a model leaves open are the number its weights are for; against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from tests.frontends.onnx_models import FLOAT, check, compare, floats, model, node, run_ort
from tools.quick_build import quick_build

CASES: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any]]] = [
    ("Conv", (1, 2, 8, 8), [floats(3, 2, 3, 3)], {}),
    ("Conv", (2, 4, 6, 5), [floats(4, 2, 3, 3)], {"group": 2, "auto_pad": "SAME_UPPER"}),
    ("ConvTranspose", (1, 4, 3, 3), [floats(4, 3, 2, 2)], {}),
    ("GroupNormalization", (1, 4, 3), [floats(4), floats(4)], {"num_groups": 2}),
    (
        "DeformConv", (1, 2, 4, 4),
        [floats(3, 2, 2, 2), np.full((1, 8, 3, 3), 0.25, np.float32)], {},
    ),
]  # fmt: skip


@pytest.mark.parametrize("dim", ["d", None])
@pytest.mark.parametrize(("op", "shape", "weights", "attrs"), CASES)
def test_the_weights_say_how_many_channels_there_are(
    op: str, shape: tuple[int, ...], weights: list[Any], attrs: Any, dim: str | None
) -> None:
    constants = {f"w{i}": w for i, w in enumerate(weights)}
    dims = [dim and f"{dim}{i}" for i in range(len(shape))]
    nodes = [node(op, ["x", *constants], ["y"], **attrs)]
    check(model(nodes, {"x": (FLOAT, dims)}, ["y"], constants, 22, ir=10), {"x": floats(*shape)})


def test_compiled_convolutions_of_open_channels(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["m"]), node("ConvTranspose", ["z", "v"], ["y"])]
    inputs = {"x": (FLOAT, ("n", "c", 4, 4)), "z": (FLOAT, (None,) * 4)}
    proto = model(
        nodes, inputs, ["m", "y"], {"w": floats(3, 2, 3, 3), "v": floats(3, 2, 2, 2)}, ir=10
    )
    given = {"x": floats(2, 2, 4, 4), "z": floats(1, 3, 3, 2)}
    with quick_build(capture_onnx(proto), tmp_path) as built:
        compare(list(built.run(given).values()), run_ort(proto, given), 1e-5)
        with pytest.raises(ShapeConstraintError, match="input channels"):
            built.run({**given, "x": floats(1, 3, 4, 4)})
