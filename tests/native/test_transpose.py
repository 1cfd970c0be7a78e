"""Transposed blocks against NumPy, with what lies around them untouched."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from .harness import NEON, WASM, Machine, address, build, compile_object, runnable

WRAPPER = r"""
#include "transpose.hpp"
EXPORT void turn(float* dst, int64_t dst_row, const float* src, int64_t src_row, int64_t rows,
                 int64_t cols) {
  cuvil::transpose_block(dst, dst_row, src, src_row, rows, cols);
}
"""


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("transpose"), request.param, WRAPPER, ())


def turned(library: ctypes.CDLL, source: np.ndarray, room: np.ndarray) -> None:
    """Writes source [cols, rows] turned round into the first columns of room [rows, ...]."""
    cols, rows = source.shape
    stride = source.strides[0] // 4
    library.turn(
        address(room), ctypes.c_int64(room.shape[1]), ctypes.c_void_p(source.ctypes.data),
        ctypes.c_int64(stride), ctypes.c_int64(rows), ctypes.c_int64(cols),
    )  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 8, 15, 16, 17, 31, 48, 64])
@pytest.mark.parametrize("cols", [0, 1, 5, 7, 8, 16, 19, 33, 64])
def test_bits_arrive_and_nothing_else_changes(library: ctypes.CDLL, rows: int, cols: int) -> None:
    rng = np.random.default_rng(rows * 100 + cols)
    bits = rng.integers(0, 2**32, (cols, rows + 3), np.uint32)
    source = bits.view(np.float32)[:, :rows]
    room = np.full((rows + 1, cols + 2), 7, np.float32)
    turned(library, source, room)
    assert (room[:rows, :cols].view(np.uint32) == bits[:, :rows].T).all()
    assert (room[rows:] == 7).all() and (room[:, cols:] == 7).all()


def test_rows_may_run_backwards(library: ctypes.CDLL) -> None:
    source = np.arange(40 * 21, dtype=np.float32).reshape(40, 21)[::-1]
    room = np.zeros((21, 40), np.float32)
    turned(library, source, room)
    assert (room == source.T).all()


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
def test_compiles_for_other_machines(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "turn.cpp"
    prefix = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'
    path.write_text(prefix + WRAPPER)
    compile_object(path, tmp_path / "turn.o", machine)
    assert (tmp_path / "turn.o").stat().st_size > 500
