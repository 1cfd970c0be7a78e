"""Floats that an integer type can't hold, as the guide to PyTorch has them."""

from __future__ import annotations

import math
import platform

import pytest
import torch

import cuvil

_NAN, _INF = math.nan, math.inf
_SMALL = ("bool", "int8", "uint8", "int16", "uint16")
_FLOATS = [_NAN, _INF, -_INF, -1.5, 200.75, -200.75, 7e4, -7e4, 3e9, -3e9, 1e19, -1e19, 1e20]
# The guide's table: by type, what a value becomes.
_WIDE: dict[str, dict[float, int]] = {
    "int32": {_INF: 2**31 - 1, 3e9: 2**31 - 1, 1e20: 2**31 - 1, -_INF: -(2**31), -3e9: -(2**31)},
    "int64": {_INF: 2**63 - 1, 1e19: 2**63 - 1, -_INF: -(2**63), -1e19: -(2**63), 3e9: 3 * 10**9},
    "uint32": {-1.5: 2**32 - 1, -3e9: 2**32 - 3 * 10**9, 5e9: 5 * 10**9 - 2**32, _INF: 0, 1e20: 0,
               -_INF: 0, -1e19: 0, 3e9: 3 * 10**9},
    "uint64": {-1.5: 2**64 - 1, -3e9: 2**64 - 3 * 10**9, _INF: 2**64 - 1, 1e20: 2**64 - 1,
               -_INF: 0, -1e19: 0, 2.0**63: 2**63},
}  # fmt: skip


def _to(name: str) -> torch.nn.Module:
    class Cast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(getattr(torch, name))

    return Cast()


def _given(name: str, values: list[float], dtype: torch.dtype) -> tuple[list[int], list[int]]:
    """What the artifact and what torch gives; whole vectors of each value."""
    x = torch.tensor(values, dtype=dtype).repeat_interleave(16)
    model = _to(name)
    with cuvil.compile(model, (torch.zeros_like(x),), verify=False) as artifact:
        return artifact(x)[::16].tolist(), model(x)[::16].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", _WIDE)
def test_wide_integers(name: str, dtype: torch.dtype) -> None:
    table = {_NAN: 0, **_WIDE[name]}
    found, theirs = _given(name, list(table), dtype)
    assert found == list(table.values())
    if platform.machine() != "x86_64":
        return
    if name == "uint64":
        same = (-1.5, -3e9)
        assert all(a == b for v, a, b in zip(table, found, theirs, strict=True) if v in same)
    if name[0] == "i":
        end = -(2 ** (int(name[3:]) - 1))
        low = {v: end for v in table if not math.isfinite(v) or abs(v) > -end}
        assert theirs == [low.get(v, table[v]) for v in table]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="torch gives other values elsewhere")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", _SMALL)
def test_small_integers_are_those_of_torch(name: str, dtype: torch.dtype) -> None:
    values = [v for v in _FLOATS if dtype != torch.float16 or not 65504 < abs(v) < _INF]
    found, theirs = _given(name, values, dtype)
    assert found == theirs
    if name != "bool":
        assert found[:3] == [0, 0, 0]
        bits = int(name.lstrip("uint"))
        assert [v % 2**bits for v in found[3:6]] == [-1 % 2**bits, 200 % 2**bits, -200 % 2**bits]
