"""Numbers beside tensors of f16 and bf16: what torch rounds to the tensor's type, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nn

import cuvil

Function = Callable[[torch.Tensor, float], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "add": lambda x, s: x + s,
    "sub": lambda x, s: x - s,
    "rsub": lambda x, s: s - x,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "number / x": lambda x, s: s / (x + 20),
    "floor": lambda x, s: x // s,
    "trunc": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "remainder": lambda x, s: x % s,
    "fmod": lambda x, s: x.fmod(s),
    "x * rank 0": lambda x, s: x * torch.tensor(s),
    "x * rank 0, f64": lambda x, s: x * torch.tensor(s, dtype=torch.float64),
    "rank 0 * x": lambda x, s: torch.tensor(s) * x,
    "x / rank 0": lambda x, s: x / torch.tensor(s),
    "rank 0 / x": lambda x, s: torch.tensor(s) / (x + 20),
    "rank 0 - x": lambda x, s: torch.tensor(s) - x,
    "hypot, rank 0": lambda x, s: torch.hypot(x, torch.tensor(s)),
    "logaddexp, rank 0": lambda x, s: torch.logaddexp(x, torch.tensor(s)),
    "greater": lambda x, s: x > s,
    "equal": lambda x, s: x == s,
    "clamp": lambda x, s: x.clamp(-s, s),
    "threshold": lambda x, s: nn.threshold(x, s, 0.3),
    "hardshrink": nn.hardshrink,
    "softshrink": nn.softshrink,
    "leaky_relu": nn.leaky_relu,
    "elu": nn.elu,
    "celu": nn.celu,
    "lerp": lambda x, s: torch.lerp(x, x.flip(0), s),
    "addcmul": lambda x, s: torch.addcmul(x, x, x.flip(0), value=s),
    "add, alpha": lambda x, s: torch.add(x, x.flip(0), alpha=s),
    "sub, alpha": lambda x, s: torch.sub(x, x.flip(0), alpha=s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "where": lambda x, s: torch.where(x > 0, x, s),
    "mean by a number": lambda x, s: x.sum() / 1001,
}


# PyTorch's own kernels of these make one multiply-add of what are two operators here: a sum that
# is nearly halfway between two numbers may be rounded to the other one.
JOINED = {"lerp", "addcmul"}


class _With(torch.nn.Module):
    def __init__(self, function: Function, number: float) -> None:
        super().__init__()
        self.function, self.number = function, number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.number)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_count_as_in_torch(name: str, dtype: torch.dtype) -> None:
    made = torch.Generator().manual_seed(7)
    edges = torch.tensor([0.1, 0.3, 0.7, -0.1, 0.0])
    x = torch.cat([torch.randn(1019, generator=made) * 3, edges]).to(dtype)
    for number in (0.1, 0.7):
        model = _With(FUNCTIONS[name], number)
        found = cuvil.compile(model, (x,), verify=False)(x)
        want = model(x)
        off = (found.view(torch.int16).int() - want.view(torch.int16).int()).abs()
        if name in JOINED:
            assert off.max() <= 1 and (off > 0).sum() <= 2
        else:
            torch.testing.assert_close(found, want, rtol=0, atol=0, equal_nan=True)


def test_a_number_beyond_the_type_is_no_infinity() -> None:
    class Masked(torch.nn.Module):
        def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (scores + (1.0 - mask[:, None]) * -1e9).softmax(-1)

    scores, all_kept = torch.zeros(1, 2, 4).half(), torch.ones(1, 4).half()
    some = torch.tensor([[1.0, 1.0, 0.0, 0.0]]).half()
    compiled = cuvil.compile(Masked(), (scores, all_kept))
    assert compiled(scores, some).tolist() == [[[0.5, 0.5, 0.0, 0.0]] * 2]
    assert compiled(scores, all_kept).tolist() == [[[0.25] * 4] * 2]


def test_a_number_below_the_type_is_no_zero() -> None:
    x = torch.tensor([6e4, 1e3, 1.0]).half()
    for function in (lambda t: t * 1e-8, lambda t: t / 1e5, lambda t: nn.leaky_relu(-t, 1e-8)):
        model = _With(lambda t, s, function=function: function(t), 0.0)
        assert cuvil.compile(model, (x,))(x).tolist() == function(x).tolist()
