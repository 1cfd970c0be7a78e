"""Minimal filtering against the definition of convolution in float64."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.codegen.kernel import THREADS
from cuvil.codegen.native_scratch import winograd_scratch
from cuvil.codegen.packing import WINOGRAD_POINTS, pack_winograd, winograd_filter
from cuvil.sym.expr import evaluate
from cuvil.target.base import Target

from .conv_harness import Convolutions, Shape, conv_reference, normal
from .harness import runnable

# Of the output's scale, at the channel counts here (see winograd.hpp for larger ones).
TOLERANCE = {2: 1e-6, 4: 4e-6}


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def native(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Convolutions:
    return Convolutions(tmp_path_factory.mktemp("winograd"), request.param)


def same(h: int, w: int, c: int, oc: int, n: int = 1) -> Shape:
    return Shape(n, h, w, c, oc, 3, 3, ph=1, pw=1, end_h=1, end_w=1)


NAMED = {
    "one tile": same(4, 4, 8, 8),
    "one pixel": same(1, 1, 3, 5),
    "odd channels": same(9, 11, 19, 35),
    "many groups": same(30, 33, 40, 20, n=2),
    "a long row": same(3, 150, 5, 33),
    "several panels": same(14, 14, 33, 130),
    "no padding": Shape(1, 8, 9, 16, 16, 3, 3),
    "uneven pads": Shape(2, 7, 6, 5, 7, 3, 3, ph=2, pw=0, end_h=1, end_w=3),
    "pads wider than the input": Shape(1, 2, 2, 5, 4, 3, 3, ph=4, pw=5, end_h=4, end_w=5),
    "no images": same(5, 5, 3, 4, n=0),
}


def check(native: Convolutions, m: int, s: Shape, seed: int, epilogue: bool, threads: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = normal(rng, s.n, *s.input, s.c), s.weights(rng)
    got = native.winograd(m, s, x, w, epilogue, threads)
    want = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    # The transforms' sums are as large as sums of absolute values, whatever cancels in the result.
    size = conv_reference(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), s)
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= TOLERANCE[m] * size.max(initial=0)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("name", NAMED)
def test_shapes(native: Convolutions, name: str, m: int) -> None:
    for epilogue, threads in [(False, 1), (True, 2)]:
        check(native, m, NAMED[name], 5, epilogue, threads)


@pytest.mark.parametrize("seed", range(20))
def test_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, w, c, oc = (int(v) for v in rng.integers(1, (40, 40, 50, 70)))
    ph, pw, end_h, end_w = (int(v) for v in rng.integers(0, 3, 4))
    h, w = max(h, 3), max(w, 3)
    s = Shape(1, h, w, c, oc, 3, 3, ph=ph, pw=pw, end_h=end_h, end_w=end_w)
    check(native, 2 + 2 * (seed % 2), s, seed, bool(seed % 3), 1 + seed % 2)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_value_that_is_not_finite_reaches_its_windows_alone(
    native: Convolutions, value: float, m: int
) -> None:
    s = same(13, 12, 6, 34)
    rng = np.random.default_rng(1)
    x, w = normal(rng, 1, *s.input, s.c), s.weights(rng)
    w[:, 3, 0, 1, 2] = 0  # Inf times it is NaN
    x[0, 0, 5, 6, 3] = value
    x[0, 0, 0, 11, 3] = value
    with np.errstate(invalid="ignore", over="ignore"):
        want = conv_reference(x.astype(np.float64), w.astype(np.float64), s).astype(np.float32)
    got = native.winograd(m, s, x, w)
    assert (np.isnan(got) == np.isnan(want)).all()
    far = np.ones(want.shape, bool)
    far[0, 0, 4:7, 5:8] = far[0, 0, 0:2, 10:12] = False
    assert np.isfinite(got[far]).all()
    np.testing.assert_allclose(got[far], want[far], atol=2e-4)
    near = ~far & np.isinf(want)
    assert (got[near] == want[near]).all()


def test_overflow_of_the_transforms_alone_is_no_overflow_of_the_result(
    native: Convolutions,
) -> None:
    s = same(8, 8, 4, 8)
    x = np.full((1, 1, 8, 8, 4), 1e38, np.float32)
    w = np.full((8, 4, 1, 3, 3), 1e-3, np.float32)
    want = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    np.testing.assert_allclose(native.winograd(4, s, x, w), want, rtol=1e-5)


@pytest.mark.parametrize("m", [2, 4])
def test_filter_transform_is_exact_interpolation(m: int) -> None:
    """The product of two polynomials, by their values at the points, scaled as G is."""
    taps, points = np.array([3.0, -5.0, 2.0]), np.array(WINOGRAD_POINTS[m])
    values = winograd_filter(m) @ taps
    apart = points[:, None] - points
    np.fill_diagonal(apart, 1.0)
    np.testing.assert_allclose(values[:-1] * apart.prod(1), np.polyval(taps[::-1], points))
    assert values[-1] == 2.0


def test_packing_refuses_other_kernels() -> None:
    with pytest.raises(ValueError, match=r"\[O, C, 3, 3\]"):
        pack_winograd(np.zeros((4, 4, 5, 5), np.float32), 4, 8)


@pytest.mark.parametrize("channels", [1, 3, 16, 64, 200, 512, 2048])
@pytest.mark.parametrize("m", [2, 4])
def test_scratch_as_the_generator_counts_it(native: Convolutions, m: int, channels: int) -> None:
    machine = native.machine
    target = Target(
        "t", "x", "m", "b", machine.vec_bytes, machine.mr, machine.nr
    )  # fmt: skip
    for threads in (1, 3):
        want = native.scratch_bytes(f"winograd_{m}", (1, 3, 3), channels, threads)
        assert evaluate(winograd_scratch(m, channels, target), {THREADS: threads}) == want
