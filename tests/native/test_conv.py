"""Convolutions (grouped, depthwise, transposed) against a plain NumPy definition in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuvil.codegen.native_scratch import (
    THREADS,
    conv_scratch,
    conv_transpose_scratch,
    depthwise_scratch,
)
from cuvil.codegen.packing import pack_conv_transpose, pack_conv_weights, pack_depthwise
from cuvil.sym.expr import evaluate

from .conv_harness import (
    CORE,
    Convolutions,
    Shape,
    Sizes,
    conv_reference,
    normal,
    transposed_reference,
)
from .harness import NATIVE, NEON, WASM, Machine, compile_object, runnable


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def native(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Convolutions:
    return Convolutions(tmp_path_factory.mktemp("conv"), request.param)


Reference = Callable[[np.ndarray, np.ndarray, Shape], np.ndarray]


def assert_close(got: np.ndarray, x: np.ndarray, w: np.ndarray, s: Shape, ref: Reference) -> None:
    """Within the bound of a sum of k products in any order (Higham, 2002, section 3.1)."""
    want = ref(x.astype(np.float64), w.astype(np.float64), s)
    size = ref(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), s)
    assert got.shape == want.shape
    bound = (math.prod(s.kernel) * s.c // s.groups + 2) * 2.0**-24 * size + 1e-37
    assert (np.abs(got - want) <= bound).all()


def input_of(s: Shape, rng: np.random.Generator) -> np.ndarray:
    return normal(rng, s.n, *s.input, s.c)


CUBE: dict[str, int] = {"ph": 1, "pw": 1, "end_h": 1, "end_w": 1}
NAMED = {
    "first layer": Shape(1, 23, 29, 3, 40, 7, 7, 2, 2, ph=3, pw=3, end_h=3, end_w=3),
    "first layer 3x3": Shape(2, 17, 16, 3, 32, 3, 3, 2, 2, ph=0, pw=1, end_h=1, end_w=0),
    "one channel": Shape(1, 12, 9, 1, 5, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    "3x3": Shape(2, 15, 14, 32, 33, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    "1x1": Shape(2, 7, 7, 40, 70),
    "1x1 stride 2": Shape(2, 9, 8, 24, 16, sh=2, sw=2),
    "1x1 a cache period apart": Shape(1, 8, 8, 1024, 20, sh=2, sw=2),
    "1x1 padded": Shape(1, 5, 5, 20, 20, ph=1, pw=2, end_h=1, end_w=3),
    "dilated": Shape(1, 20, 21, 8, 9, 3, 3, dh=2, dw=3, ph=2, pw=3, end_h=2, end_w=3),
    "grouped": Shape(2, 10, 11, 24, 36, 3, 3, ph=1, pw=1, end_h=1, end_w=1, groups=4),
    "grouped 1x1": Shape(1, 6, 6, 64, 128, groups=2),
    "one channel a group": Shape(1, 9, 9, 6, 12, 3, 3, groups=6),
    "1-D": Shape(3, 1, 50, 16, 20, 1, 5, sw=2, pw=2, end_w=2),
    "1-D dilated": Shape(1, 1, 64, 4, 20, 1, 3, dw=8, pw=16),
    "tall kernel": Shape(1, 40, 3, 5, 6, 9, 1, sh=3, ph=4, end_h=4),
    "pads wider than the input": Shape(1, 2, 2, 5, 4, 3, 3, ph=4, pw=5, end_h=4, end_w=5),
    "3-D": Shape(2, 9, 8, 24, 20, 3, 3, **CUBE, d=7, kd=3, pd=1, end_d=1),
    "3-D first layer": Shape(1, 13, 18, 3, 17, 5, 5, 2, 2, ph=2, pw=2, end_h=2, d=8, kd=3, pd=1),
    "3-D dilated": Shape(1, 9, 10, 5, 9, 2, 3, dh=3, dw=2, pw=2, d=11, kd=3, dd=4, pd=5, end_d=3),
    "3-D grouped": Shape(2, 6, 5, 8, 12, 3, 2, **CUBE, groups=4, d=5, kd=2, sd=2, end_d=2),
    "3-D 1x1x1": Shape(2, 3, 5, 40, 35, d=4),
    "3-D 1x1x1 stride over depth": Shape(2, 3, 5, 40, 35, d=9, sd=3),
    "3-D over depth alone": Shape(1, 5, 7, 21, 33, d=12, kd=5, pd=2, end_d=2),
    "3-D one channel": Shape(1, 5, 6, 1, 3, 3, 3, **CUBE, d=5, kd=3, pd=1, end_d=1),
    "3-D short rows at borders": Shape(1, 4, 6, 15, 5, 7, 7, ph=3, pw=3, end_h=3, end_w=3, d=2),
    "3-D pads wider than the input": Shape(1, 2, 2, 5, 4, 3, 3, d=1, kd=2, pd=3, end_d=3, **CUBE),
    "3-D no images": Shape(0, 5, 5, 3, 4, 3, 3, d=5, kd=2),
    "3-D no channels": Shape(1, 5, 5, 0, 4, 3, 3, d=5, kd=2),
    "3-D no outputs": Shape(1, 5, 5, 3, 0, 3, 3, d=5, kd=2),
    "3-D no depth": Shape(1, 5, 5, 3, 2, 3, 3, d=0, kd=2, pd=1, end_d=1),
    "no images": Shape(0, 5, 5, 3, 4, 3, 3),
    "no channels": Shape(1, 5, 5, 0, 4, 3, 3),
    "no outputs": Shape(1, 5, 5, 3, 0, 3, 3),
}


@pytest.mark.parametrize("name", NAMED)
def test_conv_of_every_kind(native: Convolutions, name: str) -> None:
    s, rng = NAMED[name], np.random.default_rng(5)
    x, w = input_of(s, rng), s.weights(rng)
    for epilogue, threads in [(False, 1), (True, 2)]:
        got = native.conv(s, x, w, epilogue=epilogue, threads=threads)
        assert_close(got, x, w, s, conv_reference)


def generated(rng: np.random.Generator, groups: int) -> Shape:
    """A random window that fits its padded input at least once."""
    kh, kw, sh, sw, dh, dw = (int(v) for v in rng.integers(1, (6, 6, 4, 4, 4, 4)))
    ph, pw, end_h, end_w = (int(v) for v in rng.integers(0, 4, 4))
    h = int(rng.integers(1, 18)) + max(0, dh * (kh - 1) - ph - end_h)
    w = int(rng.integers(1, 40)) + max(0, dw * (kw - 1) - pw - end_w)
    c, oc = (groups * int(v) for v in rng.integers(1, (40, 70)))
    n = int(rng.integers(1, 3))
    return Shape(n, h, w, c, oc, kh, kw, sh, sw, dh, dw, ph, pw, groups, end_h, end_w)


@pytest.mark.parametrize("seed", range(60))
def test_conv_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, int(rng.choice([1, 1, 1, 2, 3])))
    x, w = input_of(s, rng), s.weights(rng)
    got = native.conv(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


def deepened(rng: np.random.Generator, s: Shape) -> Shape:
    """A random depth for a window over an image, with smaller images."""
    kd, sd, dd = (int(v) for v in rng.integers(1, (5, 4, 4)))
    pd, end_d = (int(v) for v in rng.integers(0, 4, 2))
    d = int(rng.integers(1, 8)) + max(0, dd * (kd - 1) - pd - end_d)
    h, w = (1 + (size - 1) // 2 + k * e for size, k, e in ((s.h, s.kh, s.dh), (s.w, s.kw, s.dw)))
    return replace(s, h=h, w=w, d=d, kd=kd, sd=sd, dd=dd, pd=pd, end_d=end_d)


@pytest.mark.parametrize("seed", range(60))
def test_conv_over_depth_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = deepened(rng, generated(rng, int(rng.choice([1, 1, 2, 3]))))
    x, w = input_of(s, rng), s.weights(rng)
    got = native.conv(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


@pytest.mark.parametrize("seed", range(30))
def test_depthwise_over_depth_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = deepened(rng, generated(rng, 1))
    if seed % 3 == 0:  # a specialised window that stands in a padded depth
        s = replace(s, kh=3, kw=3, sh=1, sw=1, dh=1, dw=1, h=s.h + 3, w=s.w + 3, kd=1)
    channels = int(rng.choice([1, 3, 16, 17, 33, 130, 257]))
    s = replace(s, c=channels, oc=channels, groups=channels)
    x, w = input_of(s, rng), s.weights(rng)
    got = native.depthwise(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


@pytest.mark.parametrize("seed", range(60))
def test_depthwise_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, 1)
    if seed % 3:  # the specialised windows
        k, sh, sw = int(rng.choice([3, 5])), int(rng.choice([1, 2, 3])), int(rng.choice([1, 2]))
        s = replace(s, kh=k, kw=k, sh=sh, sw=sw, dh=1, dw=1, h=s.h + k, w=s.w + k)
    if seed % 7 == 0:
        s = replace(s, w=1, kw=1, pw=0, end_w=0, h=s.h + 20)
    channels = int(rng.choice([1, 3, 8, 15, 16, 17, 33, 64, 129, 150, 257, 300]))
    s = replace(s, c=channels, oc=channels, groups=channels)
    x, w = input_of(s, rng), s.weights(rng)
    got = native.depthwise(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


@pytest.mark.parametrize("width", range(1, 18))
def test_depthwise_row_remainders(native: Convolutions, width: int) -> None:
    rng = np.random.default_rng(width)
    s = Shape(1, 4, width, 32, 32, 3, 3, ph=1, pw=1, groups=32, end_h=1, end_w=1)
    x, w = input_of(s, rng), s.weights(rng)
    assert_close(native.depthwise(s, x, w), x, w, s, conv_reference)


@pytest.mark.parametrize("seed", range(60))
def test_transposed_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, int(rng.choice([1, 1, 2, 3])))
    if seed % 5 == 0:
        s = replace(s, sw=int(rng.integers(5, 20)))
    s = replace(s, end_h=int(rng.integers(0, 3)), end_w=int(rng.integers(0, 3)))
    _, oh, ow = s.transposed_out()
    s = replace(s, ph=s.ph if oh > 0 else 0, pw=s.pw if ow > 0 else 0)
    x, w = input_of(s, rng), normal(rng, s.c, s.oc // s.groups, s.kh, s.kw)
    got = native.transposed(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, transposed_reference)


def test_transposed_with_stride_wider_than_kernel_leaves_zeros(native: Convolutions) -> None:
    s = Shape(1, 3, 4, 5, 6, 1, 1, sh=3, sw=2)
    x, w = np.ones((1, 1, 3, 4, 5), np.float32), np.ones((5, 6, 1, 1), np.float32)
    y = native.transposed(s, x, w)
    assert (y[:, 0, ::3, ::2] == 5).all() and y.sum() == 5 * 6 * 12


@pytest.mark.parametrize("channels", [0, 1, 3, 15, 16, 17, 100])
@pytest.mark.parametrize("kernel", [(1, 1, 1), (1, 7, 7), (3, 2, 5)])
def test_generated_code_reserves_the_scratch(
    native: Convolutions, kernel: Sizes, channels: int
) -> None:
    taps, mr = math.prod(kernel), native.machine.mr
    reserved = {
        "conv": conv_scratch(taps, kernel[-1], channels, mr),
        "transposed": conv_transpose_scratch(taps, channels, mr),
        "depthwise": depthwise_scratch(taps, channels),
    }
    for kind, size in reserved.items():
        for threads in (1, 3):
            wanted = native.scratch_bytes(kind, kernel, channels, threads)
            assert evaluate(size, {THREADS: threads}) == wanted, kind


def test_padding_is_multiplied_as_zeros(native: Convolutions) -> None:
    """Inf weights on padding make NaN, in the same places as in the reference."""
    for c, kind in [(3, "conv"), (20, "conv"), (32, "depthwise")]:
        groups = c if kind == "depthwise" else 1
        s = Shape(1, 5, 9, c, c, 3, 3, ph=1, pw=1, groups=groups, end_h=1, end_w=1)
        x, w = np.ones((1, 1, 5, 9, c), np.float32), np.ones((c, c // groups, 1, 3, 3), np.float32)
        w[1, 0, 0, 0, 2] = np.inf
        got = getattr(native, kind)(s, x, w)
        with np.errstate(invalid="ignore"):
            want = conv_reference(x, w, s)
        assert np.isnan(want).any() and np.isinf(want).any()
        assert (np.isnan(got) == np.isnan(want)).all()
        assert (np.isinf(got) == np.isinf(want)).all()


def test_nan_pixel_reaches_only_its_windows(native: Convolutions) -> None:
    s = Shape(1, 9, 9, 17, 19, 3, 3, ph=1, pw=1, end_h=1, end_w=1)
    rng = np.random.default_rng(6)
    x, w = input_of(s, rng), s.weights(rng)
    x[0, 0, 4, 0, 16] = np.nan
    bad = np.isnan(native.conv(s, x, w)).all(axis=-1)[0, 0]
    assert bad[3:6, 0:2].all() and bad.sum() == 6


def test_packing_refuses_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="groups"):
        pack_conv_weights(np.zeros((5, 1, 3, 3), np.float32), 2, 8)
    with pytest.raises(ValueError, match="rank 3 to 5"):
        pack_conv_weights(np.zeros((5, 1, 3, 3, 3, 3), np.float32), 1, 8)
    with pytest.raises(ValueError, match="depthwise"):
        pack_depthwise(np.zeros((4, 2, 3, 3), np.float32))
    with pytest.raises(ValueError, match="groups"):
        pack_conv_transpose(np.zeros((5, 1, 3, 3), np.float32), 2, 8, (1, 1))


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", CORE)
def test_compiles_for_other_machines(tmp_path: Path, machine: Machine, name: str) -> None:
    compile_object(NATIVE / name, tmp_path / "out.o", machine)
    assert (tmp_path / "out.o").stat().st_size > 500


def test_library_of_all_kernels_is_small(native: Convolutions) -> None:
    assert Path(native.library._name).stat().st_size < 150_000
