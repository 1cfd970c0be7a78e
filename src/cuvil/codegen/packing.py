"""Weights in the layouts that the native contraction kernels read (see native/*.hpp).

`nr` is the width of the target's register tile. All functions take and return f32 arrays (other
dtypes are converted), allocate their result, and raise ValueError on shapes that don't fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def pack_gemm_b(w: NDArray[np.generic], nr: int) -> Floats:
    """[K, N] -> panels [ceil(N / nr), K, nr]; columns past N are zero."""
    if w.ndim != 2:
        raise ValueError(f"expected a matrix [K, N], got shape {w.shape}")
    k, n = w.shape
    panels = -(-n // nr)
    full = n // nr
    packed = np.empty((panels, k, nr), np.float32)
    packed[:full] = w[:, : full * nr].reshape(k, full, nr).transpose(1, 0, 2)
    if full < panels:
        packed[full, :, : n - full * nr] = w[:, full * nr :]
        packed[full, :, n - full * nr :] = 0
    return packed
