"""Compiled results against references, by the tolerance class of the op.

exact: the same bits, NaN where NaN; where an op leaves the sign of a zero open, any zero.
close: a few units in the last place of the reference, which computes in f64.
accumulated: a few rounding errors of the accumulator for each result, relative to the sum of the
magnitudes that went in (the reference on absolute values) or, where there is no such bound, to the
largest result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.ir.types import dtype_of
from cuvil.ops.numeric import is_float
from cuvil.ops.registry import registry
from tests.ops.checks import infer
from tests.ops.values import Array, Case

# Which zero max, min and sign give for zeros of both signs isn't specified (ops/elementwise.py);
# reductions add to and compare with an identity.
_ANY_ZERO = frozenset({"max", "min", "sign", "reduce_max", "reduce_min", "max_pool", "topk"})
_CLOSE_ULP = {"float64": 4, "float32": 4, "float16": 1, "bfloat16": 1}
# Where the value is tiny, the rounded argument of an exponential counts: the native gelu_tanh's,
# and the reference's own in f64 (tests/native compares with a wider type).
_WIDER_ULP = {
    ("gelu", "float32"): 9, ("gelu", "float64"): 2048,
    ("gelu_tanh", "float32"): 64, ("gelu_tanh", "float64"): 2048,
    ("erfc", "float32"): 9, ("erfc", "float64"): 9, ("erfcx", "float32"): 9,
    ("erfcx", "float64"): 16, ("zeta", "float64"): 64, ("gelu_bf16", "bfloat16"): 3,
}  # fmt: skip
# Below it in magnitude, so much error is allowed (native/math_rounded.hpp).
_TINY = {"gelu_bf16": 1e-17, "gelu_tanh_bf16": 1e-17, "silu_bf16": 1e-17}
_SUMS = frozenset({"reduce_sum", "reduce_mean", "matmul", "conv", "conv_transpose"})
_WORK_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-23, "bfloat16": 2.0**-23}
_STORE_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_STEPS = 24


def disagreement(name: str, case: Case, index: int, got: Array, want: Array) -> str:
    """What :func:`assert_agrees` says, or nothing."""
    try:
        assert_agrees(name, case, index, got, want)
    except AssertionError as error:
        return str(error)
    return ""


def assert_agrees(name: str, case: Case, index: int, got: Array, want: Array) -> None:
    """Result ``index`` of a call is within the tolerance of its class."""
    what = f"{name}{case}, result {index}"
    assert got.shape == want.shape and got.dtype == want.dtype, (
        f"{what}: {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    )
    if got.size == 0:
        return
    tolerance = registry()[f"cuvil.{name}"].tolerance
    if dtype_of(want.dtype).is_narrow:
        assert_same_bits(got.astype(np.float32), want.astype(np.float32), what)
    elif not is_float(want):
        np.testing.assert_array_equal(got, want, err_msg=what)
    elif tolerance == "exact":
        assert_same_bits(got, want, what, any_zero=name in _ANY_ZERO)
    elif tolerance == "close":
        dtype = want.dtype.name
        _assert_close(
            got, want, _WIDER_ULP.get((name, dtype), _CLOSE_ULP[dtype]), what, _TINY.get(name, 0.0)
        )
    else:
        _assert_accumulated(got, want, _magnitude(name, case, index, want), what)


def assert_same_bits(got: Array, want: Array, what: str, *, any_zero: bool = False) -> None:
    """The same bits; one NaN is as good as another."""
    both_nan = np.isnan(got) & np.isnan(want)
    same = (_bits(got) == _bits(want)) | both_nan
    if any_zero:
        same |= (got == 0) & (want == 0)
    _report(~same, got, want, what)


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _ordered(array: Array) -> tuple[Array, Array]:
    """(negative, magnitude) of floats: magnitudes of neighbours of one sign differ by 1."""
    bits = _bits(array).astype(np.uint64)
    sign = np.uint64(1) << np.uint64(8 * array.dtype.itemsize - 1)
    return (bits & sign) != 0, (bits & (sign - np.uint64(1))).astype(np.int64)


def ulp_distance(a: Array, b: Array) -> Array:
    """How many steps of the dtype lie between two arrays, exact where it is small."""
    (sign_a, size_a), (sign_b, size_b) = _ordered(a), _ordered(b)
    apart = size_a.astype(np.float64) + size_b
    return np.where(sign_a == sign_b, np.abs(size_a - size_b).astype(np.float64), apart)


def _assert_close(got: Array, want: Array, steps: int, what: str, tiny: float) -> None:
    both = np.isnan(got) & np.isnan(want)
    near = ulp_distance(got, want) <= steps
    if tiny:
        near |= (np.abs(got.astype(np.float64)) < tiny) & (np.abs(want.astype(np.float64)) < tiny)
    _report(~(both | (near & ~np.isnan(got) & ~np.isnan(want))), got, want, what)


def _magnitude(name: str, case: Case, index: int, want: Array) -> Array:
    """What a rounding error of each result is relative to."""
    largest = np.abs(want[np.isfinite(want)]).astype(np.float64)
    if name not in _SUMS:
        return np.full(want.shape, np.max(largest, initial=1.0))
    arrays = tuple(np.abs(a.astype(np.float64)) for a in case.arrays)
    absolute = Case(arrays, case.attrs)
    with np.errstate(all="ignore"):
        types = infer(name, absolute)
        return registry()[f"cuvil.{name}"].reference(arrays, case.attrs, types)[index]


def _assert_accumulated(got: Array, want: Array, magnitude: Array, what: str) -> None:
    dtype = want.dtype.name
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        allowed = _STEPS * _WORK_EPS[dtype] * magnitude + _STORE_EPS[dtype] * np.abs(b)
        allowed = allowed + float(_smallest(want.dtype))
        good = np.abs(a - b) <= allowed
    good |= (a == b) | (np.isnan(a) & np.isnan(b))
    # Past the largest number a sum may be rounded to either side of the end.
    edge = float(_largest(want.dtype)) * (1 - 4 * _STORE_EPS[dtype])
    good |= (np.abs(a) >= edge) & (np.abs(b) >= edge) & (np.sign(a) == np.sign(b))
    _report(~good, got, want, what)


def _info(dtype: np.dtype[Any]) -> Any:
    if dtype.name != "bfloat16":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def _smallest(dtype: np.dtype[Any]) -> Any:
    return _info(dtype).smallest_subnormal


def _largest(dtype: np.dtype[Any]) -> Any:
    return _info(dtype).max


def _report(bad: Array, got: Array, want: Array, what: str) -> None:
    if not bad.any():
        return
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    raise AssertionError(
        f"{what}: {int(bad.sum())} of {bad.size} elements differ, the first at {list(place)}: "
        f"{got[place]!r}, expected {want[place]!r}"
    )
