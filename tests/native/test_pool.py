"""Pooling kernels against a direct float64 definition."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from . import harness_core as hc

I64, PTR = ctypes.c_int64, ctypes.c_void_p
F32 = npt.NDArray[np.float32]

SOURCE = """
#include "pool.hpp"
using namespace cuvil;
EXPORT void max_pool(const PoolingArgs* a) { max_pool_f32(*a); }
EXPORT void average_pool(const PoolingArgs* a) { average_pool_f32(*a); }
EXPORT Pool* create(int32_t n) { return pool_create(n); }
EXPORT void destroy(Pool* p) { pool_destroy(p); }
"""


class Axis(ctypes.Structure):
    _fields_ = [(n, I64) for n in hc.words("size out kernel stride dilation begin end")]


class Args(ctypes.Structure):
    _fields_ = [
        ("n", I64),
        ("c", I64),
        ("axes", Axis * 3),
        ("count_include_pad", ctypes.c_bool),
        ("divisor", I64),
        ("x", PTR),
        ("y", PTR),
        ("pool", PTR),
    ]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    core = ["core_pool.cpp", "core_threads.cpp", "core_mem.cpp"]
    loaded = hc.load(hc.build(tmp_path_factory.mktemp("pool"), SOURCE, core))
    loaded.create.restype, loaded.create.argtypes = PTR, [ctypes.c_int32]
    loaded.destroy.argtypes = [PTR]
    yield loaded


# An axis: kernel, stride, dilation, padding before and after, and whether the size is rounded up.
Geometry = tuple[int, int, int, int, int, bool]
ONE: Geometry = (1, 1, 1, 0, 0, False)


def out_size(size: int, g: Geometry) -> int:
    kernel, stride, dilation, begin, end, up = g
    free = size + begin + end - dilation * (kernel - 1) - 1
    out = (-(-free // stride) if up else free // stride) + 1
    # A window that would begin in the padding after the input is dropped, as in torch.
    return out - 1 if up and (out - 1) * stride >= size + begin else out


def run(
    lib: ctypes.CDLL,
    name: str,
    x: F32,
    axes: Sequence[Geometry],
    include_pad: bool = False,
    divisor: int = 0,
    pool: int | None = None,
) -> F32:
    """x is [n, d, h, w, c]."""
    out = [out_size(s, g) for s, g in zip(x.shape[1:4], axes, strict=True)]
    y = np.full((x.shape[0], *out, x.shape[4]), 777.0, np.float32)
    a = Args(x.shape[0], x.shape[4])
    for i, (kernel, stride, dilation, begin, end, _) in enumerate(axes):
        a.axes[i] = Axis(x.shape[i + 1], out[i], kernel, stride, dilation, begin, end)
    a.count_include_pad, a.divisor = include_pad, divisor
    a.x, a.y, a.pool = hc.address(x), hc.address(y), pool
    getattr(lib, name)(ctypes.byref(a))
    return y


def reference(
    name: str, x: F32, axes: Sequence[Geometry], include_pad: bool = False, divisor: int = 0
) -> npt.NDArray[np.float64]:
    """Every window gathered tap by tap."""
    out = [out_size(s, g) for s, g in zip(x.shape[1:4], axes, strict=True)]
    y = np.zeros((x.shape[0], *out, x.shape[4]))
    for place in itertools.product(*(range(o) for o in out)):
        inside, padded = [], 0
        for taps in itertools.product(*(range(g[0]) for g in axes)):
            at = [o * g[1] - g[3] + t * g[2] for o, g, t in zip(place, axes, taps, strict=True)]
            within = [0 <= p < s for p, s in zip(at, x.shape[1:4], strict=True)]
            padded += all(p < s + g[4] for p, s, g in zip(at, x.shape[1:4], axes, strict=True))
            if all(within):
                inside.append(x[:, at[0], at[1], at[2]].astype(np.float64))
        where = (slice(None), *place)
        if name == "max_pool":
            y[where] = np.max(inside, axis=0) if inside else -np.inf
        else:
            count = divisor or (padded if include_pad else len(inside))
            y[where] = np.sum(inside, axis=0) / count if inside else 0
    return y


CASES: list[tuple[Geometry, Geometry, Geometry]] = [
    (ONE, (3, 2, 1, 1, 1, False), (3, 2, 1, 1, 1, False)),
    (ONE, (2, 2, 1, 0, 0, True), (2, 2, 1, 0, 0, True)),
    (ONE, (3, 2, 1, 0, 0, True), (3, 2, 1, 1, 1, True)),
    (ONE, (3, 1, 2, 2, 2, False), (2, 3, 3, 1, 0, False)),
    (ONE, ONE, (5, 1, 1, 2, 2, False)),
    (ONE, (5, 1, 1, 2, 2, False), (5, 1, 1, 2, 2, False)),
    ((2, 1, 1, 1, 0, False), (3, 2, 1, 1, 1, False), (2, 2, 1, 0, 1, False)),
    (ONE, (1, 3, 1, 2, 2, False), (1, 4, 1, 3, 3, False)),
]


@pytest.mark.parametrize("channels", [1, 3, 16, 64, 83])
@pytest.mark.parametrize("axes", CASES)
@pytest.mark.parametrize("name", ["max_pool", "average_pool"])
def test_windows(
    lib: ctypes.CDLL, name: str, axes: tuple[Geometry, Geometry, Geometry], channels: int
) -> None:
    rng = np.random.default_rng(channels)
    depth = 1 if axes[0] == ONE else 4
    x = rng.standard_normal((2, depth, 7, 9, channels)).astype(np.float32) - 3
    for include_pad in (False, True):
        got = run(lib, name, x, axes, include_pad)
        want = reference(name, x, axes, include_pad)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_divisor(lib: ctypes.CDLL) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 5, 6, 8)).astype(np.float32)
    axes = CASES[0]
    got = run(lib, "average_pool", x, axes, True, divisor=5)
    np.testing.assert_allclose(
        got, reference("average_pool", x, axes, True, 5), rtol=2e-6, atol=1e-6
    )


@pytest.mark.parametrize("place", range(9))
def test_nan_wins_wherever_it_stands(lib: ctypes.CDLL, place: int) -> None:
    x = np.arange(9 * 5, dtype=np.float32).reshape(1, 1, 3, 3, 5)
    x[0, 0, place // 3, place % 3, 2] = np.nan
    whole: Geometry = (3, 1, 1, 0, 0, False)
    for name in ("max_pool", "average_pool"):
        got = run(lib, name, x, (ONE, whole, whole))[0, 0, 0, 0]
        assert np.isnan(got).tolist() == [False, False, True, False, False]


def test_extremes(lib: ctypes.CDLL) -> None:
    x = np.full((1, 1, 2, 2, 3), -np.inf, np.float32)
    x[0, 0, 0, 0, 1] = np.finfo(np.float32).min
    x[0, 0, 0, 0, 2] = np.inf
    pair: Geometry = (2, 1, 1, 0, 0, False)
    got = run(lib, "max_pool", x, (ONE, pair, pair)).ravel()
    assert got.tolist() == [-np.inf, np.finfo(np.float32).min, np.inf]


def test_no_rows(lib: ctypes.CDLL) -> None:
    x = np.zeros((0, 1, 4, 4, 3), np.float32)
    assert run(lib, "max_pool", x, CASES[0]).shape == (0, 1, 2, 2, 3)


def test_threads_give_the_same_bits(lib: ctypes.CDLL) -> None:
    x = np.random.default_rng(1).standard_normal((2, 1, 56, 56, 64)).astype(np.float32)
    pool = lib.create(2)
    try:
        for name in ("max_pool", "average_pool"):
            alone = run(lib, name, x, CASES[0])
            assert (alone == run(lib, name, x, CASES[0], pool=pool)).all()
    finally:
        lib.destroy(pool)
