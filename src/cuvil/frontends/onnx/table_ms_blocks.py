"""com.microsoft: weights quantized in blocks: MatMulNBits, MatMulBnb4, GatherBlockQuantized.

Packed bytes hold the low-order element first (MatMulBnb4: the high-order one).
"""

from __future__ import annotations

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_linear
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I32, I64, NARROW_FLOATS, U8, DType
from cuvil.ops.blocks import unpack_codes
from cuvil.sym.expr import Dim, mul

# bitsandbytes' functional.py: the values of FP4 (sign, then e2m1 scaled to 1) and of NF4
# (quantiles of a normal distribution, Dettmers et al. 2023, appendix E).
_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip


def unpacked(n: Node, packed: Value, bits: int) -> Value:
    """u8 [..., b] to u8 [..., b * 8 / bits], each element from the low bits up."""
    if bits == 8:
        return packed
    e, count, shape = n.e, 8 // bits, packed.type.shape
    shifts = e.weight((np.arange(count) * bits).astype(np.uint8))
    apart = e.map("shr", e.unsqueeze(packed, -1), shifts)
    low = e.with_scalar("and", apart, (1 << bits) - 1)
    return e.reshape(low, (*shape[:-1], mul(shape[-1], count)))


def _bits(n: Node) -> int:
    bits = n.integer("bits", 4)
    if bits not in (2, 4, 8):
        raise Refused(f"weights of {bits} bits", "quantize them to 2, 4 or 8 bits")
    return bits


class _NBits:
    """The weights [N, K] of one MatMulNBits node."""

    def __init__(self, n: Node) -> None:
        self.n = n
        self.bits = _bits(n)
        self.rows, self.inner = n.integer("N"), n.integer("K")
        self.size = n.integer("block_size")
        if self.size < 1 or self.rows < 1 or self.inner < 1:
            raise InvalidModelError(f"{n.op}: N, K and block_size must be positive")
        self.blocks = -(-self.inner // self.size)
        if n.integer("weight_prepacked", 0):
            raise Refused("weights packed for one kind of GPU", "save the model unpacked")
        if n.has(4):
            raise Refused("a group index (g_idx)", "quantize without act-order")
        wanted = (self.rows, self.blocks, self.size * self.bits // 8)
        if n[1].type.elements != wanted[0] * wanted[1] * wanted[2]:
            raise InvalidModelError(f"{n.op}: packed weights {n[1].type} are not {wanted}")
        self.packed = wanted

    def weights(self) -> Value:
        """[N, K] in the scales' dtype; a constant where everything it is made of is one."""
        n, e = self.n, self.n.e
        kind = n[2].type.dtype
        codes = e.cast(unpacked(n, e.reshape(n[1], self.packed), self.bits), kind)
        scales = e.reshape(n[2], (self.rows, self.blocks, 1))
        zero = e.scalar(1 << (self.bits - 1), kind)
        real = e.map("mul", e.map("sub", codes, self._zeros(kind) or zero), scales)
        whole = e.reshape(real, (self.rows, self.blocks * self.size))
        out = e.slice(whole, 1, 0, self.inner)
        known = n.knowledge.array(out)
        return out if known is None else e.weight(np.ascontiguousarray(known))

    def _zeros(self, kind: DType) -> Value | None:
        n, e = self.n, self.n.e
        if not n.has(3):
            return None
        zeros = n[3]
        if zeros.type.dtype != U8:
            return e.cast(e.reshape(zeros, (self.rows, self.blocks, 1)), kind)
        width = -(-self.blocks * self.bits // 8)
        codes = unpacked(n, e.reshape(zeros, (self.rows, width)), self.bits)
        return e.cast(e.unsqueeze(e.slice(codes, 1, 0, self.blocks), 2), kind)


    def product(self, a: Value) -> Value:
        """a times their transpose: packed where they are constants, else written out."""
        n, e = self.n, self.n.e
        found = [n.knowledge.array(n[i]) for i in (1, 2, 3) if n.has(i)]
        if a.type.rank < 2 or any(x is None for x in found) or not np.isfinite(found[1]).all():
            weights = e.transpose(self.weights(), (1, 0))
            return table_linear.matmul(n, a, e.cast(weights, a.type.dtype))
        operands = [np.ascontiguousarray(found[0].reshape(self.packed))]
        shape = (self.rows, self.blocks)
        operands.append(np.ascontiguousarray(found[1].astype(np.float32).reshape(shape)))
        if n.has(3):
            zeros = found[2]
            if zeros.dtype == np.uint8:
                zeros = unpack_codes(zeros.reshape(self.rows, -1), self.bits)[:, : self.blocks]
            operands.append(np.ascontiguousarray(zeros.astype(np.float32).reshape(shape)))
        return e.op(
            "matmul_blocks", a, *(e.weight(x) for x in operands), bits=self.bits, size=self.size,
            inner=self.inner, zero=None if n.has(3) else float(1 << (self.bits - 1)),
        )  # fmt: skip


def _matmul_nbits(n: Node) -> Value:
    e, a = n.e, n[0]
    if n[1].type.elements == 0:
        out = e.broadcast(e.scalar(0, a.type.dtype), (*a.type.shape[:-1], n.integer("N")))
    else:
        out = _NBits(n).product(a)
    return e.map("add", out, n[5]) if n.has(5) else out


def _matmul_bnb4(n: Node) -> Value:
    """B [N, K] row by row in blocks of one absmax each; A times its transpose, or B itself."""
    e = n.e
    rows, inner, size = n.integer("N"), n.integer("K"), n.integer("block_size")
    kind = n.integer("quant_type")
    if kind not in (0, 1):
        raise InvalidModelError(f"{n.op}: quant_type {kind} is neither FP4 (0) nor NF4 (1)")
    packed = n.constant(1, "the quantized weights").reshape(-1)
    scales = n.constant(2, "absmax").reshape(-1).astype(np.float32)
    count = rows * inner
    if packed.size != -(-count // 2) or scales.size != -(-count // size):
        raise InvalidModelError(f"{n.op}: {packed.size} bytes for weights [{rows}, {inner}]")
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[:count]
    table = np.array(_NF4 if kind else (*_FP4, *(-x for x in _FP4)), np.float32)
    real = (table[codes] * np.repeat(scales, size)[:count]).reshape(rows, inner)
    weights = e.weight(np.ascontiguousarray(real.T if n.integer("transB", 1) else real))
    return table_linear.matmul(n, n[0], e.cast(weights, n[0].type.dtype))


def _gather_blocks(n: Node) -> Value:
    """Rows of a quantized table, made real after they are gathered; an index outside gives 0.

    A table of floats has no zero points; a block size of 0 is the whole quantized dimension.
    """
    e, data, indices = n.e, n[0], n[1]
    kind, rank = data.type.dtype, data.type.rank
    axis, along = n.axis("gather_axis", 0, rank), n.axis("quantize_axis", 1, rank)
    bits = _bits(n) if kind == U8 else 8
    if axis == along or (bits < 8 and axis == rank - 1):
        raise Refused("gathering along the quantized dimension", "quantize another dimension")
    limit = data.type.shape[axis]
    at = e.cast(indices, I64)
    count = e.dims([limit], scalar=True)
    at = e.map("select", e.with_scalar("lt", at, 0), e.map("add", at, count), at)
    inside = e.map("and", e.with_scalar("ge", at, 0), e.map("lt", at, count))
    at = e.map("select", inside, at, e.scalar(0, I64))
    table = n[2]
    if table.type.shape[axis] == 1:
        spread = [limit if i == axis else d for i, d in enumerate(table.type.shape)]
        table = e.broadcast(table, tuple(spread))
    scales = e.op("gather", table, at, axis=axis)
    codes = unpacked(n, e.op("gather", data, at, axis=axis), bits)
    place = along if along < axis else along + indices.type.rank - 1
    length = codes.type.shape[place]
    size = n.integer("block_size", 128) or n.size(codes.type.shape, place, "a block")
    if kind in NARROW_FLOATS:
        away = e.cast(codes, F32)
    else:
        zero = _zeros(n, at, axis, place, bits, scales.type.shape[place])
        zero = _blocks(n, zero, place, size, length) if zero.type.rank else zero
        away = e.cast(e.map("sub", e.cast(codes, I32), zero), F32)
    real = e.map("mul", away, e.cast(_blocks(n, scales, place, size, length), F32))
    shape = [1] * axis + list(indices.type.shape) + [1] * (rank - axis - 1)
    real = e.map("select", e.reshape(inside, shape), real, e.scalar(0.0, F32))
    return e.cast(real, scales.type.dtype)


def _zeros(n: Node, at: Value, axis: int, place: int, bits: int, blocks: Dim) -> Value:
    """The gathered zero points in i32, or the one that counts without any."""
    e, packed = n.e, n[0].type.dtype == U8
    if not n.has(3):
        return e.scalar(1 << (bits - 1) if packed else 0, I32)
    zeros = unpacked(n, e.op("gather", n[3], at, axis=axis), bits)
    return e.cast(e.slice(zeros, place, 0, blocks), I32)


def _blocks(n: Node, x: Value, axis: int, size: int, length: Dim) -> Value:
    """One value a block repeated over the block's elements."""
    e, shape = n.e, x.type.shape
    apart = e.broadcast(e.unsqueeze(x, axis + 1), (*shape[: axis + 1], size, *shape[axis + 1 :]))
    whole = e.reshape(apart, (*shape[:axis], mul(shape[axis], size), *shape[axis + 1 :]))
    return e.slice(whole, axis, 0, length)


TABLE: dict[str, Handler] = {
    "MatMulNBits": _matmul_nbits,
    "MatMulBnb4": _matmul_bnb4,
    "GatherBlockQuantized": _gather_blocks,
}
