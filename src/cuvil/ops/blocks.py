"""Matrix products with weights of a few bits, in blocks that share a scale and a zero point.

Floats accumulate in f32 at least (the reference in f64).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import F32, U8, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import narrow_to, need_float, need_operands, wide
from cuvil.sym.expr import mul

BITS = (2, 4, 8)


def unpack_codes(codes: Array, bits: int) -> Array:
    """u8 [..., b] to u8 [..., b * 8 / bits], each element from the low bits up."""
    shifts = (np.arange(8 // bits) * bits).astype(np.uint8)
    apart = (codes[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return apart.reshape(*codes.shape[:-1], codes.shape[-1] * (8 // bits))


def _infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    name = "matmul_blocks"
    bits, size, inner = attrs["bits"], attrs["size"], attrs["inner"]
    need_operands(types, 4 if attrs.get("zero") is None else 3, name)
    x, codes, *parameters = types
    need_float(x, name)
    if bits not in BITS or size < 1 or size * bits % 8 or inner < 1:
        raise InvalidModelError(f"{name}: {bits} bits in blocks of {size} for {inner} rows")
    if x.rank < 2 or codes.rank != 3 or codes.dtype != U8:
        raise InvalidModelError(f"{name} takes [.., K] and u8 [N, blocks, bytes]: {x}, {codes}")
    ctx.same(x.shape[-1], inner, f"{name}: inner dimension")
    blocks = -(-inner // size)
    ctx.same(codes.shape[1], blocks, f"{name}: blocks")
    ctx.same(codes.shape[2], size * bits // 8, f"{name}: bytes of a block")
    for t in parameters:
        if t.rank != 2 or t.dtype != F32:
            raise InvalidModelError(f"{name}: scales and zero points are f32 [N, blocks], not {t}")
        ctx.same(t.shape[0], codes.shape[0], f"{name}: rows of the weights")
        ctx.same(t.shape[1], blocks, f"{name}: blocks")
    return [TensorType((*x.shape[:-1], codes.shape[0]), x.dtype)]


def block_weights(arrays: Sequence[Array], attrs: Attrs) -> Array:
    """The weights [N, inner] that the blocks stand for, in f64."""
    codes, scales = unpack_codes(np.asarray(arrays[1]), attrs["bits"]), wide(np.asarray(arrays[2]))
    zeros = attrs["zero"] if len(arrays) < 4 else wide(np.asarray(arrays[3]))[..., None]
    real = (codes.astype(np.float64) - zeros) * scales[..., None]
    whole = real.reshape(len(codes), codes.shape[1] * codes.shape[2])
    return np.asarray(whole[:, : attrs["inner"]])


def _reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    with np.errstate(all="ignore"):
        out = np.matmul(wide(np.asarray(arrays[0])), block_weights(arrays, attrs).T)
        return [narrow_to(out, results[0])]


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(mul(results[0].elements, 2 * attrs["inner"]))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.matmul_blocks",
        "contraction",
        _infer,
        _reference,
        (3, 4),
        {"bits": "int", "size": "int", "inner": "int", "zero": "float?"},
        "accumulated",
        _cost,
        doc="x [.., K] times the transpose of weights [N, K] of 2, 4 or 8 bits: u8 codes [N, "
        "blocks, bytes], low bits first, f32 scales [N, blocks] and zero points [N, blocks] (or "
        "one for all, `zero`); K is `inner`, the last block may be longer than what is left of it.",
    ),
]
