"""Transposed convolution of pairs of bf16 against a plain NumPy definition in float64."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from cuvil.codegen.packing_bf16 import pack_conv_transpose_bf16

from .conv_harness import PairConvolutions, Shape, normal, transposed_reference
from .harness import runnable_pairs
from .test_conv import generated, input_of


@pytest.fixture(scope="module", params=runnable_pairs(), ids=lambda machine: machine.name)
def native(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PairConvolutions:
    return PairConvolutions(tmp_path_factory.mktemp("transposed_bf16"), request.param)


def check(native: PairConvolutions, s: Shape, seed: int, epilogue: bool, threads: int) -> None:
    """Products of bf16 are exact in f32, so only sums are rounded."""
    rng = np.random.default_rng(seed)
    x = input_of(s, rng).astype(ml_dtypes.bfloat16)
    w = normal(rng, s.c, s.oc // s.groups, s.kh, s.kw).astype(ml_dtypes.bfloat16)
    got = native.transposed_bf16(s, x, w, epilogue, threads)
    want = transposed_reference(x.astype(np.float64), w.astype(np.float64), s)
    size = transposed_reference(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), s)
    assert np.abs(got - want).max(initial=0) <= 1e-6 * max(1.0, size.max(initial=0))


@pytest.mark.parametrize("seed", range(40))
def test_generated_shapes(native: PairConvolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, int(rng.choice([1, 1, 2, 3])))
    s = replace(s, c=2 * s.c, end_h=int(rng.integers(0, 3)), end_w=int(rng.integers(0, 3)))
    _, oh, ow = s.transposed_out()
    s = replace(s, ph=s.ph if oh > 0 else 0, pw=s.pw if ow > 0 else 0)
    check(native, s, seed, bool(seed % 2), 1 + seed % 3 % 2)


@pytest.mark.parametrize("channels", [2, 6, 64])
@pytest.mark.parametrize("outputs", [1, 33, 64])
def test_blocks_beside_each_other(native: PairConvolutions, channels: int, outputs: int) -> None:
    check(native, Shape(2, 7, 9, channels, outputs, 2, 2, sh=2, sw=2), 0, True, 2)


def test_packing_refuses_what_has_no_pairs() -> None:
    with pytest.raises(ValueError, match="an odd number of channels has no pairs"):
        pack_conv_transpose_bf16(np.zeros((3, 4, 2, 2), ml_dtypes.bfloat16), 1, 8, (2, 2))
    with pytest.raises(ValueError, match="expected weights of bf16"):
        pack_conv_transpose_bf16(np.zeros((4, 4, 2, 2), np.float32), 1, 8, (2, 2))
