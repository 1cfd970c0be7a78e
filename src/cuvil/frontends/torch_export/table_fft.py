"""torch.fft: the three transforms that the others decompose to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuvil.frontends.fourier import Spectrum, half, real_from_half, transform
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.pairs import Pair, pair_of, result_dtype
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.ir.core import Value
from cuvil.sym.expr import Dim


def _known(size: Dim) -> int:
    if not isinstance(size, int):
        raise Refused("a Fourier transform along a dim of symbolic size; make it static")
    return size


def _last(c: Call, value: Value, axis: int) -> Value:
    """The axis moved to the end (its own inverse: a swap)."""
    rank = value.type.rank
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return c.e.transpose(value, perm)


def _moved(c: Call, x: Spectrum, axis: int) -> Spectrum:
    im = None if x.im is None else _last(c, x.im, axis)
    return Spectrum(_last(c, x.re, axis), im)


def _along(c: Call, x: Spectrum, axes: Sequence[int], sign: int) -> Spectrum:
    for axis in axes:
        _known(x.re.type.shape[axis])
        x = _moved(c, transform(c.e, _moved(c, x, axis), sign), axis)
    return x


def _scale(c: Call, mode: int, sizes: Sequence[int]) -> float:
    """fft_norm_mode: 0 none, 1 by the root of the number of points, 2 by that number."""
    count = max(math.prod(sizes), 1)
    return {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[mode]


def _scaled(c: Call, value: Value, factor: float) -> Value:
    return value if factor == 1 else c.e.with_scalar("mul", value, factor)


def _finished(c: Call, x: Spectrum, factor: float) -> Pair:
    zero = c.e.scalar(0, x.re.type.dtype)
    im = x.im if x.im is not None else c.e.broadcast(zero, x.re.type.shape)
    return Pair(_scaled(c, x.re, factor), _scaled(c, im, factor))


def _axes(c: Call, rank: int) -> list[int]:
    return [d % max(rank, 1) for d in c.ints("dim")]


def _complex_to_complex(c: Call) -> Pair:
    z = pair_of(c, c["self"])
    shape = z.re.type.shape
    axes = _axes(c, len(shape))
    factor = _scale(c, c.number("normalization"), [_known(shape[a]) for a in axes])
    sign = -1 if c["forward"] else 1
    return _finished(c, _along(c, Spectrum(z.re, z.im), axes, sign), factor)


def _real_bins(c: Call, x: Spectrum, n: int) -> Spectrum:
    """A real signal's spectrum with +0 for the imaginary parts of bins 0 and n / 2: a product
    leaves -0.0 or a rounding error there, which turns the angle of a negative number."""
    if x.im is None:
        return x
    bins = np.arange(x.length)
    mask = (bins != 0) & (2 * bins != n)
    return Spectrum(x.re, choose(c, c.e.weight(mask), x.im, c.e.scalar(0, x.im.type.dtype)))


def _real_to_complex(c: Call) -> Pair:
    x = c.as_value(c["self"], result_dtype(c))
    shape = x.type.shape
    axes = _axes(c, len(shape))
    factor = _scale(c, c.number("normalization"), [_known(shape[a]) for a in axes])
    start = _moved(c, Spectrum(x, None), axes[-1])
    first = half(c.e, start, -1) if c["onesided"] else transform(c.e, start, -1)
    first = _real_bins(c, first, start.length)
    return _finished(c, _along(c, _moved(c, first, axes[-1]), axes[:-1], -1), factor)


def _complex_to_real(c: Call) -> Value:
    z = pair_of(c, c["self"])
    rank = z.re.type.rank
    axes = _axes(c, rank)
    n = _known(c["last_dim_size"])
    sizes = [n if a == axes[-1] else _known(z.re.type.shape[a]) for a in axes]
    factor = _scale(c, c.number("normalization"), sizes)
    out = _moved(c, _along(c, Spectrum(z.re, z.im), axes[:-1], 1), axes[-1])
    bins = n // 2 + 1
    if out.length != bins:
        raise Refused(f"{out.length} bins for a real signal of length {n}")
    real = _last(c, real_from_half(c.e, out, n, 1), axes[-1])
    return _scaled(c, real, factor)


def _frequencies(half_only: bool) -> Rule:
    """The frequencies of a transform's bins, k / (n d); n is a number, which torch fixes."""

    def rule(c: Call) -> Value:
        n, spacing = int(c.number("n")), float(c.number("d"))
        bins = np.arange(n // 2 + 1) if half_only else np.fft.ifftshift(np.arange(n) - n // 2)
        step = np.asarray(1 / (n * spacing)).astype(c.dtype.numpy)
        return c.e.weight(bins.astype(c.dtype.numpy) * step)

    return rule


COMPLEX: dict[str, Rule] = {
    "_fft_c2c": _complex_to_complex,
    "_fft_r2c": _real_to_complex,
    "_fft_c2r": _complex_to_real,
}

RULES: dict[str, Rule] = {
    "fft_fftfreq": _frequencies(half_only=False),
    "fft_rfftfreq": _frequencies(half_only=True),
}
