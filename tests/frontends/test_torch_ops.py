"""Single operators against torch, with symbolic dims n and m and at sizes down to 1."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.frontends.torch_helper import check

Make = Callable[[int, int], Sequence[torch.Tensor]]


def floats(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n * 31 + m)
    return [torch.randn(n, m) * 3]


def positive(n: int, m: int) -> list[torch.Tensor]:
    return [floats(n, m)[0].abs() + 0.1]


def unit(n: int, m: int) -> list[torch.Tensor]:
    return [floats(n, m)[0].tanh() * 0.9]


def pair(n: int, m: int) -> list[torch.Tensor]:
    return [*floats(n, m), floats(n + 1, m)[0][:n] + 0.01]


def triple(n: int, m: int) -> list[torch.Tensor]:
    return [*pair(n, m), floats(n + 2, m)[0][:n]]


def ints(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n + m)
    return [torch.randint(-9, 9, (n, m))]


def int_pair(n: int, m: int) -> list[torch.Tensor]:
    second = ints(n + 1, m)[0][:n]
    return [*ints(n, m), torch.where(second == 0, 3, second)]


def bools(n: int, m: int) -> list[torch.Tensor]:
    return [ints(n, m)[0] > 0, ints(n + 1, m)[0][:n] > 2]


def special(n: int, m: int) -> list[torch.Tensor]:
    x = floats(n, m)[0]
    x.view(-1)[0] = torch.nan
    x.view(-1)[-1] = -torch.inf
    return [x]


def picture(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n + m)
    return [torch.randn(n, 4, m + 7, 12)]


def cube(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n + m)
    return [torch.randn(n, 3, m), torch.randn(n, m, 5)]


Case = tuple[Any, Make]
MAPS: dict[str, Case] = {
    **{f: (getattr(torch, f), floats) for f in (
        "abs", "neg", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh",
        "asinh", "erf", "erfc", "sigmoid", "floor", "ceil", "trunc", "frac", "round", "sign",
        "square", "reciprocal", "relu", "isnan", "isfinite", "logical_not", "sinc", "signbit",
        "deg2rad", "positive")},
    **{f: (getattr(torch, f), positive) for f in (
        "sqrt", "rsqrt", "log", "log2", "log10", "log1p", "acosh")[:-1]},
    **{f: (getattr(torch, f), unit) for f in ("asin", "acos", "atanh")},
    **{f: (getattr(torch, f), special) for f in (
        "isinf", "isposinf", "isneginf", "nan_to_num", "relu", "sigmoid")},
    **{f"F.{f}": (getattr(F, f), special) for f in (
        "gelu", "silu", "elu", "selu", "celu", "hardtanh", "hardswish", "hardsigmoid", "relu6",
        "leaky_relu", "softplus", "logsigmoid", "mish", "softsign", "tanhshrink", "softshrink",
        "hardshrink")},
    **{f: (getattr(torch, f), pair) for f in (
        "add", "sub", "mul", "div", "atan2", "maximum", "minimum", "fmax", "fmin", "remainder",
        "fmod", "floor_divide", "eq", "ne", "lt", "le", "gt", "ge", "hypot", "logaddexp",
        "copysign")},
    **{f"int.{f}": (getattr(torch, f), int_pair) for f in (
        "add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "maximum", "bitwise_and",
        "bitwise_or", "bitwise_xor", "eq", "lt")},
    **{f"bool.{f}": (getattr(torch, f), bools) for f in (
        "add", "mul", "logical_and", "logical_or", "logical_xor", "bitwise_and", "eq", "maximum")},
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), floats),
    "bitwise_not": (torch.bitwise_not, ints),
    "int exp": (torch.exp, lambda n, m: [ints(n, m)[0] // 4]),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2.5), pair),
    "rsub": (lambda x: 1 - x, floats),
    "mixed dtypes": (lambda x: x + x.to(torch.int32) * 2 > x.to(torch.float64), floats),
    "int plus float": (lambda x: x + 1.5, ints),
    "int compare float": (lambda x: x > 1.5, ints),
    "bool plus int": (lambda x, y: x + 3 * y.to(torch.int64), bools),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), pair),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), int_pair),
    "div trunc float": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), pair),
    "floor of 1 by 0.1": (lambda x: (x * 0 + 1.0) // 0.1, floats),
    **{f"pow {p}": (lambda x, p=p: x**p, positive) for p in (2, 3, 0.5, -0.5, -1, -2, 1.7, 0)},
    "pow tensor": (lambda x, y: x.abs() ** y, pair),
    "scalar pow": (lambda x: 2**x, floats),
    "int pow": (lambda x: x**2, ints),
    "clamp": (lambda x: x.clamp(-1, 2), special),
    "clamp min": (lambda x: x.clamp(min=0.5), special),
    "clamp tensor": (lambda x, y: x.clamp(min=y), pair),
    "int clamp": (lambda x: x.clamp(-2, 3), ints),
    "where": (lambda x, y: torch.where(x > y, x, y), pair),
    "where scalar": (lambda x: torch.where(x > 0, x, 0.0), floats),
    "masked_fill": (lambda x: x.masked_fill(x > 0, float("-inf")), floats),
    "lerp": (lambda x, y, z: torch.lerp(x, y, z), triple),
    "lerp scalar": (lambda x, y: torch.lerp(x, y, 0.7), pair),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.5), triple),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), triple),
    "xlogy": (lambda x, y: torch.xlogy(x, y.abs()), pair),
    "logit": (lambda x: torch.logit(x.sigmoid(), eps=1e-3), floats),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), special),
    "round decimals": (lambda x: torch.round(x, decimals=2), floats),
    "glu": (lambda x: F.glu(torch.cat([x, x], 1), 1), floats),
    "softplus beta": (lambda x: F.softplus(x, 2.0, 5.0), floats),
    "to bool": (lambda x: x.to(torch.bool), special),
    "to half": (lambda x: x.half() * 2, floats),
    "to bf16": (lambda x: (x.to(torch.bfloat16) + 1).float(), floats),
    "type_as": (lambda x, y: x.type_as(y.int()), pair),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3])), floats),
}  # fmt: skip

REDUCTIONS: dict[str, Case] = {
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 1))), floats),
    "sum bool": (lambda x, y: x.sum(1), bools),
    "sum dtype": (lambda x: x.sum(0, dtype=torch.float64), floats),
    "mean": (lambda x: (x.mean(), x.mean(0), x.mean((0, 1), keepdim=True)), floats),
    "prod": (lambda x: (x.prod(), x.prod(1)), unit),
    "amax": (lambda x: (x.amax(), x.amax(0), x.amin(1, keepdim=True)), special),
    "max": (lambda x: (x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True)), ints),
    "max nan": (lambda x: (x.max(), *x.max(1)), special),
    "aminmax": (lambda x: tuple(torch.aminmax(x, dim=1)), floats),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), ints),
    "any all": (lambda x, y: (x.any(), x.all(1), x.any(0, keepdim=True)), bools),
    "any all of a check": (
        lambda x, y: (torch.ops.aten._is_all_true(x), torch.ops.aten._is_any_true(x),
                      torch.ops.aten._is_all_true(x | ~x), torch.ops.aten._is_any_true(x & ~x)),
        bools,
    ),
    "var": (lambda x: (x.var(1, unbiased=False), x.std((0, 1), correction=0)), floats),
    "var_mean": (lambda x: torch.var_mean(x, 1, correction=0, keepdim=True), floats),
    "norm": (lambda x: (x.norm(), x.norm(dim=1), x.norm(1, dim=0), x.norm(3.0, dim=1)), floats),
    "vector_norm": (lambda x: (torch.linalg.vector_norm(x, float("inf"), dim=1),
                               torch.linalg.vector_norm(x, 0)), floats),
    "normalize": (lambda x: F.normalize(x, dim=-1), floats),
    "cosine": (lambda x, y: F.cosine_similarity(x, y, dim=1), pair),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), floats),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0), F.softmin(x, 1)), floats),
    "softmax dtype": (lambda x: x.half().softmax(-1, dtype=torch.float32), floats),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(-1)), floats),
    "cumsum bool": (lambda x, y: x.cumsum(1), bools),
    "count_nonzero": (lambda x: (x.count_nonzero(), x.count_nonzero(1)), ints),
    "diff": (lambda x: torch.diff(x, dim=1, prepend=x[:, :1]), floats),
    "nansum": (lambda x: (x.nansum(), x.nanmean(1)), special),
    "median by sort": (lambda x: x.sort(1), ints),
    "sort down": (lambda x: torch.sort(x, dim=0, descending=True, stable=True), ints),
    "argsort": (lambda x: x.argsort(-1), floats),
    "topk": (lambda x: x.topk(1, dim=1), floats),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0])), floats),
    "isin": (lambda x: torch.isin(x, torch.tensor([1, 3])), ints),
}  # fmt: skip

SHAPES: dict[str, Case] = {
    "view": (lambda x: (x.view(-1), x.reshape(1, -1, x.shape[0]), x.flatten()), floats),
    "unsqueeze": (lambda x: (x.unsqueeze(-1), x[None].squeeze(0), x[:, None, :]), floats),
    "transpose": (lambda x: (x.t(), x.transpose(0, 1), x.T, x.mT, x.permute(1, 0)), floats),
    "movedim": (lambda x: torch.movedim(x, 1, 3), picture),
    "expand": (lambda x: (x[:, None].expand(-1, 3, -1), x.unsqueeze(0).expand(2, -1, -1)), floats),
    "repeat": (lambda x: (x.repeat(2, 3), x.repeat(2, 1, 1), torch.tile(x, (2,))), floats),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, dim=1), floats),
    "cat": (lambda x, y: (torch.cat([x, y], 0), torch.cat([x, y], -1)), pair),
    "cat dtypes": (lambda x: torch.cat([x, x.int()], 0), floats),
    "stack": (lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)), pair),
    "hstack": (lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y])), pair),
    "split": (lambda x: torch.cat([x, x], 1).split(x.shape[1], 1), floats),
    "chunk": (lambda x: x.chunk(3, 3), picture),
    "unbind": (lambda x: x.unbind(1), picture),
    "slice": (lambda x: (x[:, 1:], x[:, :-1], x[-1:], x[:, ::2], x[:2, -3:]), floats),
    "slice by size": (lambda x: (x[: x.shape[0] // 2], x[:, x.shape[1] // 3 :]), floats),
    "select": (lambda x: (x[0], x[:, -1], x.select(1, 0)), floats),
    "narrow": (lambda x: x.narrow(3, 2, 5), picture),
    "flip": (lambda x: (x.flip(0), x.flip(0, 1), x.flip(-1)), floats),
    "roll": (lambda x: (x.roll(1, 0), x.roll((2, -1), (0, 1)), x.roll(3)), floats),
    "rot90": (lambda x: tuple(torch.rot90(x, k, (0, 1)) for k in range(4)), floats),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, -1, 3, 0), value=2.5)), floats),
    "pad modes": (lambda x: tuple(F.pad(x, (2, 1, 1, 2), mode=m) for m in (
        "reflect", "replicate", "circular")), picture),
    "pixel_shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.channel_shuffle(x, 2)), picture),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[:, :, :6], 2), picture),
    "tril": (lambda x: (x.tril(), x.triu(1), x.tril(-1)), floats),
    "diagonal": (lambda x: (x[..., :4].diagonal(0, 1, 3), x.diagonal(1, 1, 3)), picture),
    "diag_embed": (torch.diag_embed, floats),
    "unfold": (lambda x: x.unfold(2, 3, 2), picture),
    "meshgrid": (lambda x: torch.meshgrid(x[0], x[:, 0], indexing="xy"), floats),
    "broadcast": (lambda x: torch.broadcast_tensors(x, x[:1]), floats),
    "unflatten": (lambda x: x.unflatten(3, (3, 4)), picture),
    "interpolate": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 9))),
                    picture),
    "bilinear": (lambda x: (
        F.interpolate(x, size=(9, 5), mode="bilinear"),
        F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True)), picture),
    "bicubic": (lambda x: F.interpolate(x, size=(9, 5), mode="bicubic"), picture),
    "nearest-exact": (lambda x: F.interpolate(x, size=(9, 5), mode="nearest-exact"), picture),
}  # fmt: skip

CREATED: dict[str, Case] = {
    "arange": (lambda x: (torch.arange(x.shape[1]), torch.arange(1, 8, 2),
                          torch.arange(0, 1, 0.3)), floats),
    "like": (lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2),
                        x.new_full((2, x.shape[0]), 7), x.new_zeros(3)), floats),
    "zeros": (lambda x: (torch.zeros(x.shape[0], 2), torch.full((x.shape[1],), 1.5)), floats),
    "eye": (lambda x: torch.eye(x.shape[0]), floats),
    "linspace": (lambda x: torch.linspace(-1, 2, 7), floats),
    "one_hot": (lambda x: F.one_hot(x.abs(), 10), ints),
    "size in arithmetic": (lambda x: (x / x.shape[1], x * x.shape[0], x + x.numel()), floats),
    "float of size": (lambda x: x * (1 / x.shape[1] ** 0.5), floats),
    "tensor of size": (lambda x: torch.tensor(x.shape[0]) * x, floats),
    "causal mask": (lambda x: torch.arange(x.shape[1])[None] <= torch.arange(x.shape[0])[:, None],
                    floats),
}  # fmt: skip


def taken(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n)
    return [torch.randn(n, m), torch.randint(0, n, (3, 2)), torch.randint(0, m, (3, 2))]


def put(n: int, m: int) -> list[torch.Tensor]:
    torch.manual_seed(n)
    index = torch.stack([torch.randperm(n) for _ in range(m)], 1)
    return [torch.randn(n, m), index, torch.randn(n, m)]


INDEXED: dict[str, Case] = {
    "index": (lambda x, i, j: (x[i], x[i, j], x[:, j], x[None, i]), taken),
    "index negative": (lambda x, i, j: (x[i - x.shape[0], j], x[:, j * 0 - 1]), taken),
    "index apart": (lambda x, i, j: x[None, :, None][:, i, :, j], taken),
    "embedding": (lambda x, i, j: F.embedding(i, x), taken),
    "index_select": (lambda x, i, j: x.index_select(1, j.view(-1)), taken),
    "gather": (lambda x, i, y: x.gather(0, i), put),
    "scatter": (lambda x, i, y: (x.scatter(0, i, y), x.scatter_add(0, i, y),
                                 x.scatter(0, i, 2.0)), put),
    "scatter_reduce": (lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), put),
    "index_put": (lambda x, i, j: x.index_put((i, j), torch.tensor(7.0)), taken),
    "index_put add": (lambda x, i, j: x.index_put((i,), x[i], accumulate=True), taken),
    "masked put": (lambda x, i, j: x.index_put((x > 0,), torch.tensor(0.5)), taken),
    "index_add": (lambda x, i, j: x.index_add(0, i[:, 0], x[i[:, 0]], alpha=2), taken),
    "index_fill": (lambda x, i, j: x.index_fill(1, j[:, 0], 3.0), taken),
}  # fmt: skip

PRODUCTS: dict[str, Case] = {
    "matmul": (lambda x, y: (x @ y, torch.bmm(x, y), x[0] @ y, x @ y[0], x[0, 0] @ y), cube),
    "matmul vector": (lambda x, y: x @ y[0, :, 0], cube),
    "batches": (lambda x, y: x[:, None] @ y[None], cube),
    "einsum": (lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij->bji", x)),
               cube),
    "addmm": (lambda x, y: (torch.addmm(torch.ones(5), x[0], y[0], beta=2, alpha=0.5),
                            torch.baddbmm(torch.ones(3, 5), x, y, beta=0)), cube),
    "dot": (lambda x: (torch.dot(x[0], x[0]), torch.outer(x[0], x[:, 0]), torch.mv(x, x[0])),
            floats),
    "int matmul": (lambda x: x @ x.T, ints),
    "cross": (lambda x, y: torch.linalg.cross(x, y.permute(0, 2, 1)[:, :3], dim=1), cube),
    "linear": (torch.nn.Linear(12, 3), picture),
    "bilinear": (torch.nn.Bilinear(12, 12, 3), lambda n, m: [picture(n, m)[0]] * 2),
    "conv1d": (torch.nn.Conv1d(3, 4, 1), lambda n, m: [cube(n, m)[0]]),
    "conv2d": (torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), picture),
    "conv2d same": (torch.nn.Conv2d(4, 6, (2, 3), padding="same", dilation=2), picture),
    "conv2d valid": (torch.nn.Conv2d(4, 6, 3, padding="valid", bias=False), picture),
    "conv2d circular": (torch.nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), picture),
    "conv3d": (torch.nn.Conv3d(2, 3, (1, 3, 2)),
               lambda n, m: [picture(n, m)[0].view(n, 2, 2, m + 7, 12)]),
    "conv_transpose": (torch.nn.ConvTranspose2d(4, 3, 3, 2, 1, 1), picture),
    "unbatched conv": (torch.nn.Conv2d(4, 6, 3), lambda n, m: [picture(n, m)[0][0]]),
}  # fmt: skip

LAYERS: dict[str, Case] = {
    "layer_norm": (torch.nn.LayerNorm(12), picture),
    "rms_norm": (torch.nn.RMSNorm(12), picture),
    "batch_norm": (torch.nn.BatchNorm2d(4), picture),
    "batch_norm plain": (torch.nn.BatchNorm2d(4, affine=False), picture),
    "group_norm": (torch.nn.GroupNorm(2, 4), picture),
    "instance_norm": (torch.nn.InstanceNorm2d(4, affine=True), picture),
    "local_response": (torch.nn.LocalResponseNorm(3), picture),
    "weight_norm": (torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(12, 3)), picture),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), picture),
    "max_pool indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), picture),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 1, 1, False, False),
                            F.avg_pool2d(x, 2, divisor_override=3)), picture),
    "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 2), picture),
    "adaptive": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 4)),
                            F.adaptive_avg_pool2d(x, (None, 5)), F.adaptive_max_pool2d(x, 2)),
                 picture),
    "pool1d": (lambda x, y: (F.max_pool1d(x, 1, 2), F.adaptive_avg_pool1d(x, 1)), cube),
    "grid_sample": (lambda x: F.grid_sample(
        x, torch.linspace(-1.2, 1.2, 24).view(1, 3, 4, 2).expand(x.shape[0], -1, -1, -1),
        align_corners=False), picture),
    "dropout": (torch.nn.Dropout(0.5), picture),
    "mha": (lambda x, y: F.scaled_dot_product_attention(x, x, x), cube),
}  # fmt: skip

ALL = {
    **{f"map {k}": v for k, v in MAPS.items()},
    **{f"reduce {k}": v for k, v in REDUCTIONS.items()},
    **{f"shape {k}": v for k, v in SHAPES.items()},
    **{f"create {k}": v for k, v in CREATED.items()},
    **{f"index {k}": v for k, v in INDEXED.items()},
    **{f"product {k}": v for k, v in PRODUCTS.items()},
    **{f"layer {k}": v for k, v in LAYERS.items()},
}
SIZES = [(4, 6), (1, 1), (5, 3)]
# A model that torch itself can't run at a size is not compared there.


@pytest.mark.parametrize("name", list(ALL))
def test_against_torch(name: str) -> None:
    function, make = ALL[name]
    if isinstance(function, torch.nn.Module):
        torch.manual_seed(0)
    dynamic = _dynamic(make(4, 6), make(5, 3), function)
    usable = [make(n, m) for n, m in SIZES[1:] if _runs(function, make(n, m))]
    check(function, *make(4, 6), dynamic=dynamic, sizes=usable)


def _runs(function: Any, args: Sequence[torch.Tensor]) -> bool:
    try:
        function(*args)
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def _dynamic(
    first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], function: Any
) -> dict[str, Any]:
    """Every axis whose size differs between two examples, under a name by its sizes."""
    if isinstance(function, torch.nn.Module):
        names = list(inspect.signature(function.forward).parameters)
    else:
        names = [f"args_{i}" for i in range(len(first))]
    table: dict[str, Any] = {}
    for name, a, b in zip(names, first, second, strict=False):
        pairs = zip(a.shape, b.shape, strict=True)
        table[name] = {i: f"d{x}_{y}" for i, (x, y) in enumerate(pairs) if x != y}
    return table
