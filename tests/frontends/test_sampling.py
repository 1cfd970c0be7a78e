"""Images at places that are far outside, infinite or no number, as PyTorch has them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as nn

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node
from tests.frontends.torch_helper import Fn, check

NAN, INF = float("nan"), float("inf")
_HARD = [NAN, INF, -INF, -1.0, 1.0, 0.3, -1.7, 1e10, -1e10, 2.2]
_PADDINGS = ("zeros", "border", "reflection")


def _image() -> torch.Tensor:
    return torch.randn((1, 2, 4, 5), generator=torch.Generator().manual_seed(1))


def _all_places(count: int, hard: list[float]) -> torch.Tensor:
    return torch.tensor(list(itertools.product(hard, repeat=count))).unsqueeze(0)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_of_images(mode: str) -> None:
    ways = list(itertools.product([mode], _PADDINGS, (False, True)))
    x, grid = _image(), _all_places(2, _HARD).unsqueeze(1)
    check(lambda x, grid: [nn.grid_sample(x, grid, m, p, c) for m, p, c in ways], x, grid)


def test_of_images_compiled() -> None:
    x, grid = _image(), _all_places(2, _HARD).unsqueeze(1)

    def sampled(x: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
        return [nn.grid_sample(x, grid, "bilinear", p, False) for p in _PADDINGS]

    with cuvil.compile(Fn(sampled), (x, grid), verify=False) as artifact:
        for have, want in zip(artifact(x, grid), sampled(x, grid), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_of_volumes() -> None:
    ways = list(itertools.product(("bilinear", "nearest"), _PADDINGS, (False, True)))
    x = torch.randn((1, 2, 3, 4, 5), generator=torch.Generator().manual_seed(1))
    grid = _all_places(3, [NAN, INF, -INF, -1.0, 0.3, 1.2]).view(1, 6, 6, 6, 3)
    check(lambda x, g: [nn.grid_sample(x, g, m, p, c) for m, p, c in ways], x, grid)


def test_of_symbolic_sizes() -> None:
    n, h = cuvil.Dim("n", min=1, max=9), cuvil.Dim("h", min=2, max=9)
    places = torch.rand((2, 4, 3, 2), generator=torch.Generator().manual_seed(1)) * 3 - 1.5
    sizes = [(torch.randn(3, 2, s, 7), places[:1].expand(3, 4, 3, 2)) for s in (3, 5)]
    check(
        lambda x, g: nn.grid_sample(x, g, "bilinear", "reflection", False),
        torch.randn(2, 2, 6, 7), places, sizes=sizes, dynamic=[{0: n, 2: h}, {0: n}],
    )  # fmt: skip


@pytest.mark.parametrize("kind", [np.float16, np.int64])
def test_short_and_whole_numbers_are_mixed_as_floats(kind: type) -> None:
    """Halfway between 3 and 4 lies 3.5, and its whole part is 3."""
    code = {np.float16: 10, np.int64: 7}[kind]
    made = model(
        [node("GridSample", ["x", "g"], ["y"], mode="linear", align_corners=1)],
        {"x": (code, (1, 1, 1, 2)), "g": (FLOAT, (1, 1, 3, 2))}, ["y"], {}, 20,
    )  # fmt: skip
    grid = np.array([[-1, 0], [0, 0], [INF, 0]], np.float32).reshape(1, 1, 3, 2)
    with cuvil.compile(made, verify=False) as artifact:
        found = artifact.run({"x": np.array([3, 4], kind).reshape(1, 1, 1, 2), "g": grid})["y"]
    np.testing.assert_array_equal(found.reshape(-1), np.array([3, 3.5, 0]).astype(kind))
