"""Elementwise functions: error in ULP, special values, integers, casts, 16-bit floats."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from . import harness_core as hc

LD = np.longdouble
Array = npt.NDArray[Any]
RNG_SEED = 7

UNARY = hc.words(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc sigmoid softplus silu mish gelu_erf gelu_tanh rsqrt"
)
ROUNDING = hc.words("round_even round_away floor ceil trunc")
BINARY = hc.words("pow atan2 fmod floor_mod max_nan min_nan")
INT_BINARY = hc.words(
    "div_trunc mod_trunc div_floor mod_floor pow_int shift_left shift_right max_nan min_nan gcd"
)
INTS = {f"{s}{b}": np.dtype(f"{'u' * (s == 'u')}int{b}") for s in "iu" for b in (8, 16, 32, 64)}
FLOATS: dict[str, tuple[str, Any]] = {"f32": ("float", np.float32), "f64": ("double", np.float64)}


def make_source() -> tuple[str, dict[int, str]]:
    """One exported loop a function and type, each on its own line; and which line is which."""
    lines = ['#include "math.hpp"', "using namespace cuvil;"]
    where: dict[int, str] = {}

    def loop(name: str, args: str, body: str) -> None:
        head = f"EXPORT void {name}({args}, int64_t n)"
        lines.append(f"{head} {{ for (int64_t i = 0; i < n; ++i) {body}; }}")
        where[len(lines)] = name

    for tag, (c, _) in FLOATS.items():
        for f in [*UNARY, *ROUNDING]:
            loop(f"{f}_{tag}", f"const {c}* __restrict x, {c}* __restrict y", f"y[i] = {f}(x[i])")
        for f in BINARY:
            loop(
                f"{f}_{tag}",
                f"const {c}* __restrict x, const {c}* __restrict z, {c}* __restrict y",
                f"y[i] = {f}(x[i], z[i])",
            )
    for tag, dtype in INTS.items():
        c = f"{dtype.name}_t"
        for f in INT_BINARY:
            loop(
                f"{f}_{tag}",
                f"const {c}* __restrict x, const {c}* __restrict z, {c}* __restrict y",
                f"y[i] = {f}<{c}>(x[i], z[i])",
            )
        for ftag, (fc, _) in FLOATS.items():
            loop(
                f"cast_{ftag}_{tag}",
                f"const {fc}* __restrict x, {c}* __restrict y",
                f"y[i] = cast_saturate<{c}>(x[i])",
            )
    half, single = "uint16_t* __restrict", "float* __restrict"
    for f in ("f16", "bf16"):
        loop(f"{f}_to_f32", f"const {half} x, {single} y", f"y[i] = cuvil::{f}_to_f32(x[i])")
        loop(f"f32_to_{f}", f"const {single} x, {half} y", f"y[i] = cuvil::f32_to_{f}(x[i])")
    loop("exp_nonpositive_f32", f"const {single} x, {single} y", "y[i] = exp_nonpositive(x[i])")
    return "\n".join(lines), where


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    source, _ = make_source()
    yield hc.load(hc.build(tmp_path_factory.mktemp("math"), source, ["core_mem.cpp"]))


def call(lib: ctypes.CDLL, name: str, *inputs: Array, out: npt.DTypeLike | None = None) -> Array:
    y = np.empty(inputs[0].shape, out or inputs[0].dtype)
    arrays = [np.ascontiguousarray(a) for a in inputs]
    getattr(lib, name)(*(hc.address(a) for a in arrays), hc.address(y), ctypes.c_int64(y.size))
    return y


def ulp_error(got: Array, want: npt.NDArray[LD]) -> npt.NDArray[np.float64]:
    """Distance from the exact value in units of the result's last place.

    Non-finite results must be the same exactly (any NaN equals any other); else it is inf.
    """
    with np.errstate(over="ignore"):
        rounded = want.astype(got.dtype)
    finite = np.isfinite(rounded) & np.isfinite(got)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(LD) - want) / np.spacing(np.abs(rounded)).astype(LD)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # Overflow may begin within the last half unit below the limit.
    return np.where(same, 0, np.where(finite, error, np.inf)).astype(np.float64)


def libm(function: Callable[[float], float]) -> Callable[[npt.NDArray[LD]], npt.NDArray[LD]]:
    return lambda x: np.array([function(float(v)) for v in x], dtype=LD)


def sigmoid(x: npt.NDArray[LD]) -> npt.NDArray[LD]:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, LD(1)) / (1 + e)


def softplus(x: npt.NDArray[LD]) -> npt.NDArray[LD]:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu_erf(x: npt.NDArray[LD]) -> npt.NDArray[LD]:
    # erfc(t) from libm in double at the double nearest t, then to first order in what t lost.
    t = np.abs(x) / np.sqrt(LD(2))
    near = t.astype(np.float64)
    slope = -2 / np.sqrt(LD(math.pi)) * np.exp(-(t * t))
    half = (libm(math.erfc)(near) + slope * (t - near.astype(LD))) / 2
    return x * np.where(x < 0, half, 1 - half)


def gelu_tanh(x: npt.NDArray[LD]) -> npt.NDArray[LD]:
    pi = LD("3.14159265358979323846264338327950288")
    return x * sigmoid(2 * np.sqrt(2 / pi) * (x + LD("0.044715") * x * x * x))


Range = tuple[float, float]
# name: reference, sampled range and bound in ULP for float, the same for double.
ACCURACY: dict[str, tuple[Callable, Range, float, Range, float]] = {
    "exp": (np.exp, (-110, 92), 1, (-760, 715), 1),
    "exp2": (np.exp2, (-152, 130), 1, (-1080, 1030), 1),
    "expm1": (np.expm1, (-30, 92), 2, (-50, 715), 2),
    "log": (np.log, (0, 3e38), 1, (0, 1e308), 1),
    "log2": (np.log2, (0, 3e38), 1, (0, 1e308), 1),
    "log10": (np.log10, (0, 3e38), 1, (0, 1e308), 1),
    "log1p": (np.log1p, (-1, 3e38), 1, (-1, 1e308), 1),
    "sin": (np.sin, (-3e38, 3e38), 1, (-1e300, 1e300), 1),
    "cos": (np.cos, (-3e38, 3e38), 1, (-1e300, 1e300), 1),
    "tan": (np.tan, (-3e38, 3e38), 1, (-1e300, 1e300), 3),
    "asin": (np.arcsin, (-1, 1), 3, (-1, 1), 3),
    "acos": (np.arccos, (-1, 1), 2, (-1, 1), 2),
    "atan": (np.arctan, (-3e38, 3e38), 2, (-1e300, 1e300), 2),
    "sinh": (np.sinh, (-91, 91), 1, (-712, 712), 3),
    "cosh": (np.cosh, (-91, 91), 1, (-712, 712), 3),
    "tanh": (np.tanh, (-12, 12), 3, (-24, 24), 3),
    "asinh": (np.arcsinh, (-3e38, 3e38), 1, (-1e300, 1e300), 3),
    "acosh": (np.arccosh, (1, 3e38), 1, (1, 1e300), 3),
    "atanh": (np.arctanh, (-1, 1), 1, (-1, 1), 3),
    "erf": (libm(math.erf), (-5, 5), 3, (-7, 7), 3),
    "erfc": (libm(math.erfc), (-5, 10.3), 8, (-6, 26), 8),
    "sigmoid": (sigmoid, (-105, 30), 3, (-750, 50), 3),
    "softplus": (softplus, (-105, 100), 2, (-750, 100), 2),
    "silu": (lambda x: x * sigmoid(x), (-87, 40), 4, (-700, 40), 4),
    "mish": (lambda x: x * np.tanh(softplus(x)), (-87, 40), 5, (-700, 60), 5),
    "gelu_erf": (gelu_erf, (-13, 10), 8, (-36, 10), 8),
    "gelu_tanh": (gelu_tanh, (-3, 8), 14, (-3, 10), 14),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0, 3e38), 2, (0, 1e300), 2),
}


def samples(bounds: Range, dtype: type[np.floating], count: int) -> Array:
    """Values of the range: evenly spread, spread over all magnitudes, and special ones."""
    rng = np.random.default_rng(RNG_SEED)
    low, high = bounds
    info = np.finfo(dtype)
    top = math.log10(max(abs(low), abs(high)))
    bottom = math.log10(float(info.smallest_subnormal)) + 1
    magnitudes = 10.0 ** rng.uniform(bottom, top, count)
    signed = magnitudes * np.where(rng.random(count) < 0.5, -1, 1)
    near = rng.uniform(max(low, -8), min(high, 8), count)
    # Evenly by halves: the difference of the bounds may overflow.
    even = low * (share := rng.random(count)) + high * (1 - share)
    special = [0.0, -0.0, 1.0, -1.0, info.tiny, info.smallest_subnormal, low, high]
    x = np.concatenate([even, near, signed, special]).astype(dtype)
    return x[(x >= low) & (x <= high)]


@pytest.mark.parametrize("tag", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(lib: ctypes.CDLL, name: str, tag: str) -> None:
    if np.finfo(LD).nmant < 60 and tag == "f64":
        pytest.skip("no wider type to compare doubles with")
    reference, range32, bound32, range64, bound64 = ACCURACY[name]
    bounds, limit = (range32, bound32) if tag == "f32" else (range64, bound64)
    x = samples(bounds, FLOATS[tag][1], 8000)
    with np.errstate(all="ignore"):
        want = reference(x.astype(LD))
    error = ulp_error(call(lib, f"{name}_{tag}", x), np.asarray(want, dtype=LD))
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{name}({x[worst]!r}): {error[worst]:.2f} ULP"


INF, NAN = math.inf, math.nan
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(-INF, 0), (0, 1), (-0.0, 1), (1e4, INF), (-1e4, 0)],
    "exp2": [(3, 8), (-3, 0.125), (0, 1), (1e5, INF), (-1e5, 0)],
    "expm1": [(-0.0, -0.0), (-INF, -1), (INF, INF)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF)],
    "log2": [(8, 3), (0.25, -2), (0, -INF), (-INF, NAN)],
    "log10": [(1, 0), (0, -INF), (-2, NAN)],
    "log1p": [(-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF)],
    "sin": [(-0.0, -0.0), (0, 0), (INF, NAN), (-INF, NAN)],
    "cos": [(0, 1), (INF, NAN)],
    "tan": [(-0.0, -0.0), (-INF, NAN)],
    "asin": [(-0.0, -0.0), (1.5, NAN), (-2, NAN)],
    "acos": [(1, 0), (1.5, NAN)],
    "atan": [(-0.0, -0.0)],
    "tanh": [(-0.0, -0.0), (INF, 1), (-INF, -1)],
    "sinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0, 1), (-INF, INF)],
    "asinh": [(-0.0, -0.0), (-INF, -INF)],
    "acosh": [(1, 0), (0.5, NAN), (INF, INF)],
    "atanh": [(-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN)],
    "erf": [(-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(INF, 0), (-INF, 2), (0, 1)],
    "sigmoid": [(INF, 1), (-INF, 0), (0, 0.5)],
    "softplus": [(INF, INF), (-INF, 0)],
    "silu": [(INF, INF), (-INF, NAN), (-0.0, -0.0)],
    "mish": [(INF, INF), (-INF, NAN), (-0.0, -0.0)],
    "gelu_erf": [(INF, INF), (-INF, NAN), (-0.0, -0.0)],
    "gelu_tanh": [(INF, INF), (-INF, NAN), (-0.0, -0.0)],
    "rsqrt": [(INF, 0), (0, INF), (-1, NAN), (4, 0.5)],
}


@pytest.mark.parametrize("tag", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(lib: ctypes.CDLL, name: str, tag: str) -> None:
    x, want = np.array([*SPECIAL[name], (NAN, NAN)], FLOATS[tag][1]).T
    # Once through the vector loop and once through what is left over.
    for repeat in (1, 32):
        got = call(lib, f"{name}_{tag}", np.repeat(x, repeat))
        np.testing.assert_array_equal(got, np.repeat(want, repeat))
        zero = np.repeat(want == 0, repeat)
        signs = np.signbit(np.repeat(want, repeat))
        assert (np.signbit(got)[zero] == signs[zero]).all()


@pytest.mark.parametrize("tag", FLOATS)
def test_pow(lib: ctypes.CDLL, tag: str) -> None:
    dtype = FLOATS[tag][1]
    rng = np.random.default_rng(RNG_SEED)
    top = 38 if tag == "f32" else 300
    x = np.concatenate([10 ** rng.uniform(-top, top, 9000), rng.uniform(0.9, 1.1, 9000)])
    y = np.concatenate([rng.uniform(-1, 1, 9000) * 3, rng.uniform(-1, 1, 9000) * 900])
    x, y = x.astype(dtype), y.astype(dtype)
    with np.errstate(all="ignore"):
        error = ulp_error(call(lib, f"pow_{tag}", x, y), np.power(x.astype(LD), y.astype(LD)))
    assert error.max() <= (1 if tag == "f32" else 4)
    values = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, INF, -INF, NAN, 1e30, -1e30, 1e-30]
    px, py = (v.ravel().astype(dtype) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(px, py)
    got = call(lib, f"pow_{tag}", px, py)
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("tag", FLOATS)
def test_atan2(lib: ctypes.CDLL, tag: str) -> None:
    dtype = FLOATS[tag][1]
    rng = np.random.default_rng(RNG_SEED)
    top = 38 if tag == "f32" else 300
    x, y = (rng.choice([-1, 1], 20000) * 10 ** rng.uniform(-top, top, 20000) for _ in range(2))
    x[:10000], y[:10000] = rng.standard_normal((2, 10000))
    x, y = x.astype(dtype), y.astype(dtype)
    error = ulp_error(call(lib, f"atan2_{tag}", y, x), np.arctan2(y.astype(LD), x.astype(LD)))
    assert error.max() <= 3
    values = [0.0, -0.0, 1, -1, INF, -INF, NAN, 1e-30, np.finfo(dtype).max, np.finfo(dtype).tiny]
    py, px = (v.ravel().astype(dtype) for v in np.meshgrid(values, values))
    got, want = call(lib, f"atan2_{tag}", py, px), np.arctan2(py, px)
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("tag", FLOATS)
@pytest.mark.parametrize("name", ["fmod", "floor_mod"])
def test_remainders_are_exact(lib: ctypes.CDLL, name: str, tag: str) -> None:
    dtype = FLOATS[tag][1]
    rng = np.random.default_rng(RNG_SEED)
    info = np.finfo(dtype)
    low, high = math.log10(info.tiny) - 5, math.log10(info.max)
    x, y = (rng.choice([-1, 1], 4000) * 10 ** rng.uniform(low, high, 4000) for _ in range(2))
    x[:2000], y[:2000] = rng.standard_normal((2, 2000)) * [[100], [3]]
    edge = [0.0, -0.0, 1, -1, 3, -3, INF, -INF, NAN, info.max, info.smallest_subnormal]
    ex, ey = (v.ravel() for v in np.meshgrid(edge, edge))
    x, y = np.concatenate([x, ex]).astype(dtype), np.concatenate([y, ey]).astype(dtype)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y) if name == "fmod" else np.mod(x, y)
    got = call(lib, f"{name}_{tag}", x, y)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[numbers].all()


@pytest.mark.parametrize("tag", FLOATS)
def test_rounding_and_extremes(lib: ctypes.CDLL, tag: str) -> None:
    dtype = FLOATS[tag][1]
    big = 2.0 ** np.finfo(dtype).nmant
    x = [-2.5, -1.5, -0.5, -0.2, -0.0, 0.0, 0.3, 0.5, 1.5, 2.5, big + 1, -big, 0.5 - 1e-8]
    x = np.array([*x, INF, -INF, NAN, *np.linspace(-9, 9, 173)], dtype)
    table = {"round_even": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    table["round_away"] = lambda v: np.copysign(
        np.trunc(np.abs(v)) + (np.abs(v) - np.trunc(np.abs(v)) >= 0.5), v
    )
    for name, reference in table.items():
        got = call(lib, f"{name}_{tag}", x)
        with np.errstate(invalid="ignore"):
            want = reference(x)
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all(), name
    a, b = (v.ravel() for v in np.meshgrid(x, x))
    np.testing.assert_array_equal(call(lib, f"max_nan_{tag}", a, b), np.maximum(a, b))
    np.testing.assert_array_equal(call(lib, f"min_nan_{tag}", a, b), np.minimum(a, b))


def test_exp_for_softmax(lib: ctypes.CDLL) -> None:
    x = samples((-120, 0), np.float32, 5000)
    x = x[~(x > 0)]
    got, want = call(lib, "exp_nonpositive_f32", x), np.exp(x.astype(LD))
    np.testing.assert_allclose(got[x >= -87], want[x >= -87].astype(np.float32), rtol=1.2e-7)
    assert (got[x < -87] == 0).all() and np.isnan(got[np.isnan(x)]).all()


# Loops that no vector instruction can help: exact remainders, and doubles' large angles.
SCALAR = {f"{f}_{t}" for f in ("fmod", "floor_mod") for t in FLOATS}
SCALAR |= {"sin_f64", "cos_f64", "tan_f64"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the compiler's remarks once")
def test_loops_are_vectorised(tmp_path: Path) -> None:
    source, where = make_source()
    path = tmp_path / "probe.cpp"
    path.write_text(source.replace("EXPORT", hc.EXPORT))
    command = [sys.executable, "-m", "ziglang", "c++", *hc.FLAGS, "-target", "x86_64-linux-gnu"]
    command += ["-mcpu=x86_64_v4-prefer_256_bit", f"-I{hc.NATIVE}", "-Rpass=loop-vectorize"]
    done = subprocess.run(
        [*command, "-Wno-error", "-c", str(path), "-o", str(tmp_path / "probe.o")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pattern = r"probe\.cpp:(\d+):\d+: remark: vectorized loop \(.*width: (\d+)"
    remarks = re.findall(pattern, done.stderr)
    width = {where[int(line)]: int(w) for line, w in remarks}
    names = {f"{f}_{t}" for f in UNARY + ROUNDING + BINARY for t in FLOATS} - SCALAR
    assert {n for n in names if width.get(n, 0) < 8} == set()
    assert not SCALAR & set(width), "became vectors: shorten the list"
    assert width["exp_f32"] == width["erf_f32"] == width["tanh_f32"] == width["gelu_erf_f32"] == 16
