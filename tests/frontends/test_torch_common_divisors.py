"""gcd and lcm of every integer type, with numbers and products that don't fit.

What is right is C's arithmetic, as torch's kernels have it: integers shorter than 32 bits are
computed with as 32 bits, and what is stored wraps. So the absolute value of the smallest integer
is itself, Euclid's algorithm goes on from there, and lcm is the absolute value of a product that
wraps at 32 or 64 bits.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import cuvil
from tests.frontends.torch_helper import Fn, interpret

_TYPES = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32, "int64": 64}
_PAIRS = {"int8": (100, 7, -68), "uint8": (200, 7, 120), "int16": (30000, 7, 13392),
          "int32": (2**30, 3, 2**30), "int64": (2**62, 3, 2**62)}  # fmt: skip


def _wrapped(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _quotient(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def _gcd(a: int, b: int, bits: int, signed: bool) -> int:
    a, b = (_wrapped(abs(x), bits, signed) for x in (a, b))
    while a:
        a, b = b - _quotient(b, a) * a, a
    return b


def _lcm(a: int, b: int, bits: int, signed: bool) -> int:
    shared = _gcd(a, b, bits, signed)
    product = _quotient(a, shared) * b if shared else 0
    return _wrapped(abs(_wrapped(product, max(bits, 32), True)), bits, signed)


def _numbers(name: str) -> list[int]:
    info = torch.iinfo(getattr(torch, name))
    if name.endswith("int8"):
        return list(range(info.min, info.max + 1))
    low, high = info.min, info.max
    ends = [low, low + 1, low + 6, low // 2, low // 3, high, high - 1, high // 2, high // 7 * 7]
    return sorted({*ends, *range(-12, 13), 100, -100, 30000, 5040, high // 5040 * 5040})


def _each(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = _numbers(name)
    pairs = torch.tensor(list(itertools.product(numbers, repeat=2)), dtype=getattr(torch, name))
    return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()


def _traps(name: str, a: int, b: int) -> bool:
    """Whether torch's lcm divides the smallest integer by -1 in its own type, which ends it."""
    bits = _TYPES[name]
    return bits >= 32 and a == -(1 << (bits - 1)) and _gcd(a, b, bits, True) == -1


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize(("function", "oracle"), [(torch.gcd, _gcd), (torch.lcm, _lcm)])
def test_every_pair(function: Any, oracle: Any, name: str) -> None:
    x, y = _each(name)
    bits, signed = _TYPES[name], not name.startswith("u")
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    want = [oracle(a, b, bits, signed) for a, b in pairs]
    safe = [not _traps(name, a, b) for a, b in pairs]
    with cuvil.compile(Fn(function), (x[:2], y[:2]), dynamic_dims=["n"], verify=False) as artifact:
        assert artifact(x, y).tolist() == want
        assert interpret(artifact.source.module, (x, y))[0].tolist() == want
    kept = torch.tensor(safe)
    assert function(x[kept], y[kept]).tolist() == torch.tensor(want)[kept].tolist()


@pytest.mark.parametrize(("name", "case"), _PAIRS.items())
def test_products_that_do_not_fit(name: str, case: tuple[int, int, int]) -> None:
    """The exact product modulo 2**bits; of 32 bits and more, its absolute value in turn."""
    *given, want = case
    bits = _TYPES[name]
    stored = _wrapped(given[0] * given[1], bits, not name.startswith("u"))
    assert (stored if bits < 32 else abs(stored)) == want
    x, y = (torch.tensor([v], dtype=getattr(torch, name)) for v in given)
    with cuvil.compile(Fn(torch.lcm), (x, y)) as artifact:
        assert artifact(x, y).tolist() == torch.lcm(x, y).tolist() == [want]
