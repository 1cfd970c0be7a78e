"""Complex tensors as pairs of real ones: what rules over them are written with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import F16, F32, F64, DType

_PARTS: dict[torch.dtype, tuple[torch.dtype, DType]] = {
    torch.complex32: (torch.float16, F16),
    torch.complex64: (torch.float32, F32),
    torch.complex128: (torch.float64, F64),
}


@dataclass(frozen=True)
class Pair:
    """The real and the imaginary part, of one shape and dtype."""

    re: Value
    im: Value


@dataclass(frozen=True)
class PartMeta:
    """What a rule may ask of a result's meta, for a part of a complex result."""

    dtype: torch.dtype
    shape: Any

    def dim(self) -> int:
        return len(self.shape)


def is_complex(meta: Any) -> bool:
    """Whether torch's fake tensor or a number (or any of a list) is complex."""
    if isinstance(meta, (list, tuple)):
        return any(is_complex(m) for m in meta)
    if isinstance(meta, complex):
        return True
    return isinstance(meta, torch.Tensor) and meta.dtype in _PARTS


def part_dtype(dtype: torch.dtype) -> DType:
    """The dtype of the parts of a complex dtype, or of the real dtype itself as a float."""
    return _PARTS[dtype][1]


def part_meta(meta: Any) -> Any:
    """The meta of one part; of a real tensor its own."""
    if isinstance(meta, (list, tuple)):
        return [part_meta(m) for m in meta]
    if isinstance(meta, complex) or not is_complex(meta):
        return meta
    return PartMeta(_PARTS[meta.dtype][0], meta.shape)


def result_dtype(c: Call, index: int = 0) -> DType:
    """The dtype of the parts of a result (its own dtype where it is real)."""
    dtype = c.metas[index].dtype
    return part_dtype(dtype) if dtype in _PARTS else c.dtype_of(index)


def pair_of(c: Call, item: Any, dtype: DType | None = None) -> Pair:
    """A tensor or number as a pair with parts of a dtype; the imaginary part of a real is 0."""
    dtype = dtype or result_dtype(c)
    if isinstance(item, Pair):
        return Pair(c.e.cast(item.re, dtype), c.e.cast(item.im, dtype))
    if isinstance(item, complex):
        return Pair(c.e.scalar(item.real, dtype), c.e.scalar(item.imag, dtype))
    real = c.as_value(item, dtype)
    return Pair(real, c.e.broadcast(c.e.scalar(0, dtype), real.type.shape))


@dataclass(frozen=True, eq=False)
class Complex:
    """A pair in a formula."""

    re: Term
    im: Term

    @property
    def pair(self) -> Pair:
        return Pair(self.re.value, self.im.value)

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(
            self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re
        )

    def __truediv__(self, other: Complex) -> Complex:
        """In f64, and scaled by the divisor's larger part, so that squares neither overflow nor
        vanish; infinite parts and a divisor of 0 as C99 has them (G.5.1)."""
        dtype = self.re.dtype
        a, b, c, d = (x.cast(F64) for x in (self.re, self.im, other.re, other.im))
        scale = abs(c).map("max", abs(d))
        scale = (scale.equals(0) | scale.map("isinf")).where(1.0, scale)
        by = Complex(c / scale, d / scale)
        size = by.re * by.re + by.im * by.im
        plain = Complex(a / scale, b / scale)._turned(by)
        re, im = plain.re / size, plain.im / size
        lost = re.map("isnan") & im.map("isnan")
        zero = c.equals(0) & d.equals(0)
        far = c.lift(1.0) / c  # an infinity with the sign of the zero
        grown = self._is_infinite() & _is_finite(c) & _is_finite(d)
        large = Complex(_flag(a), _flag(b))._turned(Complex(c, d))
        shrunk = other._is_infinite() & _is_finite(a) & _is_finite(b)
        small = Complex(a, b)._turned(Complex(_flag(c), _flag(d)))
        for holds, x, y in (
            (zero, far * a, far * b),
            (grown, large.re * math.inf, large.im * math.inf),
            (shrunk, small.re * 0.0, small.im * 0.0),
        ):
            re, im = (lost & holds).where(x, re), (lost & holds).where(y, im)
        return Complex(re.cast(dtype), im.cast(dtype))

    def _turned(self, other: Complex) -> Complex:
        """The product with the conjugate of another."""
        return Complex(
            self.re * other.re + self.im * other.im, self.im * other.re - self.re * other.im
        )

    def _is_infinite(self) -> Term:
        return self.re.map("isinf") | self.im.map("isinf")

    def size(self) -> Term:
        """The absolute value: f64 holds the squares of f32; other floats are scaled first."""
        if self.re.dtype == F32:
            a, b = self.re.cast(F64), self.im.cast(F64)
            return (a * a + b * b).map("sqrt").cast(F32)
        a, b = abs(self.re), abs(self.im)
        top, low = a.map("max", b), a.map("min", b)
        ratio = (top.equals(0) | top.map("isinf")).where(0.0, low / top)
        return top * (1 + ratio * ratio).map("sqrt")

    def angle(self) -> Term:
        return self.im.map("atan2", self.re)


def _flag(part: Term) -> Term:
    """1 or -1 for an infinite part, 0 for others."""
    return part.map("isinf").where(part.map("sign"), 0.0)


def _is_finite(part: Term) -> Term:
    return (part - part).equals(0)


def complex_of(c: Call, item: Any, dtype: DType | None = None) -> Complex:
    """As :func:`pair_of`, for a formula."""
    pair = pair_of(c, item, dtype)
    return Complex(Term(c.e, pair.re), Term(c.e, pair.im))


def partwise(rule: Rule) -> Rule:
    """A rule of real tensors applied to the real and to the imaginary parts: movements and sums."""

    def run(c: Call) -> Any:
        real, imag = rule(_part(c, 0)), rule(_part(c, 1))
        if isinstance(real, (list, tuple)):
            return [_joined(a, b) for a, b in zip(real, imag, strict=True)]
        return _joined(real, imag)

    return run


def _joined(re: Any, im: Any) -> Any:
    return Pair(re, im) if isinstance(re, Value) else None


def _part(c: Call, part: int) -> Call:
    return replace(
        c,
        args={k: _part_of(v, part) for k, v in c.args.items()},
        arg_metas={k: part_meta(v) for k, v in c.arg_metas.items()},
        metas=[part_meta(m) for m in c.metas],
    )


def _part_of(item: Any, part: int) -> Any:
    if isinstance(item, Pair):
        return item.im if part else item.re
    if isinstance(item, complex):
        return item.imag if part else item.real
    if isinstance(item, (list, tuple)):
        return [_part_of(i, part) for i in item]
    return item
