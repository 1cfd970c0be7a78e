"""What tiles fetch ahead: slices that follow each other through what comes next, none too fast."""

from __future__ import annotations

import ctypes

import pytest

from tests.native.harness import build, runnable

CODE = r"""
#include "ahead.hpp"
// From where to where a tile's slice goes, in bytes from the first; -1 where it has none.
EXPORT void slice(int64_t bytes, int64_t tiles, int64_t tile, int64_t steps, int64_t most,
                  int64_t* out) {
  static const char start[1] = {0};
  const cuvil::Upcoming next = {start, bytes, tiles};
  const cuvil::Ahead found = next.slice(tile, steps, most);
  out[0] = found.first ? static_cast<const char*>(found.first) - start : -1;
  out[1] = found.stride;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("ahead"), runnable()[0], CODE, ())


def _slices(
    library: ctypes.CDLL, size: int, tiles: int, steps: int, most: int
) -> list[tuple[int, int]]:
    found = []
    for tile in range(tiles):
        out = (ctypes.c_int64 * 2)()
        library.slice(*(ctypes.c_int64(x) for x in (size, tiles, tile, steps, most)), out)
        found.append((out[0], out[1]))
    return found


@pytest.mark.parametrize("size", [1, 64, 4096, 98304, 98304 * 5 + 64])
@pytest.mark.parametrize("tiles", [1, 3, 50])
@pytest.mark.parametrize("steps", [1, 9, 768])
def test_slices_cover_what_comes_next_once(
    library: ctypes.CDLL, size: int, tiles: int, steps: int
) -> None:
    found = _slices(library, size, tiles, steps, 1 << 40)
    at = 0
    for first, stride in found:
        if at >= size:
            assert first == -1 and stride == 0
            continue
        assert first == at
        at += stride * steps
    assert at >= size
    assert at - size < tiles * steps * 8  # whole strides, of 8 bytes at least


def test_no_tile_fetches_faster_than_it_may(library: ctypes.CDLL) -> None:
    found = _slices(library, 1 << 20, 4, 100, 60)
    assert found == [(0, 60), (6000, 60), (12000, 60), (18000, 60)]


@pytest.mark.parametrize(("size", "steps"), [(0, 10), (-1, 10), (64, 0)])
def test_nothing_comes_next(library: ctypes.CDLL, size: int, steps: int) -> None:
    assert _slices(library, size, 2, steps, 100) == [(-1, 0)] * 2
