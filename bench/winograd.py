"""3x3 convolutions of stride 1: the direct sum beside minimal filtering with 2x2 and 4x4 outputs.

    python bench/winograd.py [--seconds S] [CxOCxSIZE ...]

Microseconds of each on one thread, taken in turns, and the error of each in the output's scale.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuvil.codegen.packing import pack_conv_weights, pack_winograd  # noqa: E402
from tests.native.conv_harness import (  # noqa: E402
    Convolutions,
    Shape,
    conv_reference,
)
from tests.native.harness import address, aligned_zeros, runnable  # noqa: E402

LAYERS = (
    "64x64x56", "128x128x28", "256x256x14", "512x512x7", "16x16x320", "32x32x160", "64x64x80",
    "128x128x40", "256x256x20", "32x32x40", "64x80x40", "96x96x14",
)  # fmt: skip


def call_of(
    native: Convolutions, kind: str, s: Shape, packed: np.ndarray, x: np.ndarray
) -> tuple[Callable[[], object], np.ndarray]:
    """A call without checks, and its output."""
    y = aligned_zeros(s.n * s.h * s.w * s.oc)
    scratch = aligned_zeros(native.scratch_bytes(kind, s.kernel, s.c, 1) // 4)
    line = aligned_zeros(packed.size)
    line[:] = packed.reshape(-1)
    kept = (s.numbers(s.out()), x, line, y, None, scratch)
    arguments = (*map(address, kept), ctypes.c_void_p(None))
    function = getattr(native.library, kind)
    return lambda kept=kept: function(*arguments), y


def least(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least seconds of each call, in turns."""
    best = [1e9] * len(calls)
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            call()
            for _ in range(5):
                start = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    """Print a line a layer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--seconds", type=float, default=0.3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        native = Convolutions(Path(folder), runnable()[0])
    nr = native.machine.nr
    for layer in given.layers:
        c, oc, size = map(int, layer.split("x"))
        s = Shape(1, size, size, c, oc, 3, 3, ph=1, pw=1, end_h=1, end_w=1)
        rng = np.random.default_rng(0)
        x = np.maximum(rng.standard_normal((1, 1, size, size, c), np.float32), 0)
        w = s.weights(rng)
        pairs = [
            call_of(native, "conv", s, pack_conv_weights(w, 1, nr), x),
            *(
                call_of(native, f"winograd_{m}", s, pack_winograd(w[:, :, 0], m, nr), x)
                for m in (2, 4)
            ),
        ]
        times = least([call for call, _ in pairs], given.seconds)
        want = conv_reference(x.astype(np.float64), w.astype(np.float64), s).reshape(-1)
        errors = [np.abs(y - want).max() / np.abs(want).max() for _, y in pairs]
        rate = 2 * 9 * c * oc * size * size / times[0] / 1e9
        cells = "  ".join(f"{t * 1e6:8.0f} ({e:.0e})" for t, e in zip(times, errors))
        ratios = "  ".join(f"{times[0] / t:.2f}x" for t in times[1:])
        print(f"{layer:12s} direct, 2, 4: {cells}   {ratios}   {rate:.0f} GFLOP/s", flush=True)


if __name__ == "__main__":
    main()
