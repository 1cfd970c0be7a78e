"""The integrity hash of native/core_mem.cpp (see native/hash.hpp), bit for bit, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_K1 = 0x9E3779B97F4A7C15
_K2 = np.uint64(0xD6E8FEB86659FD93)
_K3 = 0xA0761D6478BD642F
_MASK = (1 << 64) - 1
_CHUNK = 4096  # words handled at a time: the temporaries stay in the first-level cache


def _mix(h: int) -> int:
    """Scramble 64 bits (the finaliser of A. Appleby's MurmurHash3)."""
    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ (h >> 33)


def _sum_words(words: np.ndarray, base: int) -> int:
    """Add up the scrambled words; `words` is uint64, `base` the scrambled seed."""
    size = min(_CHUNK, words.size)
    steps = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(_K1)
    v, shifted = np.empty_like(steps), np.empty_like(steps)
    total = 0
    for start in range(0, words.size, _CHUNK):
        part = words[start : start + _CHUNK]
        a, b = v[: part.size], shifted[: part.size]
        np.add(part, steps[: part.size], out=a)
        np.add(a, np.uint64((base + start * _K1) & _MASK), out=a)
        np.right_shift(a, np.uint64(32), out=b)
        np.bitwise_xor(a, b, out=a)
        np.multiply(a, _K2, out=a)
        np.right_shift(a, np.uint64(29), out=b)
        np.bitwise_xor(a, b, out=a)
        total += int(a.sum(dtype=np.uint64))
    return total


def hash64(data: bytes | bytearray | memoryview | np.ndarray, seed: int = 0) -> int:
    """Hash bytes (or a C-contiguous array's bytes) to 64 bits.

    Not cryptographic: it finds accidents, not attackers. Raises ValueError for an array that is
    not C-contiguous.
    """
    size = data.nbytes if isinstance(data, np.ndarray | memoryview) else len(data)
    return hash64_of_parts([(0, data)], size, seed)


def hash64_of_parts(
    parts: Iterable[tuple[int, bytes | bytearray | memoryview | np.ndarray]],
    size: int,
    seed: int = 0,
) -> int:
    """:func:`hash64` of ``size`` bytes that are 0 but for the parts: (offset, data), each offset a
    multiple of 8, in rising order."""
    base = _mix(seed & _MASK)
    total = done = 0
    for offset, data in parts:
        raw = _bytes_of(data)
        whole = raw.size // 8 * 8
        total += _sum_zeros(offset - done, base + done // 8 * _K1)
        total += _sum_words(raw[:whole].view("<u8"), base + offset // 8 * _K1)
        done = offset + whole
        if raw.size > whole:
            last = np.zeros(8, dtype=np.uint8)
            last[: raw.size - whole] = raw[whole:]
            total += _sum_words(last.view("<u8"), base + done // 8 * _K1)
            done += 8
    total += _sum_zeros(size - done, base + done // 8 * _K1)
    return _mix((total + size * _K3) & _MASK)


def _sum_zeros(count: int, base: int) -> int:
    return _sum_words(np.zeros(max(-(-count // 8), 0), dtype="<u8"), base)


def _bytes_of(data: bytes | bytearray | memoryview | np.ndarray) -> np.ndarray:
    if not isinstance(data, np.ndarray):
        return np.frombuffer(data, dtype=np.uint8)
    if not data.flags.c_contiguous:
        raise ValueError("hash64 needs a C-contiguous array")
    return data.reshape(-1).view(np.uint8)
