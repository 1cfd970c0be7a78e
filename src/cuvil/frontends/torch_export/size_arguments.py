"""Functions of torch whose sizes are plain integers to its tracer, given symbolic ones.

A kernel as wide as the picture, pools to half of it, a grid of its width: torch would fix the size
to that of the example. What can be is written with functions that keep it; adaptive pools become
operators of their own, of which torch traces the shape alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

MEAN = "adaptive_mean(Tensor self, SymInt[] sizes) -> Tensor"
LARGEST = "adaptive_largest(Tensor self, SymInt[] sizes) -> (Tensor, Tensor)"
_MEANS: tuple[Any, ...] = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
_LARGEST: tuple[Any, ...] = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
_AVERAGES: tuple[Any, ...] = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_MAXIMA: tuple[Any, ...] = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
# What torch.nn.functional calls itself, where no mode sees it: pools of interpolate(mode="area").
INNER = {f"adaptive_avg_pool{i + 1}d": f for i, f in enumerate(_MEANS)}


def mean_to(self: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Adaptive average pooling over the last ``len(sizes)`` dimensions."""
    found: torch.Tensor = _MEANS[len(sizes) - 1](self, sizes)
    return found


def largest_to(self: torch.Tensor, sizes: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Adaptive max pooling over the last dimensions, and the places of the maxima."""
    values, places = _LARGEST[len(sizes) - 1](self, sizes, return_indices=True)
    return values, places


def mean_shape(self: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """The type of what ``mean_to`` gives."""
    return self.new_empty((*self.shape[: -len(sizes)], *sizes))


def largest_shape(self: torch.Tensor, sizes: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The types of what ``largest_to`` gives."""
    values = mean_shape(self, sizes)
    return values, values.new_empty(values.shape, dtype=torch.int64)


def routes() -> dict[Any, Callable[..., Any]]:
    """By function of torch, what is called instead."""
    found: dict[Any, Callable[..., Any]] = {
        torch.linspace: functools.partial(_linspace, torch.linspace),
        torch.logspace: functools.partial(_logspace, torch.logspace),
        torch.Tensor.unfold: functools.partial(_unfold, torch.Tensor.unfold),
        F.affine_grid: functools.partial(_affine_grid, F.affine_grid),
    }
    for i in range(3):
        found[_MEANS[i]] = functools.partial(_adaptive_mean, _MEANS[i], i + 1)
        for several in (False, True):
            pool = getattr(F, f"adaptive_max_pool{i + 1}d{'_with_indices' * several}")
            found[pool] = functools.partial(_adaptive_largest, pool, i + 1, several)
        found[_AVERAGES[i]] = functools.partial(_average, _AVERAGES[i], i + 1)
        found[_MAXIMA[i]] = functools.partial(_maximum, _MAXIMA[i], i + 1)
    for function, route in found.items():
        functools.update_wrapper(route, function)  # modes of torch ask for names
    return found


def _symbolic(*items: Any) -> bool:
    return any(isinstance(i, torch.SymInt) for i in items)


def _sizes(given: Any, input: torch.Tensor, count: int) -> list[Any]:
    """One size for each of the last dimensions; None keeps it."""
    items = list(given) if isinstance(given, (list, tuple)) else [given] * count
    items = items * count if len(items) == 1 else items
    return [input.shape[i - count] if s is None else s for i, s in enumerate(items)]


def _adaptive_mean(
    function: Any, count: int, input: torch.Tensor, output_size: Any
) -> torch.Tensor:
    sizes = _sizes(output_size, input, count)
    whole = function if not _symbolic(*sizes) else torch.ops.cuvil_capture.adaptive_mean
    found: torch.Tensor = whole(input, output_size if whole is function else sizes)
    return found


def _adaptive_largest(
    function: Any, count: int, several: bool, input: torch.Tensor, output_size: Any,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    sizes = _sizes(output_size, input, count)
    if not _symbolic(*sizes):
        return function(input, output_size, return_indices)
    values, places = torch.ops.cuvil_capture.adaptive_largest(input, sizes)
    return (values, places) if several or return_indices else values


def _average(
    function: Any, count: int, input: torch.Tensor, kernel_size: Any, stride: Any = None,
    padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:  # fmt: skip
    kernel, steps = _windows(input, kernel_size, stride, count)
    plain = not ceil_mode and divisor_override is None and not any(_sizes(padding, input, count))
    if plain and _symbolic(*kernel, *steps):
        return _pooled(input, kernel, steps, torch.mean)
    rest = (divisor_override,) if count > 1 else ()
    found: torch.Tensor = function(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, *rest
    )
    return found


def _maximum(
    function: Any, count: int, input: torch.Tensor, kernel_size: Any, stride: Any = None,
    padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    kernel, steps = _windows(input, kernel_size, stride, count)
    spread = any(d != 1 for d in _sizes(dilation, input, count))
    plain = not (ceil_mode or return_indices or spread or any(_sizes(padding, input, count)))
    if plain and _symbolic(*kernel, *steps):
        return _pooled(input, kernel, steps, torch.amax)
    return function(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _windows(
    input: torch.Tensor, kernel: Any, stride: Any, count: int
) -> tuple[list[Any], list[Any]]:
    sizes = _sizes(kernel, input, count)
    given = stride is not None and stride != [] and stride != ()
    return sizes, _sizes(stride, input, count) if given else sizes


def _pooled(
    x: torch.Tensor, kernel: Sequence[Any], steps: Sequence[Any], reduce: Callable[..., Any]
) -> torch.Tensor:
    """Windows without padding, dimension by dimension; those that are whole at once."""
    count = len(kernel)
    for size in kernel:
        torch._check(size >= 1, lambda: "a window has an element")
    whole = [i - count for i, k in enumerate(kernel) if _same(k, x.shape[i - count])]
    if whole:
        x = reduce(x, whole, True)
    for i, (size, step) in enumerate(zip(kernel, steps, strict=True)):
        if i - count not in whole:
            x = reduce(_unfold(torch.Tensor.unfold, x, i - count, size, step), [-1], False)
    return x


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes are one by what they are written as; nothing is assumed of them."""
    texts = [str(s.node.expr) if isinstance(s, torch.SymInt) else str(s) for s in (a, b)]
    return texts[0] == texts[1]


def _unfold(function: Any, self: torch.Tensor, dimension: int, size: Any, step: Any) -> Any:
    if not _symbolic(size, step):
        return function(self, dimension, size, step)
    axis = dimension % self.dim()
    have = self.shape[axis]
    torch._check(size <= have, lambda: "a window is as long as its dimension or shorter")
    count = (have - size) // step + 1
    places = (torch.arange(count) * step).unsqueeze(1) + torch.arange(size)
    return self[(slice(None),) * axis + (places,)].movedim(axis + 1, -1)


def _linspace(function: Any, start: Any, end: Any, steps: Any, **options: Any) -> torch.Tensor:
    kind = options.get("dtype") or torch.get_default_dtype()
    plain = kind.is_floating_point and options.get("out") is None
    if not _symbolic(steps) or not plain or any(map(torch.is_tensor, (start, end))):
        found: torch.Tensor = function(start, end, steps, **options)
        return found
    part = torch.arange(steps, dtype=torch.float64) / torch.sym_max(steps - 1, 1)
    return (part * (end - start) + start).to(kind)


def _logspace(
    function: Any, start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any
) -> torch.Tensor:
    kind = options.get("dtype") or torch.get_default_dtype()
    plain = kind.is_floating_point and options.get("out") is None
    if not _symbolic(steps) or not plain or any(map(torch.is_tensor, (start, end, base))):
        found: torch.Tensor = function(start, end, steps, base, **options)
        return found
    exponents = _linspace(torch.linspace, start, end, steps, dtype=torch.float64)
    return torch.pow(base, exponents).to(kind)


def _affine_grid(
    function: Any, theta: torch.Tensor, size: Sequence[Any], align_corners: bool | None = None
) -> torch.Tensor:
    if not _symbolic(*size):
        found: torch.Tensor = function(theta, size, align_corners)
        return found
    spatial = list(size[2:])
    axes = [_centres(n, bool(align_corners), theta.dtype) for n in reversed(spatial)]
    lines = [
        axis.reshape([-1 if j == len(spatial) - 1 - i else 1 for j in range(len(spatial))])
        for i, axis in enumerate(axes)
    ]
    points = torch.stack([line.expand(spatial) for line in lines], -1)
    turned = theta[..., :-1].transpose(-1, -2)
    lead = (1,) * (len(spatial) - 1)
    turned = turned.reshape(theta.shape[0], *lead, *turned.shape[1:])
    shift = theta[..., -1].reshape(theta.shape[0], *lead, 1, theta.shape[-2])
    return points @ turned + shift


def _centres(count: Any, corners: bool, kind: torch.dtype) -> torch.Tensor:
    """The places of pixels from -1 to 1: their centres, or with the corners' pixels at the ends;
    that of a single one is 0."""
    line = torch.arange(count, dtype=torch.float64) * 2 + (1 - count)
    return (line / (torch.sym_max(count - 1, 1) if corners else count)).to(kind)
