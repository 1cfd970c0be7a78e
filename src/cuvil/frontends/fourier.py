"""Discrete Fourier transforms as products with constant matrices, split by the length's factors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cuvil.frontends.emitter import Emitter
from cuvil.frontends.formula import Term
from cuvil.ir.core import Value

_MATRIX = 64  # lengths up to this are one product
_PRIME = 512  # prime lengths beyond are written as a convolution (Bluestein)


@dataclass(frozen=True)
class Spectrum:
    """Real and imaginary parts; ``im`` is None where it is 0. Transforms run along the last axis,
    the length of which is known."""

    re: Value
    im: Value | None

    @property
    def length(self) -> int:
        size = self.re.type.shape[-1]
        assert isinstance(size, int)
        return size


def transform(e: Emitter, x: Spectrum, sign: int) -> Spectrum:
    """sum over t of x[t] exp(sign 2 pi i k t / n), for all k."""
    n = x.length
    if n <= 1:
        return x
    factor = _factor(n)
    if n <= _MATRIX or (factor == n and n <= _PRIME):
        return _product(e, x, _angles(n, n, sign))
    if factor == n:
        return _chirp(e, x, sign)
    return _split(e, x, factor, sign)


def half(e: Emitter, x: Spectrum, sign: int) -> Spectrum:
    """The first n // 2 + 1 results of a real signal's transform."""
    n = x.length
    bins = n // 2 + 1
    if 1 < n <= _MATRIX:
        return _product(e, x, _angles(n, bins, sign))
    whole = transform(e, x, sign)
    last = whole.re.type.rank - 1
    im = whole.im if whole.im is not None else _zeros(e, whole.re)
    return Spectrum(e.slice(whole.re, last, 0, bins), e.slice(im, last, 0, bins))


def real_from_half(e: Emitter, x: Spectrum, n: int, sign: int) -> Value:
    """The real signal of length n with this half spectrum: the missing bins are the conjugates of
    those before, and the imaginary parts of the first and (for an even n) last don't count."""
    last = x.re.type.rank - 1
    bins = n // 2 + 1
    mask = np.ones(bins, bool)
    mask[0] = False
    if n % 2 == 0:
        mask[-1] = False
    re, im = x.re, x.im if x.im is not None else _zeros(e, x.re)
    im = e.map("select", e.weight(mask), im, e.scalar(0, im.type.dtype))
    if n <= _MATRIX:
        angles = _angles(bins, n, sign)
        twice = np.full((bins, 1), 2.0)
        twice[0] = 1
        if n % 2 == 0:
            twice[-1] = 1
        table = np.concatenate([twice * np.cos(angles), -twice * np.sin(angles)])
        return _times(e, e.op("concat", re, im, axis=last), table)
    tail_re, tail_im = (_reversed(e, e.slice(v, last, 1, n - bins + 1)) for v in (re, im))
    re = e.op("concat", re, tail_re, axis=last)
    im = e.op("concat", im, e.op("neg", tail_im), axis=last)
    return transform(e, Spectrum(re, im), sign).re


def _factor(n: int) -> int:
    """The largest divisor up to 64, or the least prime factor above; n for a prime."""
    for d in range(min(_MATRIX, math.isqrt(n)), 1, -1):
        if n % d == 0:
            return d
    for d in range(_MATRIX + 1, math.isqrt(n) + 1):
        if n % d == 0:
            return d
    return n


def _angles(rows: int, columns: int, sign: int) -> np.ndarray:
    """sign 2 pi r c / n for n the larger size; the product is reduced first, which keeps digits."""
    n = max(rows, columns)
    turns = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)) % n
    return sign * 2 * np.pi * turns / n


def _table(e: Emitter, table: np.ndarray, like: Value) -> Value:
    return e.weight(np.ascontiguousarray(table.astype(like.type.dtype.numpy)))


def _product(e: Emitter, x: Spectrum, angles: np.ndarray) -> Spectrum:
    """One real product gives both parts: [re im] [[cos, sin], [-sin, cos]]."""
    cos, sin = (_exact_zeros(f(angles)) for f in (np.cos, np.sin))
    rows = np.concatenate([cos, sin], axis=1)
    data = x.re
    last = data.type.rank - 1
    if x.im is not None:
        rows = np.concatenate([rows, np.concatenate([-sin, cos], axis=1)])
        data = e.op("concat", x.re, x.im, axis=last)
    out = _times(e, data, rows)
    count = angles.shape[1]
    return Spectrum(*(e.slice(out, last, i * count, (i + 1) * count) for i in (0, 1)))


def _exact_zeros(table: np.ndarray) -> np.ndarray:
    """Sines and cosines with +0 where a multiple of a quarter turn leaves a rounding error."""
    return np.where(np.abs(table) < 1e-12, 0.0, table)


def _times(e: Emitter, x: Value, table: np.ndarray) -> Value:
    """A product with a constant matrix, of a vector too."""
    if x.type.rank > 1:
        return e.op("matmul", x, _table(e, table, x))
    out = e.op("matmul", e.unsqueeze(x, 0), _table(e, table, x))
    return e.squeeze(out, [0])


def _split(e: Emitter, x: Spectrum, a: int, sign: int) -> Spectrum:
    """n = a b: transforms of length a over every b-th element, turned, then of length b (Cooley
    and Tukey, 1965)."""
    n = x.length
    b = n // a
    lead = x.re.type.shape[:-1]

    def rows(s: Spectrum) -> Spectrum:
        """The last two axes exchanged."""
        rank = s.re.type.rank
        perm = [*range(rank - 2), rank - 1, rank - 2]
        im = None if s.im is None else e.transpose(s.im, perm)
        return Spectrum(e.transpose(s.re, perm), im)

    shape = (*lead, a, b)
    im = None if x.im is None else e.reshape(x.im, shape)
    first = transform(e, rows(Spectrum(e.reshape(x.re, shape), im)), sign)
    turns = np.outer(np.arange(b), np.arange(a)) * (sign * 2 * np.pi / n)
    second = transform(e, rows(_turned(e, first, turns)), sign)
    out = rows(second)
    assert out.im is not None
    whole = (*lead, n)
    return Spectrum(e.reshape(out.re, whole), e.reshape(out.im, whole))


def _turned(e: Emitter, x: Spectrum, angles: np.ndarray) -> Spectrum:
    """Times exp(i angles)."""
    cos = Term(e, _table(e, np.cos(angles), x.re))
    sin = Term(e, _table(e, np.sin(angles), x.re))
    re = Term(e, x.re)
    if x.im is None:
        return Spectrum((re * cos).value, (re * sin).value)
    im = Term(e, x.im)
    return Spectrum((re * cos - im * sin).value, (re * sin + im * cos).value)


def _chirp(e: Emitter, x: Spectrum, sign: int) -> Spectrum:
    """A prime length by a convolution, k t = (k**2 + t**2 - (k - t)**2) / 2 (Bluestein, 1970)."""
    n = x.length
    size = 1 << (2 * n - 2).bit_length()
    turns = np.arange(n, dtype=np.int64) ** 2 % (2 * n) * (sign * np.pi / n)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = np.exp(-1j * turns)
    kernel[size - n + 1 :] = kernel[1:n][::-1]
    wave = np.fft.fft(kernel) / size
    turned = _turned(e, x, turns)
    assert turned.im is not None
    rank = x.re.type.rank
    lo, hi = (0,) * rank, (0,) * (rank - 1) + (size - n,)
    padded = Spectrum(*(e.op("pad", v, lo=lo, hi=hi) for v in (turned.re, turned.im)))
    there = transform(e, padded, -1)
    assert there.im is not None
    re, im = Term(e, there.re), Term(e, there.im)
    a, b = (Term(e, _table(e, part, x.re)) for part in (wave.real, wave.imag))
    back = transform(e, Spectrum((re * a - im * b).value, (re * b + im * a).value), 1)
    assert back.im is not None
    kept = Spectrum(*(e.slice(v, rank - 1, 0, n) for v in (back.re, back.im)))
    return _turned(e, kept, turns)


def _zeros(e: Emitter, like: Value) -> Value:
    return e.broadcast(e.scalar(0, like.type.dtype), like.type.shape)


def _reversed(e: Emitter, x: Value) -> Value:
    shape = x.type.shape
    rank = len(shape)
    size = shape[-1]
    assert isinstance(size, int)
    start, step = (0,) * (rank - 1) + (size - 1,), (1,) * (rank - 1) + (-1,)
    return e.op("slice", x, start=start, size=shape, step=step)
