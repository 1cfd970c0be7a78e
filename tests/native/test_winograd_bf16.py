"""Minimal filtering of bf16 against the definition of convolution in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cuvil.codegen.kernel import THREADS
from cuvil.codegen.native_scratch import winograd_scratch
from cuvil.codegen.packing_bf16 import pack_winograd_bf16
from cuvil.sym.expr import evaluate
from cuvil.target.base import Target

from .conv_harness import PairConvolutions, Shape, conv_reference, normal
from .harness import runnable_pairs
from .test_winograd import NAMED, same

# Of the sum of absolute values. In tiles of 2 x 2 the transformed pixels and weights are rounded by
# up to 2^-9 of themselves, and are up to four times as large; in tiles of 4 x 4 nothing is rounded.
TOLERANCE = {2: 4 * 2 * 2.0**-9, 4: 4e-6}


@pytest.fixture(scope="module", params=runnable_pairs(), ids=lambda machine: machine.name)
def native(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PairConvolutions:
    return PairConvolutions(tmp_path_factory.mktemp("winograd_bf16"), request.param)


def check(
    native: PairConvolutions, m: int, s: Shape, seed: int, epilogue: bool, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    x, w = normal(rng, s.n, *s.input, s.c).astype(ml_dtypes.bfloat16), s.weights(rng)
    got = native.winograd_bf16(m, s, x, w, epilogue, threads)
    exact = x.astype(np.float64)
    want = conv_reference(exact, w.astype(np.float64), s)
    size = conv_reference(np.abs(exact), np.abs(w).astype(np.float64), s)
    assert got.shape == want.shape
    off = np.abs(got - want)
    assert off.max(initial=0) <= TOLERANCE[m] * size.max(initial=0)
    if m == 2 and want.size:  # and no worse than roundings that are independent
        assert np.sqrt((off**2).mean()) <= 2 * 2.0**-8 * max(1.0, np.sqrt((want**2).mean()))


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("name", NAMED)
def test_shapes(native: PairConvolutions, name: str, m: int) -> None:
    for epilogue, threads in [(False, 1), (True, 2)]:
        check(native, m, NAMED[name], 5, epilogue, threads)


@pytest.mark.parametrize("seed", range(20))
def test_generated_shapes(native: PairConvolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, w, c, oc = (int(v) for v in rng.integers(3, (40, 40, 50, 70)))
    ph, pw, end_h, end_w = (int(v) for v in rng.integers(0, 3, 4))
    s = Shape(1, h, w, c, oc, 3, 3, ph=ph, pw=pw, end_h=end_h, end_w=end_w)
    check(native, 2 + 2 * (seed % 2), s, seed, bool(seed % 3), 1 + seed % 2)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_value_that_is_not_finite_reaches_its_windows_alone(
    native: PairConvolutions, value: float, m: int
) -> None:
    s = same(13, 12, 6, 34)
    rng = np.random.default_rng(1)
    x, w = normal(rng, 1, *s.input, s.c).astype(ml_dtypes.bfloat16), s.weights(rng)
    w[:, 3] = np.where(np.abs(w[:, 3]) < 0.25, 0.5, w[:, 3])  # of one sign however it is rounded
    x[0, 0, 5, 6, 3] = value
    x[0, 0, 0, 11, 3] = value
    with np.errstate(invalid="ignore", over="ignore"):
        want = conv_reference(x.astype(np.float64), w.astype(np.float64), s).astype(np.float32)
    got = native.winograd_bf16(m, s, x, w)
    assert (np.isnan(got) == np.isnan(want)).all()
    far = np.ones(want.shape, bool)
    far[0, 0, 4:7, 5:8] = far[0, 0, 0:2, 10:12] = False
    assert np.isfinite(got[far]).all()
    np.testing.assert_allclose(got[far], want[far], atol=0.3 if m == 2 else 2e-4)
    if np.isinf(value):
        assert (got[~far] == want[~far]).all()


def test_weights_are_transformed_before_they_are_rounded() -> None:
    w = normal(np.random.default_rng(0), 5, 3, 3, 3)
    words = pack_winograd_bf16(w, 2, 8)
    assert words.shape == (1, 16, 2, 8)
    corner = w[4, 2, 2, 2].astype(ml_dtypes.bfloat16)  # the last point is the last tap
    assert words[0, 15, 1, 4] == corner.view(np.uint16)  # and there is no fourth channel
    center = w.astype(np.float64)[1, 1].sum() / 4  # at (1, 1): all taps, halved on both axes
    low = int(words[0, 5, 0, 1]) >> 16
    assert low == np.float32(center).astype(ml_dtypes.bfloat16).view(np.uint16)


@pytest.mark.parametrize("channels", [1, 3, 16, 64, 201, 512, 2048])
def test_scratch_as_the_generator_counts_it(native: PairConvolutions, channels: int) -> None:
    machine = native.machine
    target = Target("t", "x", "m", "b", machine.vec_bytes, machine.mr, machine.nr)
    for threads, (m, steps) in zip((1, 3), ((2, (channels + 1) // 2), (4, channels)), strict=True):
        want = native.scratch_bytes(f"winograd_{m}_bf16", (1, 3, 3), channels, threads)
        assert evaluate(winograd_scratch(m, steps, target), {THREADS: threads}) == want
