"""Casts to and from narrow types against their definitions, in exact arithmetic.

Sources: the tables of ONNX Cast-25; OCP 8-bit floating point 1.0 and MX formats 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, DTYPES, F8E8M0, NARROW_FLOATS, dtype_of
from cuvil.ops.cast import cast_array
from tests.ops.checks import infer, run
from tests.ops.generators_cast import codes, rounding_edges
from tests.ops.values import Array, case, specials

# name: (mantissa bits, exponent bias, largest, what is beyond it, -0 exists)
_FORMATS: Mapping[str, tuple[int, int, float, float, bool]] = {
    "f8e4m3fn": (3, 7, 448, math.nan, True),
    "f8e4m3fnuz": (3, 8, 240, math.nan, False),
    "f8e5m2": (2, 15, 57344, math.inf, True),
    "f8e5m2fnuz": (2, 16, 57344, math.nan, False),
    "f6e2m3fn": (3, 1, 7.5, 7.5, True),
    "f6e3m2fn": (2, 3, 28, 28, True),
    "f4e2m1fn": (1, 1, 6, 6, True),
}


def _rounded(x: float, name: str, saturate: bool) -> float:
    """The value of a float as a narrow one."""
    mantissa, bias, largest, beyond, has_minus_zero = _FORMATS[name]
    if math.isnan(x):
        return x if DTYPES[name].bits == 8 else -0.0
    if saturate:
        beyond = largest
    sign = math.copysign(1.0, x)
    if math.isinf(x):
        return sign * beyond
    exponent = max(math.frexp(x)[1] - 1, 1 - bias)
    step = Fraction(2) ** (exponent - mantissa)
    value = float(round(abs(Fraction(x)) / step) * step)
    value = beyond if value > largest else value
    return value if value == 0 and not has_minus_zero else sign * value


def _same(got: Array, want: list[float], what: Array) -> None:
    a, b = got.astype(np.float64), np.array(want)
    same = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    assert same.all(), f"{what[~same][:4]} gave {a[~same][:4]}, expected {b[~same][:4]}"


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("name", sorted(_FORMATS))
def test_to_narrow_floats(name: str, saturate: bool) -> None:
    x = np.concatenate([rounding_edges(DTYPES[name]), specials("float32")])
    got = cast_array(x, DTYPES[name], saturate)
    _same(got, [_rounded(float(v), name, saturate) for v in x], x)


def _decoded(code: int, name: str) -> float:
    mantissa, bias, largest, beyond, has_minus_zero = _FORMATS[name]
    bits = DTYPES[name].bits
    code &= (1 << bits) - 1
    sign, rest = -1.0 if code >> (bits - 1) else 1.0, code & ((1 << (bits - 1)) - 1)
    if not has_minus_zero and code == 1 << (bits - 1):
        return math.nan
    field, fraction = rest >> mantissa, rest & ((1 << mantissa) - 1)
    value = math.ldexp(fraction + (1 << mantissa if field else 0), max(field, 1) - bias - mantissa)
    if value <= largest:
        return sign * value
    first_beyond = math.isinf(beyond) and fraction == 0
    return sign * math.inf if first_beyond else math.nan


@pytest.mark.parametrize("name", sorted(_FORMATS))
def test_from_narrow_floats(name: str) -> None:
    every = codes(DTYPES[name])
    for target in ("f64", "f32", "f16", "bf16"):
        got = cast_array(every, DTYPES[target])
        _same(got, [_decoded(c, name) for c in range(256)], np.arange(256))


def _power(x: float, saturate: bool, mode: str) -> float:
    """f8e8m0fnu: the exponent is rounded, then brought to -127 .. 127."""
    if math.isnan(x) or x < 0:
        return math.nan
    if math.isinf(x) or x == 0:
        exponent = math.inf if x else -math.inf
    else:
        whole, over = math.frexp(x)[1] - 1, Fraction(x) / Fraction(2) ** (math.frexp(x)[1] - 1)
        up = {"up": over > 1, "down": False, "nearest": over >= Fraction(3, 2)}[mode]
        exponent = whole + up
    if not -127 <= exponent <= 127:
        if not saturate:
            return math.nan
        exponent = max(-127, min(127, exponent))
    return math.ldexp(1.0, int(exponent))


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_to_powers_of_two(mode: str, saturate: bool) -> None:
    tiny = np.float32(2.0) ** np.arange(-149, -120, dtype=np.float32) * np.float32(1.25)
    x = np.concatenate([rounding_edges(F8E8M0), specials("float32"), tiny, 1.5 * tiny])
    got = cast_array(x, F8E8M0, saturate, mode)
    _same(got, [_power(float(v), saturate, mode) for v in x], x)


def test_from_powers_of_two() -> None:
    want = [math.ldexp(1.0, c - 127) if c < 255 else math.nan for c in range(256)]
    for target in ("f64", "f32"):
        _same(cast_array(codes(F8E8M0), DTYPES[target]), want, np.arange(256))


@pytest.mark.parametrize("name", ["i4", "u4", "i2", "u2"])
def test_small_integers(name: str) -> None:
    dtype = DTYPES[name]
    wrap = 1 << dtype.bits

    def value(number: int) -> int:
        low = number % wrap
        return low - wrap if name[0] == "i" and low >= wrap // 2 else low

    numbers = np.arange(-300, 300)
    for source in (np.int64, np.int32, np.int16, np.float64, np.float32):
        got = cast_array(numbers.astype(source), dtype).astype(np.int64)
        assert got.tolist() == [value(int(n)) for n in numbers]
    assert cast_array(codes(dtype), DTYPES["i64"]).tolist() == [value(c) for c in range(256)]
    wild = np.array([np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 1e30, 2.9, -2.9, -0.9])
    expected = [*[0] * 6, value(2), value(-2), 0]
    assert cast_array(wild, dtype).astype(np.int64).tolist() == expected
    assert cast_array(codes(dtype), DTYPES["bool"]).tolist() == [value(c) != 0 for c in range(256)]


def test_wider_floats_go_by_way_of_f32() -> None:
    above_a_tie = np.array([1 + 2.0**-4 + 2.0**-40])
    assert cast_array(above_a_tie, DTYPES["f8e4m3fn"]).astype(np.float64) == 1.0
    assert cast_array(np.array([2**24 + 1]), DTYPES["f8e8m0fnu"]).astype(np.float64) == 2.0**24


@pytest.mark.parametrize("name", ["bf16", *sorted(_FORMATS), "f8e8m0fnu", "i4", "u2"])
def test_numpy_has_the_type(name: str) -> None:
    dtype = DTYPES[name]
    assert dtype_of(dtype.numpy) == dtype and dtype.numpy.itemsize == dtype.size
    assert dtype.is_narrow == (dtype != BF16)
    assert (dtype in NARROW_FLOATS) == (name[0] == "f")


def test_bitcast() -> None:
    x = np.array([1.0, -0.0, np.nan], np.float32)
    (bits,) = run("bitcast", case(x, dtype=DTYPES["u32"]))
    assert bits.tolist() == [0x3F800000, 0x80000000, 0x7FC00000]
    (back,) = run("bitcast", case(bits, dtype=DTYPES["f32"]))
    assert back.tobytes() == x.tobytes()
    with pytest.raises(InvalidModelError, match="i64 has 64 bits an element, f32 has 32"):
        infer("bitcast", case(np.zeros(1, np.int64), dtype=DTYPES["f32"]))


def test_narrow_types_are_not_computed_with() -> None:
    x = codes(DTYPES["f8e4m3fn"])
    calls: list[tuple[str, Any]] = [
        ("add", case(x, x)), ("neg", case(x)),
        ("reduce_sum", case(x, axes=(0,), keepdims=False)),
        ("argmax", case(x, axis=0, keepdims=False)),
        ("matmul", case(x.reshape(16, 16), x.reshape(16, 16))),
    ]  # fmt: skip
    for name, c in calls:
        with pytest.raises(InvalidModelError, match="not defined for f8e4m3fn"):
            infer(name, c)
