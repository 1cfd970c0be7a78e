"""Matrix products, convolutions and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.codes import conv_of_codes, linear_of_codes
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F64, Shape
from cuvil.sym.expr import Dim, mul


def matmul(c: Call, a: Value, b: Value, *, trans_b: bool = False) -> Value:
    """A product by torch.matmul's rules: vectors, matrices, and batches that broadcast."""
    e = c.e
    left, right = a.type.rank == 1, b.type.rank == 1
    if left:
        a = e.unsqueeze(a, 0)
    if right:
        b, trans_b = e.unsqueeze(b, 1), False
    if a.type.rank > 2 and b.type.rank > 2:
        batch = e.context.broadcast([a.type.shape[:-2], b.type.shape[:-2]], "matmul: batch")
        a = e.broadcast(a, (*batch, *a.type.shape[-2:]))
        b = e.broadcast(b, (*batch, *b.type.shape[-2:]))
    out = e.op("matmul", a, b, trans_b=trans_b or None)
    shape = list(out.type.shape)
    if right:
        shape.pop(-1)
    if left:
        shape.pop(-1 if right else -2)
    return e.reshape(out, shape)


def _matmul(c: Call) -> Value:
    a, b = list(c.args.values())[:2]
    return matmul(c, c.as_value(a, c.dtype), c.as_value(b, c.dtype))


def _linear(c: Call) -> Value:
    of_codes = linear_of_codes(c)
    if of_codes is not None:
        return of_codes
    out = matmul(c, c.tensor("input"), c.tensor("weight"), trans_b=True)
    bias = c.tensor_or_none("bias")
    return out if bias is None else c.e.map("add", out, bias)


def _scaled(c: Call, value: Value, factor: object) -> Value:
    return value if factor == 1 else c.e.map("mul", value, c.as_value(factor, value.type.dtype))


def _add_matmul(first: str, second: str) -> Rule:
    """beta * self + alpha * (first @ second); self is left out where beta is 0, as torch has it
    (its NaNs don't propagate then)."""

    def rule(c: Call) -> Value:
        out = matmul(c, c.tensor(first), c.tensor(second))
        out = _scaled(c, out, c.get("alpha", 1))
        beta = c.get("beta", 1)
        return out if beta == 0 else c.e.map("add", _scaled(c, c.tensor("self"), beta), out)

    return rule


def _addbmm(c: Call) -> Value:
    """beta * self + alpha * the sum of all batches' products."""
    products = matmul(c, c.tensor("batch1"), c.tensor("batch2"))
    out = _scaled(c, c.e.op("reduce_sum", products, axes=(0,), keepdims=False), c.get("alpha", 1))
    beta = c.get("beta", 1)
    kept = c.e.broadcast(out, c.shape)
    return kept if beta == 0 else c.e.map("add", _scaled(c, c.tensor("self"), beta), out)


def _addr(c: Call) -> Value:
    """beta * self + alpha * outer; bools by and and or."""
    out, alpha, beta = _product(c, "vec1", "vec2"), c.get("alpha", 1), c.get("beta", 1)
    if c.dtype == BOOL:
        no = c.e.scalar(False, BOOL)
        kept = c.e.cast(c.tensor("self"), BOOL) if beta else no
        return c.e.map("or", kept, out if alpha else c.e.broadcast(no, out.type.shape))
    out = _scaled(c, out, alpha)
    return out if beta == 0 else c.e.map("add", _scaled(c, c.tensor("self"), beta), out)


def _product(c: Call, first: str, second: str) -> Value:
    a, b = (c.as_value(c[n], c.dtype) for n in (first, second))
    name = "and" if c.dtype == BOOL else "mul"
    return c.e.map(name, c.e.unsqueeze(a, 1), c.e.unsqueeze(b, 0))


def _outer(c: Call) -> Value:
    return _product(c, *list(c.args)[:2])


def per_axis(values: Sequence[int], spatial: int) -> tuple[int, ...]:
    """One entry a spatial dimension; a single one counts for all."""
    return tuple(values) * spatial if len(values) == 1 else tuple(values)


def _same_padding(c: Call, kernel: Shape, dilations: Sequence[int]) -> list[tuple[int, int]]:
    """padding='same': the total is dilation * (k - 1), the odd one at the end."""
    pads = []
    for k, dilation in zip(kernel, dilations, strict=True):
        if not isinstance(k, int):
            raise Refused("padding='same' needs a kernel of known size")
        total = dilation * (k - 1)
        pads.append((total // 2, total - total // 2))
    return pads


def _conv(c: Call) -> Value:
    """conv1d, conv2d, conv3d and convolution, with or without a batch dimension."""
    x, w = c.tensor("input"), c.tensor("weight")
    spatial = w.type.rank - 2
    single = x.type.rank == w.type.rank - 1
    if single:
        x = c.e.unsqueeze(x, 0)
    dilations = per_axis(c.ints("dilation"), spatial)
    padding = c["padding"]
    if padding == "same":
        pads = _same_padding(c, w.type.shape[2:], dilations)
    else:
        sizes = [0] * spatial if padding == "valid" else per_axis(c.ints("padding"), spatial)
        pads = [(p, p) for p in sizes]
    bias = c.tensor_or_none("bias")
    attrs = {
        "strides": per_axis(c.ints("stride"), spatial),
        "pads_lo": tuple(lo for lo, _ in pads),
        "pads_hi": tuple(hi for _, hi in pads),
        "dilations": dilations,
        "groups": c["groups"],
        "has_bias": bias is not None,
    }
    operands = [x, w] if bias is None else [x, w, bias]
    if c.get("transposed", False) or c.name.startswith("conv_transpose"):
        attrs["output_padding"] = per_axis(c.ints("output_padding"), spatial)
        out = c.e.op("conv_transpose", *operands, **attrs)
    else:
        of_codes = conv_of_codes(c, x, attrs)
        out = c.e.op("conv", *operands, **attrs) if of_codes is None else of_codes
    return c.e.squeeze(out, [0]) if single else out


def _attention(c: Call) -> Value:
    q, k, v = c.tensor("query"), c.tensor("key"), c.tensor("value")
    if c.get("dropout_p", 0.0) > 0:
        raise Refused("dropout in attention draws random numbers")
    return attention(c, q, k, v, c.tensor_or_none("attn_mask"), bool(c.get("is_causal", False)))


def attention(c: Call, q: Value, k: Value, v: Value, mask: Value | None, causal: bool) -> Value:
    """Scaled dot-product attention over [..., heads, length, size], folded to rank 4."""
    e = c.e
    scale = c.args.get("scale")
    if scale is None:
        size = q.type.shape[-1]
        if isinstance(size, int):
            scale = 1 / math.sqrt(size) if size else 1.0
        else:
            scale = e.op("rsqrt", c.as_value(size, F64))
    if not isinstance(scale, (int, float)):
        q, scale = e.map("mul", q, c.as_value(scale, q.type.dtype)), 1.0
    rank = q.type.rank
    if rank < 2:
        raise Refused("attention of vectors")
    batch = _batch(c, q, k, v) if rank > 4 or not _aligned(q, k, v) else None
    if batch is not None:
        q, k, v = (e.broadcast(x, (*batch, *x.type.shape[-2:])) for x in (q, k, v))
        rank = q.type.rank
    q, k, v = (_to_rank_4(c, x) for x in (q, k, v))
    operands = [q, k, v]
    if mask is not None:
        operands.append(_mask(c, mask, rank, batch))
    out = e.op("attention", *operands, scale=float(scale), causal=causal, has_mask=mask is not None)
    lead = out.type.shape[:2] if batch is None else batch
    shape = (*lead, *out.type.shape[2:])
    return e.reshape(out, shape[len(shape) - rank :])


def _aligned(q: Value, k: Value, v: Value) -> bool:
    """Whether the batch is one, and the heads are equal or (grouped) known multiples."""
    if q.type.rank != k.type.rank or k.type.rank != v.type.rank:
        return False
    if q.type.rank < 4:
        return q.type.shape[:-2] == k.type.shape[:-2] == v.type.shape[:-2]
    same = q.type.shape[:-3] == k.type.shape[:-3] == v.type.shape[:-3]
    heads, shared = q.type.shape[-3], k.type.shape[-3]
    grouped = isinstance(heads, int) and isinstance(shared, int) and shared > 0
    return (
        same
        and shared == v.type.shape[-3]
        and (heads == shared or (grouped and heads % shared == 0))
    )


def _batch(c: Call, q: Value, k: Value, v: Value) -> Shape:
    return c.e.context.broadcast([x.type.shape[:-2] for x in (q, k, v)], "attention: batch")


def _to_rank_4(c: Call, x: Value) -> Value:
    shape = x.type.shape
    if x.type.rank < 4:
        return c.e.reshape(x, (1,) * (4 - x.type.rank) + shape)
    lead: Dim = 1
    for d in shape[:-3]:
        lead = mul(lead, d)
    return c.e.reshape(x, (lead, *shape[-3:]))


def _mask(c: Call, mask: Value, rank: int, batch: Shape | None) -> Value:
    """The mask as the op wants it: rank 4 at most, broadcast over folded batch dims."""
    if not mask.type.dtype.is_float and mask.type.dtype.name != "bool":
        raise Refused(f"an attention mask of {mask.type.dtype}")
    if rank <= 4 or batch is None:
        return mask
    full = c.e.broadcast(mask, (*batch, *mask.type.shape[-2:]))
    return _to_rank_4(c, full)


def _flash_attention(c: Call) -> list[Value | None]:
    """The CPU kernel that scaled_dot_product_attention decomposes to."""
    q, k, v = c.tensor("query"), c.tensor("key"), c.tensor("value")
    mask = c.tensor_or_none("attn_mask")
    out = attention(c, q, k, v, mask, bool(c.get("is_causal", False)))
    return [out] + [None] * (len(c.metas) - 1)


def _trilinear(c: Call) -> Value:
    """Products of three tensors after inserting dimensions, summed over some."""
    factors = []
    for i in (1, 2, 3):
        x = c.as_value(c[f"i{i}"], c.dtype)
        for axis in sorted(c.ints(f"expand{i}")):
            x = c.e.unsqueeze(x, axis)
        factors.append(x)
    out = c.e.map("mul", c.e.map("mul", factors[0], factors[1]), factors[2])
    return c.e.op("reduce_sum", out, axes=tuple(c.ints("sumdim")), keepdims=False)


def _cross(c: Call) -> Value:
    """The cross product of 3-vectors along an axis."""
    a, b = (c.as_value(v, c.dtype) for v in list(c.args.values())[:2])
    shape = c.shape
    a, b = c.e.broadcast(a, shape), c.e.broadcast(b, shape)
    axis = c.get("dim", -1) % len(shape)
    if shape[axis] != 3:
        raise Refused("cross needs an axis of size 3")

    def turned(x: Value, by: int) -> Value:
        head = c.e.slice(x, axis, by, 3)
        return c.e.op("concat", head, c.e.slice(x, axis, 0, by), axis=axis)

    left = c.e.op("mul", turned(a, 1), turned(b, 2))
    return c.e.op("sub", left, c.e.op("mul", turned(a, 2), turned(b, 1)))


RULES: dict[str, Rule] = {
    "linear": _linear,
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul,
    "vdot": _matmul,
    "addmm": _add_matmul("mat1", "mat2"),
    "addmv": _add_matmul("mat", "vec"),
    "baddbmm": _add_matmul("batch1", "batch2"),
    "addbmm": _addbmm, "addr": _addr,
    "outer": _outer, "ger": _outer,
    "conv1d": _conv, "conv2d": _conv, "conv3d": _conv, "convolution": _conv,
    "_convolution": _conv, "conv_transpose1d": _conv, "conv_transpose2d": _conv,
    "conv_transpose3d": _conv,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _flash_attention,
    "_trilinear": _trilinear,
    "linalg_cross": _cross,
}  # fmt: skip
