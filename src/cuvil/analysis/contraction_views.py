"""How the operands of a contraction lie in memory: what fusion may pass as a view, and what the
kernel call is then given. Selection and execution read this one table."""

from __future__ import annotations

from dataclasses import dataclass

from cuvil.analysis.index_map import View, merge_dims, row_major, trace_view
from cuvil.ir.core import Block, Op, Value
from cuvil.ir.types import BF16, BOOL, F32, I8, I32, U8, DType
from cuvil.sym.expr import Dim, product
from cuvil.sym.facts import Facts


@dataclass(frozen=True)
class MatmulForm:
    """One gemm call: ``batch`` products of [m, k] by [k, n]; strides in elements.

    ``shared`` says that b is one matrix for all rows, so that the batch is part of m.
    """

    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    a: View
    a_batch: Dim
    a_row: Dim
    a_col: Dim
    b: View
    b_batch: Dim
    b_row: Dim
    b_col: Dim
    shared: bool


def matmul_form(op: Op, facts: Facts) -> MatmulForm | None:
    """The gemm call for a matmul, or None where an operand must be copied first."""
    a = trace_view(op.operands[0], facts)
    b = trace_view(op.operands[1], facts)
    if a is None or b is None:
        return None
    a_row, a_col = a.strides[-2:]
    if op.attrs.get("trans_a"):
        a_row, a_col = a_col, a_row
    b_row, b_col = b.strides[-2:]
    if op.attrs.get("trans_b"):
        b_row, b_col = b_col, b_row
    m, n = op.type.shape[-2:]
    k = op.operands[0].type.shape[-2 if op.attrs.get("trans_a") else -1]
    lead = op.type.shape[:-2]
    if all(s == 0 for s in b.strides[:-2]):
        rows = merge_dims([*a.shape[:-2], m], [*a.strides[:-2], a_row])
        if rows is not None:
            total = product([*lead, m])
            return MatmulForm(
                1, total, n, k, a, 0, rows[1], a_col, b, 0, b_row, b_col, True
            )
    a_lead = merge_dims(a.shape[:-2], a.strides[:-2])
    b_lead = merge_dims(b.shape[:-2], b.strides[:-2])
    if a_lead is None or b_lead is None:
        return None
    a_batch = a_lead[1] if op.operands[0].type.rank > 2 else 0
    b_batch = b_lead[1] if op.operands[1].type.rank > 2 else 0
    return MatmulForm(
        product(lead), m, n, k, a, a_batch, a_row, a_col, b, b_batch, b_row, b_col, False
    )


def blocks_form(op: Op, facts: Facts) -> tuple[View, Dim, Dim] | None:
    """(view, rows, stride of a row) of a matmul_blocks' left operand, or None where it must be
    copied first."""
    view = trace_view(op.operands[0], facts)
    if view is None or (view.strides[-1] != 1 and view.shape[-1] != 1):
        return None
    rows = merge_dims(view.shape[:-1], view.strides[:-1])
    return None if rows is None else (view, product(view.shape[:-1]), rows[1])


def is_contiguous(view: View) -> bool:
    """Row-major without gaps, from the start of its base."""
    if view.offset != 0:
        return False
    wanted = row_major(view.shape)
    return all(d == 1 or s == w for d, s, w in zip(view.shape, view.strides, wanted, strict=True))


def attention_views(op: Op, facts: Facts) -> list[View] | None:
    """Views of q, k, v and the mask, or None where one must be copied first."""
    views = []
    for index, value in enumerate(op.operands):
        view = trace_view(value, facts)
        if view is None:
            return None
        if index < 3 and view.strides[3] != 1 and view.shape[3] != 1:
            return None
        views.append(view)
    return views


def operand_fits(op: Op, index: int, facts: Facts) -> bool:
    """Whether operand ``index`` of a contraction can be read through its movements in place."""
    value = op.operands[index]
    view = trace_view(value, facts)
    if view is None:
        return False
    if op.short == "matmul":
        return _matmul_operand_fits(op, index, view, value)
    if op.short == "matmul_blocks" and index == 0:
        return blocks_form(op, facts) is not None
    if op.short == "attention":
        return index == 3 or view.strides[3] == 1 or view.shape[3] == 1
    return is_contiguous(view)


def _matmul_operand_fits(op: Op, index: int, view: View, value: Value) -> bool:
    by_rows = index == 0 and (is_byte_product(op) or is_pair_product(op))
    if by_rows and (op.attrs.get("trans_a") or not _has_contiguous_rows(view)):
        return False
    lead = merge_dims(view.shape[:-2], view.strides[:-2])
    if lead is None:
        return False
    if index == 0 and value.type.rank > 2 and op.operands[1].type.rank == 2:
        rows = view.strides[-2] if not op.attrs.get("trans_a") else view.strides[-1]
        size = view.shape[-2] if not op.attrs.get("trans_a") else view.shape[-1]
        return merge_dims([*view.shape[:-2], size], [*view.strides[:-2], rows]) is not None
    return True


def _has_contiguous_rows(view: View) -> bool:
    return view.strides[-1] == 1 or view.shape[-1] == 1


NATIVE_RANK = {"conv": 5, "conv_transpose": 4}
"""The highest rank whose convolutions have a native kernel."""
_PAIRED = {"matmul": -2, "conv": 1, "conv_transpose": 0}
"""The axis of the weights that is summed over."""
BYTES = "bytes"
"""The algorithm of convolutions of bytes that a target has a kernel for (passes/codes.py)."""


def has_kernel(op: Op) -> bool:
    """Whether this contraction has a native kernel (others are written as plain loops)."""
    if op.short == "matmul":
        if is_byte_product(op) or is_pair_product(op):
            return True
        return all(t == F32 for t in (op.type.dtype, *_dtypes(op)))
    if op.short == "attention":
        return all(v.type.dtype == F32 for v in op.operands[:3]) and (
            len(op.operands) < 4 or op.operands[3].type.dtype in (F32, BOOL)
        )
    if op.short == "matmul_blocks":
        return op.type.dtype == F32 and all(_is_constant(v) for v in op.operands[1:])
    if op.attrs.get("algorithm") == BYTES:
        return True
    if op.short in ("conv", "conv_transpose"):
        last = op.type.rank <= NATIVE_RANK[op.short] and bool(op.attrs.get("channels_last"))
        fits = reads_pairs(op) or is_filtered_bf16(op) or op.operands[0].type.dtype == F32
        return last and fits and op.type.dtype == F32 and _is_constant(op.operands[1])
    return False


def _dtypes(op: Op) -> list[DType]:
    return [v.type.dtype for v in op.operands]


def is_byte_product(op: Op) -> bool:
    """Whether this matmul is one of native/gemm_i8.hpp: bytes by constant i8, summed in i32."""
    a, b = _dtypes(op)
    known = op.short == "matmul" and op.type.dtype == I32 and a in (U8, I8) and b == I8
    turned = op.attrs.get("trans_a") or op.attrs.get("trans_b")
    return known and not turned and _is_constant(op.operands[1])


def is_pair_product(op: Op) -> bool:
    """Whether this matmul or convolution is one of native/gemm_bf16.hpp, conv_bf16.hpp or
    conv_transpose_bf16.hpp: bf16 by constant bf16 in pairs, summed in f32."""
    a, b = (v.type for v in op.operands[:2])
    known = op.short in _PAIRED and op.type.dtype == F32 and a.dtype == b.dtype == BF16
    if not known or op.attrs.get("trans_a") or op.attrs.get("trans_b"):
        return False
    depth = b.shape[_PAIRED[op.short]]
    groups = op.attrs["groups"] if op.short == "conv_transpose" else 1
    return isinstance(depth, int) and depth % (2 * groups) == 0 and _is_constant(op.operands[1])


def is_filtered_bf16(op: Op) -> bool:
    """Whether this is a convolution of native/winograd_bf16.hpp: bf16 by constant f32."""
    known = op.short == "conv" and op.attrs.get("algorithm") is not None
    return known and _dtypes(op)[:2] == [BF16, F32]


PAIR_CHANNELS = 32
"""The fewest channels for which native/depthwise_bf16.hpp has a kernel on every machine."""


def is_depthwise(op: Op) -> bool:
    """Whether it is a convolution with the channels last and one filter a channel."""
    if op.short != "conv" or not op.attrs.get("channels_last"):
        return False
    groups, channels = op.attrs["groups"], op.operands[0].type.shape[-1]
    return bool(groups > 1 and groups == channels == op.type.shape[-1])


def against_pair_depthwise(op: Op) -> str:
    """Why native/depthwise_bf16.hpp has no kernel for such a depthwise convolution, but for its
    dtypes; empty if it has."""
    if op.type.rank != 4 or op.operands[1].type.shape[2:] not in ((3, 3), (5, 5)):
        return "its window is not 3x3 or 5x5"
    if op.attrs["strides"][1] not in (1, 2) or set(op.attrs["dilations"]) != {1}:
        return "its strides are not 1 or 2, or it has dilations"
    groups = op.attrs["groups"]
    if groups % 2 or groups < PAIR_CHANNELS:
        return f"its channels are odd in number, or fewer than {PAIR_CHANNELS}"
    return ""


def is_pair_depthwise(op: Op) -> bool:
    """Whether this convolution is one of native/depthwise_bf16.hpp: bf16 by constant f32, each
    channel by its own filter, summed in f32."""
    if op.short != "conv" or op.type.dtype != F32 or _dtypes(op)[:2] != [BF16, F32]:
        return False
    return is_depthwise(op) and not against_pair_depthwise(op) and _is_constant(op.operands[1])


def reads_pairs(op: Op) -> bool:
    """Whether it has a native kernel that reads pairs of bf16 and sums in f32."""
    return is_pair_product(op) or is_pair_depthwise(op)


def _is_constant(value: Value) -> bool:
    """Whether a value is a constant, also where it is an argument of a fused region."""
    while isinstance(value.owner, Block) and isinstance(value.owner.parent, Op):
        value = value.owner.parent.operands[value.index]
    return value.op is not None and value.op.short == "constant"
