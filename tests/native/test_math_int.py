"""Integer helpers, saturating casts and 16-bit floats of the native mathematics."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from .test_math import FLOATS, INF, INT_BINARY, INTS, NAN, RNG_SEED, call, lib

__all__ = ["lib"]  # the fixture


def exact_int(name: str, a: int, b: int, dtype: np.dtype) -> int:
    """The definition in unbounded integers, before wrapping."""
    bits = dtype.itemsize * 8
    if name in ("div_trunc", "mod_trunc", "div_floor", "mod_floor"):
        if b == 0:
            return 0
        q = a // b if name.endswith("floor") else abs(a) // abs(b) * (1 if a * b >= 0 else -1)
        return q if name.startswith("div") else a - q * b
    if name == "pow_int":
        if b < 0:
            return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)
        return pow(a, b, 1 << bits)
    if name == "shift_left":
        return a << b if 0 <= b < bits else 0
    if name == "shift_right":
        return a >> b if 0 <= b < bits else (-1 if a < 0 else 0)
    if name == "gcd":
        return euclid(a, b, dtype)
    return max(a, b) if name == "max_nan" else min(a, b)


def euclid(a: int, b: int, dtype: np.dtype) -> int:
    """Of the absolute values as the type has them: its smallest number is its own."""
    least = int(np.iinfo(dtype).min)
    a, b = (x if x == least else abs(x) for x in (a, b))
    while a:
        a, b = exact_int("mod_trunc", b, a, dtype), a
    return b


@pytest.mark.parametrize("tag", INTS)
def test_integers(lib: ctypes.CDLL, tag: str) -> None:
    dtype = INTS[tag]
    info = np.iinfo(dtype)
    edge = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 100}
    if info.min < 0:
        edge |= {-1, -2, -3, -7, -100}
    values = np.array(sorted(edge), dtype)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    for name in INT_BINARY:
        got = call(lib, f"{name}_{tag}", a, b)
        bits = dtype.itemsize * 8
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        exact = [exact_int(name, x, y, dtype) % (1 << bits) for x, y in pairs]
        want = np.array(exact, np.uint64).astype(dtype)
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("tag", INTS)
@pytest.mark.parametrize("source", FLOATS)
def test_saturating_casts(lib: ctypes.CDLL, source: str, tag: str) -> None:
    dtype, ftype = INTS[tag], FLOATS[source][1]
    info = np.iinfo(dtype)
    edge = [float(info.min), float(info.max)]
    x = [0.0, -0.0, 0.9, -0.9, -1.0, 1.5, -1.5, 100.7, -100.7, NAN, INF, -INF, 1e30, -1e30, *edge]
    x += [np.nextafter(e, d) for e in edge for d in (INF, -INF)]
    x += [e + d for e in edge for d in (-1, 1)]
    values = np.array(x, ftype)
    ends = {INF: info.max, -INF: info.min}
    numbers = [0.0 if math.isnan(v) else v for v in values.tolist()]
    whole = [ends[v] if v in ends else math.trunc(v) for v in numbers]
    want = [min(max(v, info.min), info.max) for v in whole]
    for repeat in (1, 16):
        got = call(lib, f"cast_{source}_{tag}", np.repeat(values, repeat), out=dtype)
        np.testing.assert_array_equal(got, np.repeat(np.array(want, dtype), repeat))


def test_half_floats(lib: ctypes.CDLL) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    want = every.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(call(lib, "f16_to_f32", every, out=np.float32), want)
    shifted = (every.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(call(lib, "bf16_to_f32", every, out=np.float32), shifted)
    rng = np.random.default_rng(RNG_SEED)
    bits = rng.integers(0, 1 << 32, 200000, dtype=np.uint32)
    halves = want[np.isfinite(want)]
    ties = (halves[:-1] + halves[1:]) / 2  # many lie exactly between two halves
    limits = np.array([65504, 65519.996, 65520, 2**-25, 2**-24, INF, -INF, NAN, 0.0, -0.0])
    x = np.concatenate([bits.view(np.float32), ties, limits.astype(np.float32)])
    with np.errstate(over="ignore"):
        want16 = x.astype(np.float16)
    got16 = call(lib, "f32_to_f16", x, out=np.uint16).view(np.float16)
    np.testing.assert_array_equal(got16, want16)
    assert (np.signbit(got16) == np.signbit(want16))[~np.isnan(x)].all()
    got = (call(lib, "f32_to_bf16", x, out=np.uint16).astype(np.uint32) << 16).view(np.float32)
    assert (np.isnan(got) == np.isnan(x)).all()
    u = x.view(np.uint32).astype(np.uint64)
    rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(got[~np.isnan(x)], rounded[~np.isnan(x)])
