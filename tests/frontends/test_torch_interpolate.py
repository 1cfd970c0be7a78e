"""Interpolation by factors that floats don't hold exactly, at sizes known only at run time."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuvil
from cuvil.errors import CuvilError, ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, check

DYNAMIC = [{2: "h", 3: "w"}]


@pytest.mark.parametrize("scale", [1.7, 2.3, 0.7, 1.1, 0.3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "nearest-exact"])
def test_factors_with_dynamic_sizes(scale: float, mode: str) -> None:
    sizes = [[torch.randn(1, 2, h, w)] for h, w in ((11, 17), (13, 21), (111, 12))]
    check(
        lambda x: F.interpolate(x, scale_factor=scale, mode=mode),
        torch.randn(1, 2, 12, 13), dynamic=DYNAMIC, sizes=sizes,
        atol=1e-4 if mode == "bilinear" else 0.0,  # torch's coordinates are f32
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.1, 1.3, 2.3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_sizes_that_torch_copies_or_doubles(scale: float, mode: str) -> None:
    sizes = [[torch.randn(1, 2, h, w)] for h, w in ((1, 2), (2, 3), (3, 4), (9, 1))]
    check(
        lambda x: F.interpolate(x, scale_factor=scale, mode=mode),
        torch.randn(1, 2, 8, 9), dynamic=DYNAMIC, sizes=sizes,
    )  # fmt: skip


def test_linear_with_a_size_that_stays_the_same() -> None:
    model = Fn(lambda x: F.interpolate(x, scale_factor=1.1, mode="bilinear"))
    check(model, torch.randn(1, 2, 8, 13))
    with pytest.raises(ShapeConstraintError, match="h >= 11"):
        capture_torch(model, (torch.randn(1, 2, 8, 13),), {}, DYNAMIC)


@pytest.mark.parametrize("scale", [1.7, 1.1, 2.7])
def test_sizes_where_the_product_is_whole(scale: float) -> None:
    """These factors never round to the number before."""
    sizes = [[torch.randn(1, 1, h, w)] for h, w in ((10, 50), (90, 100), (170, 340))]
    check(
        lambda x: F.interpolate(x, scale_factor=scale, mode="nearest"),
        torch.randn(1, 1, 8, 9), dynamic=DYNAMIC, sizes=sizes,
    )  # fmt: skip


def test_sizes_that_torch_rounds_are_refused_and_not_wrong() -> None:
    """2.3 * 50 is 114.99999999999999, but 2.3 * 10 is 23.0."""
    model = Fn(lambda x: F.interpolate(x, scale_factor=2.3, mode="nearest"))
    artifact = cuvil.compile(model, (torch.randn(1, 1, 8, 9),), dynamic_dims=DYNAMIC)
    x = torch.randn(1, 1, 49, 51)
    assert torch.equal(artifact(x), model(x))
    with pytest.raises(CuvilError, match="rounding of 2.3"):
        artifact(torch.randn(1, 1, 50, 9))
    with pytest.raises(ShapeConstraintError, match="example's sizes"):
        capture_torch(model, (torch.randn(1, 1, 10, 9),), {}, DYNAMIC)


def test_what_follows_a_refused_node_is_no_fault_of_the_frontend() -> None:
    factor = 1 / 3 + 1e-9

    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=factor, mode="bilinear")

    with pytest.raises(UnsupportedOpError, match="trunc"):
        capture_torch(Fn(f), (torch.randn(1, 1, 8, 9),), {}, DYNAMIC)


_BYTE_SIZES = (((7, 9), (13, 20)), ((40, 31), (7, 9)), ((8, 5), (8, 9)))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("channels", [3, 8])  # torch has a kernel of its own for up to 4
def test_bytes_are_those_of_torch(mode: str, channels: int) -> None:
    def resized(x: torch.Tensor, size: tuple[int, int]) -> list[torch.Tensor]:
        return [
            F.interpolate(x, size=size, mode=mode, antialias=smooth, align_corners=corners)
            for smooth in (False, True) for corners in (False, True)
        ]  # fmt: skip

    for shape, size in _BYTE_SIZES:
        x = torch.randint(0, 256, (2, channels, *shape), dtype=torch.uint8)
        check(functools.partial(resized, size=size), x)


def test_bytes_compiled_and_by_a_factor() -> None:
    x = torch.randint(0, 256, (1, 3, 20, 30), dtype=torch.uint8)

    def both(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.interpolate(x, scale_factor=0.15, mode="bicubic", antialias=True),
        ]

    with cuvil.compile(Fn(both), (x,)) as artifact:
        for have, want in zip(artifact(x), both(x), strict=True):
            assert torch.equal(have, want)


_WAYS: dict[str, dict[str, Any]] = {
    "bilinear": {"mode": "bilinear"}, "bicubic": {"mode": "bicubic"},
    "corners": {"mode": "bilinear", "align_corners": True},
    "smooth": {"mode": "bilinear", "antialias": True},
    "smooth bicubic": {"mode": "bicubic", "antialias": True},
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_symbolic_sizes_to_a_known_one_and_by_a_factor(kind: torch.dtype) -> None:
    """Bytes in every way, floats with antialiasing, which has tables of weights too."""
    ways = [w for n, w in _WAYS.items() if kind == torch.uint8 or n.startswith("smooth")]

    def all_ways(x: torch.Tensor) -> list[torch.Tensor]:
        found = [F.interpolate(x, size=(8, 11), **way) for way in ways]
        return found + [F.interpolate(x, scale_factor=2.0, **way) for way in ways]

    def image(*shape: int) -> torch.Tensor:
        drawn = torch.randint(0, 256, shape, dtype=torch.uint8)
        return drawn if kind == torch.uint8 else torch.rand(shape)

    example = (image(1, 3, 20, 30),)
    with cuvil.compile(
        Fn(all_ways), example, dynamic_dims={"args_0": {2: "h", 3: "w"}}
    ) as artifact:
        for shape in ((1, 3, 20, 30), (1, 3, 8, 40), (1, 3, 5, 3), (1, 3, 16, 11), (1, 3, 1, 2)):
            x = image(*shape)
            for have, want in zip(artifact(x), all_ways(x), strict=True):
                torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)  # of bytes: equal
