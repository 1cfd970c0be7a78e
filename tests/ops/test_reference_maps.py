"""Elementwise references against torch for floats, and against Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.ops import elementwise
from tests.ops.checks import check_against, run
from tests.ops.values import Array, Case, case

FUNCTIONAL = torch.nn.functional

_CLOSE: Mapping[str, Callable[..., torch.Tensor]] = {
    "rsqrt": torch.rsqrt, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
    "log": torch.log, "log1p": torch.log1p, "log2": torch.log2, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos,
    "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "erf": torch.erf,
    "sigmoid": torch.sigmoid, "silu": FUNCTIONAL.silu, "gelu": FUNCTIONAL.gelu,
    "gelu_tanh": partial(FUNCTIONAL.gelu, approximate="tanh"),
    "softplus": partial(FUNCTIONAL.softplus, threshold=700), "pow": torch.pow,
    "atan2": torch.atan2,
}  # fmt: skip

_EXACT: Mapping[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg, "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "round": torch.round, "add": torch.add,
    "sub": torch.sub, "mul": torch.mul, "div": torch.div, "floordiv": torch.floor_divide,
    "max": torch.maximum, "min": torch.minimum,
    "isnan": torch.isnan, "isinf": torch.isinf, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt,
    "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    # torch has sign(NaN) = 0; ours is NaN.
    "sign": lambda x: torch.where(torch.isnan(x), x, torch.sign(x)),
}  # fmt: skip


def _trunc_div(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _int_power(a: int, b: int, bits: int) -> int:
    if b >= 0:
        result = 1
        for bit in bin(b)[2:]:
            result = result * result * (a if bit == "1" else 1) % (1 << bits)
        return result
    return _trunc_div(1, a ** min(-b, 3) if abs(a) != 1 else a ** (b % 2))


_INTEGER: Mapping[str, Callable[..., int]] = {
    "neg": lambda a, bits: -a,
    "abs": lambda a, bits: abs(a),
    "sign": lambda a, bits: (a > 0) - (a < 0),
    "bitnot": lambda a, bits: ~a,
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "div": lambda a, b, bits: _trunc_div(a, b),
    "floordiv": lambda a, b, bits: 0 if b == 0 else a // b,
    "mod": lambda a, b, bits: 0 if b == 0 else a % b,
    "fmod": lambda a, b, bits: 0 if b == 0 else a - b * _trunc_div(a, b),
    "pow": _int_power,
    "max": lambda a, b, bits: max(a, b),
    "min": lambda a, b, bits: min(a, b),
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "shl": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shr": lambda a, b, bits: a >> b if 0 <= b < bits else (-1 if a < 0 else 0),
    "eq": lambda a, b, bits: a == b,
    "ne": lambda a, b, bits: a != b,
    "lt": lambda a, b, bits: a < b,
    "le": lambda a, b, bits: a <= b,
    "gt": lambda a, b, bits: a > b,
    "ge": lambda a, b, bits: a >= b,
    "not": lambda a, bits: not a,
}


def wrapped(value: int, dtype: np.dtype[Any]) -> int:
    """A Python integer as the two's complement value of that dtype."""
    if dtype.kind == "b":
        return int(value)
    bits = dtype.itemsize * 8
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.kind == "i" and low >> (bits - 1) else low


def _integers(name: str, c: Case) -> list[Array]:
    dtype = c.arrays[0].dtype
    bits = dtype.itemsize * 8
    out = np.dtype(bool) if name in ("eq", "ne", "lt", "le", "gt", "ge") else dtype
    columns = zip(*(a.reshape(-1).tolist() for a in c.arrays), strict=True)
    values = [wrapped(int(_INTEGER[name](*map(int, row), bits)), out) for row in columns]
    return [np.array(values, dtype=out).reshape(c.arrays[0].shape)]


def _float_fmod(a: float, b: float) -> float:
    if math.isinf(a) or b == 0:
        return math.nan
    return math.fmod(a, b)


def _float_mod(a: float, b: float) -> float:
    """Python's float %, which has no infinities to divide by zero."""
    if math.isinf(a) or b == 0:
        return math.nan
    return a % b


# Correctly rounded from f64, which holds these results of f32 and f16 exactly or to 2 p + 2 bits.
_PYTHON: Mapping[str, Callable[..., float]] = {
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "fmod": _float_fmod,
    "mod": _float_mod,
}


def _floats(name: str, c: Case) -> list[Array]:
    rows = zip(*(a.reshape(-1).tolist() for a in c.arrays), strict=True)
    values = [_PYTHON[name](*row) for row in rows]
    return [np.array(values, np.float64).astype(c.arrays[0].dtype).reshape(c.arrays[0].shape)]


def _torch(table: Mapping[str, Callable[..., torch.Tensor]], name: str, c: Case) -> list[Array]:
    """Wider by one step than the operands, so that only the last rounding is the operand's."""
    dtype = c.arrays[0].dtype
    wide = torch.float32 if dtype == np.float16 and table is _EXACT else torch.float64
    if table is _EXACT and dtype != np.float16:
        wide = torch.from_numpy(np.zeros(0, dtype)).dtype
    out = table[name](*(torch.tensor(a).to(wide) for a in c.arrays))
    return [out.numpy() if out.dtype == torch.bool else out.numpy().astype(dtype)]


def _oracle(name: str, c: Case) -> list[Array] | None:
    if c.arrays[0].dtype.kind != "f":
        return _integers(name, c) if name in _INTEGER else None
    if name in _PYTHON:
        return _floats(name, c)
    return _torch(_CLOSE if name in _CLOSE else _EXACT, name, c)


_PLAIN = sorted(
    {op.name.removeprefix("cuvil.") for op in elementwise.DEFS} - {"select", "cast", "materialize"}
)  # fmt: skip


@pytest.mark.parametrize("name", _PLAIN)
def test_map(name: str) -> None:
    check_against(name, partial(_oracle, name), scale=2.0 if name in _CLOSE else 0.0)


def test_materialize() -> None:
    check_against("materialize", lambda c: [np.array(c.arrays[0])], scale=0.0)


def test_select() -> None:
    def oracle(c: Case) -> list[Array]:
        pick, a, b = (x.reshape(-1).tolist() for x in c.arrays)
        rows = zip(pick, a, b, strict=True)
        out = [x if p else y for p, x, y in rows]
        return [np.array(out, c.arrays[1].dtype).reshape(c.arrays[0].shape)]

    check_against("select", oracle, scale=0.0)


def _cast_one(value: Any, target: np.dtype[Any], low: int, high: int) -> int:
    """Casts of floats as NumPy and torch do them on x86-64, but i32 and i64, which saturate."""
    if not isinstance(value, float):
        return wrapped(int(value), target)
    signed, size = target.kind == "i", target.itemsize
    if math.isnan(value):
        return 0
    if (signed and size >= 4) or (size == 8 and value >= 0):
        return int(max(low, min(high, value if math.isinf(value) else int(value))))
    limit = 2.0 ** (31 if size < 4 else 63)
    return wrapped(int(value), target) if abs(value) < limit else 0


def test_cast() -> None:
    def oracle(c: Case) -> list[Array] | None:
        x, target = c.arrays[0], c.attrs["dtype"].numpy
        if {x.dtype.kind, target.kind} & {"V"} or target.name == "float8_e5m2":
            return None  # bf16 and narrow types: test_reference_cast.py
        if x.dtype.name == "float8_e5m2":
            return None
        if target.kind == "f":
            given = torch.tensor(x)
            steps = given.to(torch.float32) if target == np.float16 else given
            return [steps.to(torch.from_numpy(np.zeros(0, target)).dtype).numpy()]
        if target.kind == "b":
            return [np.array([v != 0 for v in x.reshape(-1).tolist()], bool).reshape(x.shape)]
        info = np.iinfo(target)
        limits = int(info.min), int(info.max)
        values = [_cast_one(v, target, *limits) for v in x.reshape(-1).tolist()]
        return [np.array(values, target).reshape(x.shape)]

    check_against("cast", oracle, scale=0.0)


def test_hand_values() -> None:
    """IEEE 754 and the definitions in elementwise.py, written out."""
    x = np.array([np.nan, 1.0, -np.inf], np.float32)
    assert np.isnan(run("max", case(x, x[::-1]))[0]).tolist() == [True, False, True]
    least = np.array([-(2**31)], np.int32)
    assert run("div", case(least, np.array([-1], np.int32)))[0][0] == -(2**31)
    assert run("mod", case(np.array([-7], np.int32), np.array([3], np.int32)))[0][0] == 2
    assert run("fmod", case(np.array([-7], np.int32), np.array([3], np.int32)))[0][0] == -1
    assert run("floordiv", case(np.float32([1.0]), np.float32([0.1])))[0][0] == 9.0
    assert run("pow", case(np.array([3]), np.array([2**40])))[0].dtype == np.int64
    halves = np.array([0.5, 1.5, 2.5, -0.5], np.float16)
    assert run("round", case(halves))[0].tolist() == [0.0, 2.0, 2.0, -0.0]
