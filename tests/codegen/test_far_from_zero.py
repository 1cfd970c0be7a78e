"""Variances of elements that lie far from 0, or are equal, against those of float64."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional as nn

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node
from tests.frontends.torch_helper import Fn

_NOISE = torch.rand((2, 6, 50), generator=torch.Generator().manual_seed(3))
_GIVEN = {
    "equal": torch.full((2, 6, 50), 123.456), "far": 1e5 + _NOISE, "farther": 3e6 + 4 * _NOISE,
    "negative": -7e4 - 0.1 * _NOISE, "equal and great": torch.full((2, 6, 50), -4.7e9),
    "near": _NOISE - 0.5,
}  # fmt: skip


def _spreads(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        nn.layer_norm(x, (50,)), nn.layer_norm(x, (6, 50)), nn.group_norm(x, 3),
        nn.instance_norm(x), nn.batch_norm(x, None, None, training=True),
        nn.layer_norm(x.transpose(1, 2), (6,)),
        x.std(-1), x.var((0, 2)), x.var(1, correction=0), torch.var_mean(x)[0],
        torch.cov(x[0]), torch.cov(x[0], aweights=torch.ones(50, dtype=x.dtype)),
    ]  # fmt: skip


def test_of_torch() -> None:
    with cuvil.compile(Fn(_spreads), (_NOISE,), verify=False) as artifact:
        for name, x in _GIVEN.items():
            near = x.double() - x[0, 0, 0].double()  # which changes no variance, and is exact
            for at, (have, want) in enumerate(zip(artifact(x), _spreads(near), strict=True)):
                np.testing.assert_allclose(
                    have.double(), want, rtol=2e-5, atol=2e-5, err_msg=f"{name}, output {at}"
                )


@pytest.mark.parametrize("outputs", [["y"], ["y", "mean", "deviation"]])
def test_of_onnx(outputs: list[str]) -> None:
    nodes = [node("LayerNormalization", ["x", "w"], outputs),
             node("MeanVarianceNormalization", ["x"], ["z"], axes=[2])]  # fmt: skip
    made: onnx.ModelProto = model(
        nodes, {"x": (FLOAT, (2, 6, 50))}, [*outputs, "z"], {"w": np.ones(50, np.float32)}, 18
    )
    with cuvil.compile(made, verify=False) as artifact:
        for x in _GIVEN.values():
            got = artifact.run({"x": x.numpy()})
            wide = (x.double() - x[0, 0, 0].double()).numpy()
            gap = wide - wide.mean(-1, keepdims=True)
            scale = 1 / np.sqrt(gap.var(-1, keepdims=True) + 1e-5)
            np.testing.assert_allclose(got["y"], gap * scale, rtol=2e-5, atol=2e-5)
            want = gap / (gap.std(-1, keepdims=True) + 1e-9)
            np.testing.assert_allclose(got["z"], want, rtol=2e-5, atol=2e-5)
            if len(outputs) > 1:
                np.testing.assert_allclose(got["deviation"], scale, rtol=2e-5)
