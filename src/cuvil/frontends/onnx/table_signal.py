"""Fourier transforms as products with constant matrices, running products."""

from __future__ import annotations

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.formula import Term
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.run_time_axes import along
from cuvil.frontends.sampling import size_term
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I64, DType
from cuvil.sym.expr import Dim, add, floordiv, maximum, minimum, mul

_Waves = tuple[Value, Value]  # cosines and sines


def _waves(n: Node, kind: DType, length: Dim, rows: Dim, columns: Dim, sign: int) -> _Waves:
    """Cosine and sine of sign * 2 pi i k / length, [rows, columns], from exact remainders."""
    e = n.e
    if isinstance(length, int) and isinstance(rows, int) and isinstance(columns, int):
        turns = np.outer(np.arange(rows), np.arange(columns)) % max(length, 1)
        angle = turns * (sign * 2 * np.pi / max(length, 1))
        cos, sin = (e.weight(f(angle).astype(kind.numpy)) for f in (np.cos, np.sin))
        return cos, sin
    i, k = (e.op("iota", shape=(rows, columns), axis=axis, dtype=I64) for axis in (0, 1))
    whole = e.dims([maximum(length, 1)], scalar=True)
    place = Term(e, e.map("mod", e.op("mul", i, k), whole)).cast(F64)
    term = place * (sign * 2 * np.pi) / Term(e, whole).cast(F64)
    return term.map("cos").cast(kind).value, term.map("sin").cast(kind).value


def _transform(n: Node, real: Value, imag: Value | None, waves: _Waves) -> Value:
    """[..., N] times waves [N, bins]: [..., bins, 2], real and imaginary parts."""
    e, (cos, sin) = n.e, waves
    re, im = e.op("matmul", real, cos), e.op("matmul", real, sin)
    if imag is not None:
        re = e.op("sub", re, e.op("matmul", imag, sin))
        im = e.op("add", im, e.op("matmul", imag, cos))
    return e.op("concat", e.unsqueeze(re, -1), e.unsqueeze(im, -1), axis=re.type.rank)


def _parts(n: Node, x: Value) -> tuple[Value, Value | None]:
    """Real and imaginary part of [..., 1] or [..., 2]."""
    e, last = n.e, x.type.rank - 1
    count = n.size(x.type.shape, last, "the number of parts")
    parts = [e.squeeze(e.slice(x, last, i, i + 1), [last]) for i in range(count)]
    if count not in (1, 2):
        raise InvalidModelError(f"{n.op}: the last dimension holds {count} parts, not 1 or 2")
    return parts[0], parts[1] if count == 2 else None


def _fitted(n: Node, x: Value, axis: int, length: Dim) -> Value:
    """Cut or padded with zeros at the end to a length."""
    size = x.type.shape[axis]
    if size == length:
        return x
    kept = n.e.simplify(minimum(size, length))
    hi: list[Dim] = [0] * x.type.rank
    hi[axis] = n.e.simplify(add(length, mul(kept, -1)))
    start, shape = [0] * x.type.rank, list(x.type.shape)
    shape[axis] = kept
    part = n.e.op(
        "slice", x, start=tuple(start), size=tuple(shape), step=(1,) * x.type.rank
    )
    return n.e.op("pad", part, lo=tuple(start), hi=tuple(hi))


def _dft(n: Node) -> Value:
    """DFT-20: exp(-2 pi i k t / N), inverse with + and 1 / N."""
    rank = n[0].type.rank
    if n.version < 20:
        return _dft_along(n, n.axis("axis", 1, rank))
    if not n.has(2):
        return _dft_along(n, rank - 2)
    return along(n, 2, rank, lambda axis: _dft_along(n, axis), rank - 1)


def _dft_along(n: Node, axis: int) -> Value:
    e, x = n.e, n[0]
    rank = x.type.rank
    inverse, onesided = bool(n.integer("inverse", 0)), bool(n.integer("onesided", 0))
    size = x.type.shape[axis]
    length = size
    if n.has(1):
        length = n.sizes(1, "the length")[0]
    elif inverse and onesided:
        length = e.simplify(mul(add(size, -1), 2))
    bins = e.simplify(add(floordiv(length, 2), 1)) if onesided else length
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    moved = e.transpose(x, order)
    moved = _fitted(n, moved, rank - 2, bins if inverse and onesided else length)
    back = [order.index(i) for i in range(rank)]
    real, imag = _parts(n, moved)
    if inverse and onesided:
        return e.transpose(_real_inverse(n, real, imag, bins, length), back)
    waves = _waves(n, x.type.dtype, length, length, bins, 1 if inverse else -1)
    out = Term(e, _transform(n, real, imag, waves))
    if inverse:
        out = out / size_term(e, length, real.type.dtype)
    return e.transpose(out.value, back)


def _real_inverse(n: Node, real: Value, imag: Value | None, bins: Dim, length: Dim) -> Value:
    """The real signal of half a spectrum: bins that stand for two count twice."""
    e, kind = n.e, real.type.dtype
    line = Term(e, e.op("iota", shape=(bins,), axis=0, dtype=I64))
    once = line.equals(0) | (line * 2).equals(size_term(e, length, I64))
    scale = size_term(e, length, kind)
    weight = once.where(1.0 / scale, 2.0 / scale)
    cos, sin = _waves(n, kind, length, bins, length, 1)
    out = e.op("matmul", e.map("mul", real, weight.value), cos)
    if imag is not None:
        out = e.op("sub", out, e.op("matmul", e.map("mul", imag, weight.value), sin))
    return e.unsqueeze(out, -1)


def _stft(n: Node) -> Value:
    """STFT-17: frames of the signal [B, L, 1 or 2], windowed, transformed."""
    e, x = n.e, n[0]
    step = n.sizes(1, "the frame step")[0]
    length = n.sizes(3, "the frame length")[0] if n.has(3) else n[2].type.shape[0]
    for size in (step, length):
        e.context.require(size, ">=", 1, "STFT: frames and their distance are of some size")
    span = add(x.type.shape[1], mul(length, -1))
    e.context.require(span, ">=", 0, "STFT: the signal holds a frame")
    frames: Dim = e.simplify(add(floordiv(span, step), 1))
    shape = (frames, length)
    line = e.op("iota", shape=shape, axis=0, dtype=I64)
    start = e.map("mul", line, e.dims([step], scalar=True))
    index = e.op("add", start, e.op("iota", shape=shape, axis=1, dtype=I64))
    parts = [e.op("gather", v, index, axis=1) if v is not None else None for v in _parts(n, x)]
    if n.has(2):
        parts = [e.map("mul", v, n[2]) if v is not None else None for v in parts]
    bins = e.simplify(add(floordiv(length, 2), 1)) if n.integer("onesided", 1) else length
    real, imag = parts
    assert real is not None
    return _transform(n, real, imag, _waves(n, x.type.dtype, length, length, bins, -1))


def _cumprod(n: Node) -> Value:
    x = n[0]
    return along(n, 1, x.type.rank, lambda axis: _cumprod_along(n, x, axis))


def _cumprod_along(n: Node, x: Value, axis: int) -> Value:
    """Running products in log2(n) steps: each multiplies by the product 1, 2, 4 ... before."""
    e, rank = n.e, x.type.rank
    size = n.size(x.type.shape, axis, "the length along the axis")
    backwards = bool(n.integer("reverse", 0))

    def shifted(v: Value, by: int) -> Value:
        lo, hi = [0] * rank, [0] * rank
        lo[axis], hi[axis] = (-by, by) if backwards else (by, -by)
        return e.op("pad", v, lo=tuple(lo), hi=tuple(hi), mode="constant", value=1.0)

    out = shifted(x, 1) if n.integer("exclusive", 0) and size else x
    by = 1
    while by < size:
        out = e.op("mul", out, shifted(out, by))
        by *= 2
    return out


TABLE: dict[str, Handler] = {
    "DFT": _dft,
    "STFT": _stft,
    "CumProd": _cumprod,
}
