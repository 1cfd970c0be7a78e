"""Sizes that are expressions of symbols: every size that torch takes gives what torch gives, or a
refusal that says which sizes there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``rules`` is what the module asks of its sizes; ``sizes`` are those it is compared at, and
    ``refused`` those that it refuses."""

    function: Function
    rules: str = ""
    sizes: Sequence[Any] = (0, 1, 2, 3, 5, 8, 13)
    refused: Sequence[Any] = ()
    example: Any = None


def _padded_windows(x: torch.Tensor) -> torch.Tensor:
    """Into windows of 4 x 4, and back."""
    b, c, h, w = x.shape
    x = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
    high, wide = x.shape[2:]
    y = x.view(b, c, high // 4, 4, wide // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, c, 4, 4)
    y = y.view(b, high // 4, wide // 4, c, 4, 4).permute(0, 3, 1, 4, 2, 5)
    return y.reshape(b, c, high, wide)[:, :, :h, :w] * 2


def _multiple_of_4(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, (-x.shape[0]) % 4)).view(-1, 4, 3)


KERNEL, SECOND = torch.randn(4, 3, 3, 3), torch.randn(2, 4, 3, 3)


def _pyramid(x: torch.Tensor) -> torch.Tensor:
    x = F.max_pool2d(F.conv2d(x, KERNEL, stride=2), 2)
    return F.max_pool2d(F.conv2d(x, SECOND), 2)


# x is [n, 3], n = 8 in the example.
ROWS: dict[str, Case] = {
    "view n // 2": Case(lambda x: x.view(x.shape[0] // 2, 2, 3), "n % 2 == 0", (0, 2, 12), (1, 5)),
    "view 2, -1": Case(lambda x: x.view(2, -1), "n % 2 == 0", (0, 2, 6), (1, 5)),
    "view of what is padded": Case(_multiple_of_4),
    "view of what is cut": Case(lambda x: x[: x.shape[0] // 4 * 4].view(-1, 4, 3).sum(1)),
    "view of a rest": Case(lambda x: x[x.shape[0] % 3 :].view(-1, 3, 3)),
    "unflatten -1": Case(lambda x: x.unflatten(0, (-1, 2)), "n % 2 == 0", (0, 2, 12), (1, 5)),
    "squeeze": Case(lambda x: x.squeeze(0) * 2, "n != 1", (0, 2, 5), (1,)),
    "split in halves": Case(lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])),
    "split by a half": Case(
        lambda x: x.split(x.shape[0] // 2), "n % 2 == 0; n >= 2", (2, 4, 12), (0, 1, 5)
    ),
    "chunk 2": Case(lambda x: x.chunk(2), "n >= 2", (2, 3, 5, 8), (1,)),
    "chunk 3": Case(lambda x: x.chunk(3), "n != 4; n >= 3", (3, 5, 8, 13), (1, 4)),
    "tensor_split": Case(lambda x: x.tensor_split(3)),
    "tensor_split at symbols": Case(lambda x: x.tensor_split((x.shape[0] // 3, x.shape[0] // 2))),
    "unfold": Case(lambda x: x.unfold(0, 3, 2), "n >= 3", (3, 4, 13), (2,)),
    "unfold a half": Case(lambda x: x.unfold(0, x.shape[0] // 2, 1)),
    "every second": Case(
        lambda x: torch.stack([x[::2], x[1::2]], 1), "n % 2 == 0", (0, 2, 12), (1, 5)
    ),
    "a symbolic step": Case(
        lambda x: x[1 :: max(1, x.shape[0] // 4)], "n >= 1", (1, 2, 3, 5, 13), (0,)
    ),
    "halves swapped": Case(lambda x: torch.cat([-x[x.shape[0] // 2 :], x[: x.shape[0] // 2]])),
    "the middle": Case(lambda x: x[x.shape[0] // 4 : -(x.shape[0] // 4)], "n >= 4", (4, 13), (3,)),
    "one of the middle": Case(lambda x: x[x.shape[0] // 2], "n >= 1", (1, 2, 5), (0,)),
    "narrow": Case(lambda x: x.narrow(0, x.shape[0] // 2, x.shape[0] // 2)),
    "repeat": Case(lambda x: x.repeat(x.shape[0] // 2, 2)),
    "expand": Case(lambda x: x[:, None].expand(-1, x.shape[0] // 2, -1)),
    "roll": Case(lambda x: x.roll(x.shape[0] // 2, 0)),
    "arange": Case(lambda x: torch.arange(x.shape[0] // 2, x.shape[0]) * x.numel()),
    "linspace": Case(lambda x: torch.linspace(-1, 2, x.shape[0]) + x.sum()),
    "logspace": Case(lambda x: torch.logspace(0, 1, x.shape[0], base=2.0) + x.sum()),
    "pad by symbols": Case(lambda x: F.pad(x, (0, 0, x.shape[0] // 2, 1))),
    "pad to a size": Case(lambda x: F.pad(x, (0, 0, 0, 10 - x.shape[0]))),
    "diagonal": Case(lambda x: (x @ x.T).diagonal(1), "n >= 1", (1, 2, 5), (0,)),
    "differences": Case(lambda x: x.cumsum(0)[2:] - x.cumsum(0)[:-2]),
}  # fmt: skip
# x is [2, 3, h, w]; 8 x 12 in the example where a case has none.
_ALL = ((4, 4), (5, 7), (9, 6), (1, 3), (16, 12))
PICTURES: dict[str, Case] = {
    "interpolate by areas": Case(
        lambda x: F.interpolate(x, (x.shape[2] // 2, x.shape[3] // 3), mode="area"),
        "h >= 1; w >= 1", (*_ALL, (2, 2)), ((0, 4),),
    ),
    "interpolate areas by a factor": Case(
        lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), "h >= 1; w >= 1", _ALL
    ),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(x, (3, None)), "", _ALL),
    "adaptive_avg_pool2d to symbols": Case(
        lambda x: F.adaptive_avg_pool2d(x, (x.shape[3], x.shape[2] // 2)), "h >= 1; w >= 1", _ALL
    ),
    "adaptive_max_pool2d to symbols": Case(
        lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, 2), return_indices=True),
        "h >= 1; w >= 1", _ALL,
    ),
    "adaptive_max_pool2d": Case(
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), "h >= 1; w >= 1", _ALL
    ),
    "a pool of the whole picture": Case(lambda x: F.avg_pool2d(x, x.shape[2:]), "", _ALL),
    "a maximum of the whole": Case(
        lambda x: F.max_pool2d(x, (x.shape[2], 1)), "h >= 1", _ALL, ((0, 4),)
    ),
    "a pool of a half": Case(
        lambda x: F.avg_pool2d(x, (x.shape[2] // 2, x.shape[3]), stride=1), "h >= 2",
        ((4, 4), (5, 7), (16, 12)), ((1, 4),),
    ),
    "sums of windows": Case(
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5), "", _ALL
    ),
    "convolutions and pools": Case(
        _pyramid, "w >= 17; h >= 17", ((17, 19), (31, 18), (40, 22)), ((16, 17), (17, 12)),
        (33, 35),
    ),
    "pixel_unshuffle": Case(
        lambda x: F.pixel_unshuffle(x, 2), "w * (h % 2) == 0; h * (w % 2) == 0; h >= 1; w >= 1",
        ((2, 2), (4, 6)), ((5, 4), (0, 4)),
    ),
    "doubled halves": Case(
        lambda x: F.interpolate(F.max_pool2d(x, 2), scale_factor=2.0) + x,
        "h % 2 == 0; w % 2 == 0; h >= 2; w >= 2", ((2, 4), (8, 6)), ((5, 4), (0, 2)),
    ),
    "windows of what is padded": Case(_padded_windows, "", (*_ALL, (0, 4))),
    "affine_grid": Case(
        lambda x: F.affine_grid(x[:, :2, :1, :3].reshape(2, 2, 3), x.size(), align_corners=True),
        "w >= 3; h >= 1", ((1, 3), (5, 4)), ((1, 2), (0, 4)),
    ),
}  # fmt: skip
GROUPS = [
    *((name, case, "n", (8,)) for name, case in ROWS.items()),
    *((name, case, "hw", case.example or (8, 12)) for name, case in PICTURES.items()),
]


def _input(sizes: Sequence[int]) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    return torch.randn(*sizes, 3) if len(sizes) == 1 else torch.randn(2, 3, *sizes)


@pytest.mark.parametrize(("name", "case", "dims", "example"), GROUPS, ids=[g[0] for g in GROUPS])
def test_every_size(name: str, case: Case, dims: str, example: Sequence[int]) -> None:
    model = Fn(case.function)
    axes = {i if dims == "n" else i + 2: d for i, d in enumerate(dims)}
    module = capture_torch(model, (_input(example),), {}, (axes,))
    rules = sorted(map(str, module.main.constraints))
    assert rules == sorted(filter(None, case.rules.split("; ")))
    for size in (example, *case.sizes):
        sizes = (size,) if isinstance(size, int) else tuple(size)
        assert_same(module, model, (_input(sizes),))
    for size in case.refused:
        with pytest.raises(ShapeConstraintError):
            interpret(module, [_input((size,) if isinstance(size, int) else size)])


def test_sizes_of_two_inputs() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        crop = (x.shape[2] - y.shape[2]) // 2
        middle = x[:, :, crop : crop + y.shape[2]]
        return (
            F.adaptive_avg_pool1d(x, y.shape[2]) + y,
            middle + y,
            torch.cat([x, y[:, :, : y.shape[2] // 2], x[:, :, 1:]], 2),
            torch.cat([x, x, y, y], 2).unflatten(2, (-1, 2)),
        )

    def inputs(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2, 3, n), torch.randn(2, 3, m)

    module = capture_torch(Fn(f), inputs(9, 6), {}, ({2: "n"}, {2: "m"}))
    for sizes in ((9, 6), (5, 5), (7, 2), (4, 1), (1, 1)):
        assert_same(module, Fn(f), inputs(*sizes))
    with pytest.raises(ShapeConstraintError, match="m <= n"):
        interpret(module, list(inputs(4, 5)))


def test_special_cases_of_operators_are_tried() -> None:
    """Torch keeps in mind that the windows are several, for the strides of a permutation."""

    def f(x: torch.Tensor) -> torch.Tensor:
        windows = x.view(2, 3, x.shape[2] // 4, 4, x.shape[3] // 4, 4)
        return windows.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, 4, 4)

    module = capture_torch(Fn(f), (torch.randn(2, 3, 8, 12),), {}, ({2: "h", 3: "w"},))
    for h, w in ((4, 4), (8, 4), (4, 8), (0, 4)):
        assert_same(module, Fn(f), (torch.randn(2, 3, h, w),))


def test_strides_of_a_permuted_tensor_are_those_of_its_memory() -> None:
    def f(x: torch.Tensor) -> Any:
        lines = x.transpose(0, 1).as_strided((x.shape[0] * x.shape[1] - 2, 3), (1, 1))
        return lines, x.permute(2, 0, 1).as_strided((3, 2), (2, 1))

    module = capture_torch(Fn(f), (torch.randn(4, 5, 3),), {}, ({0: "n", 1: "m"},))
    for sizes in ((4, 5, 3), (2, 6, 3), (1, 6, 3), (3, 1, 3)):
        assert_same(module, Fn(f), (torch.randn(sizes),))
