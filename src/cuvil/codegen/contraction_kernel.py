"""Kernels of contractions: a native template, with everything after it done on finished tiles."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.analysis.contraction_views import (
    MatmulForm,
    attention_views,
    blocks_form,
    has_kernel,
    is_byte_product,
    is_depthwise,
    is_filtered_bf16,
    is_pair_product,
    matmul_form,
    reads_pairs,
)
from cuvil.analysis.index_map import View, trace_view
from cuvil.codegen.chain_kernel import chain_kernel
from cuvil.codegen.contraction_call import Call
from cuvil.codegen.finish import Finish, direct_output, finish_of, set_finish
from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.codegen.native_scratch import (
    amx_scratch,
    attention_scratch,
    attention_unit_scratch,
    conv_scratch,
    conv_transpose_scratch,
    depthwise_scratch,
    winograd_scratch,
)
from cuvil.errors import CuvilError, UnsupportedNode, UnsupportedOpError
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BOOL, I8
from cuvil.passes.algorithms import winograd_group
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul, product, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_FINISHING = ("ConvArgs", "DepthwiseArgs")
_DEPTHWISE = {"depthwise": "depthwise_conv_f32", "depthwise_bf16": "depthwise_conv_bf16"}
ATTENTION_BLOCK = 384
"""Keys between two rescalings (attention.hpp)."""


def contraction_kernel(op: Op, facts: Facts, target: Target) -> Kernel:
    """The kernel of a fused op of kind "contraction". Raises UnsupportedOpError for one whose
    dtype, rank or layout no native template has."""
    block = op.regions[0]
    mains = [o for o in block.ops if o.short in _BUILDERS]
    for main in mains:
        if not has_kernel(main):
            node = UnsupportedNode(main.name, str(main.type.dtype), str(main.loc), "no kernel")
            raise UnsupportedOpError([node], stage="codegen")
    if len(mains) > 1:
        return chain_kernel(op, mains, facts, target)
    return _BUILDERS[mains[0].short](op, mains[0], facts, target)


def packed_size(k: Dim, n: Dim, nr: int) -> Dim:
    """Floats in the packed form of one [k, n] matrix."""
    return mul(mul(floordiv(add(n, nr - 1), nr), nr), k)


def _matmul(op: Op, main: Op, facts: Facts, target: Target) -> Kernel:
    form = matmul_form(main, facts)
    if form is None:
        raise CuvilError("matmul operands should have been materialised", where=str(main.loc))
    call = Call(op, main, facts)
    for name in ("batch", "m", "n", "k", "a_batch", "a_row"):
        call.set(name, getattr(form, name))
    call.set("a", call.pointer(form.a))
    if is_byte_product(main):
        return _byte_matmul(call, form, target)
    if is_pair_product(main):
        return _pair_matmul(call, form, target)
    call.set("a_col", form.a_col)
    _right_operand(call, form, target)
    _matmul_result(call, form)
    stride = mul(add(floordiv(add(form.k, 15), 16), 1), 16 * 4 * target.mr)
    offset = call.kernel.scratch or 0
    name = call.scratch(mul(symbol(THREADS), stride))
    call.set("scratch", name if offset == 0 else f"{name} + {call.writer.text(offset)}")
    _cutting(call)
    return call.finish("GemmArgs", "gemm_f32", "gemm.hpp")


def _cutting(call: Call) -> None:
    call.tuned("panel_bytes", "cutting.panel_bytes")
    call.tuned("row_limit", "cutting.row_limit")


def _matmul_result(call: Call, form: MatmulForm) -> None:
    shape = call.main.type.shape
    finish = finish_of(call.op, call.main)
    if finish is not None or call.plain():
        finish = finish or Finish()
        call.set("c", direct_output(call, finish))
        call.set("c_batch", mul(form.m, form.n))
        call.set("c_row", form.n)
        set_finish(call, finish)
    elif form.shared:
        call.epilogue(shape[:-1], form.n)
    else:
        call.epilogue((form.m,), form.n, shape[:-2])


def _byte_matmul(call: Call, form: MatmulForm, target: Target) -> Kernel:
    signed = form.a.base.type.dtype == I8
    call.set("a_signed", "true" if signed else "false")
    offset = 0 if signed == target.signed_bytes else 128 if target.signed_bytes else -128
    call.set("b", call.constant(form.b.base, f"gemm_i8:{target.nr}:{offset}"))
    panels = mul(floordiv(add(form.n, target.nr - 1), target.nr), target.nr)
    size = mul(panels, add(floordiv(add(form.k, 3), 4), 1))
    call.set("b_batch", 0 if form.b_batch == 0 else size)
    _matmul_result(call, form)
    return call.finish("GemmI8Args", "gemm_i8", "gemm_i8.hpp")


def _pair_matmul(call: Call, form: MatmulForm, target: Target) -> Kernel:
    call.set("b", call.constant(form.b.base, f"gemm_bf16:{target.nr}"))
    size = packed_size(floordiv(form.k, 2), form.n, target.nr)
    call.set("b_batch", 0 if form.b_batch == 0 else size)
    _matmul_result(call, form)
    _copied_rows(call, floordiv(form.k, 2), target)
    return call.finish("GemmBf16Args", "gemm_bf16", "gemm_bf16.hpp")


def _copied_rows(call: Call, pairs: Dim, target: Target) -> None:
    """Room for a matrix unit's copies of rows of that many pairs."""
    assert isinstance(pairs, int)
    if target.multiplies_tiles:
        offset = call.kernel.scratch or 0
        name = call.scratch(amx_scratch(pairs))
        call.set("copies", name if offset == 0 else f"{name} + {call.writer.text(offset)}")


def _block_matmul(op: Op, main: Op, facts: Facts, target: Target) -> Kernel:
    form = blocks_form(main, facts)
    if form is None:
        raise CuvilError("the left operand should have been materialised", where=str(main.loc))
    view, rows, stride = form
    call = Call(op, main, facts)
    attrs, (columns, inner) = main.attrs, (main.type.shape[-1], main.attrs["inner"])
    for name, value in (("m", rows), ("n", columns), ("k", inner), ("a_row", stride)):
        call.set(name, value)
    call.set("size", attrs["size"])
    call.set("bits", attrs["bits"])
    call.set("a", call.pointer(view))
    call.set("codes", call.constant(main.operands[1], f"block_codes:{target.nr}"))
    call.set("scales", call.constant(main.operands[2], f"block_values:{target.nr}"))
    if len(main.operands) > 3:
        call.set("zeros", call.constant(main.operands[3], f"block_values:{target.nr}"))
    else:
        call.set("zero", f"{float(attrs['zero'])!r}f")
    if call.plain():
        call.set("c", call.names[0])
        call.set("c_row", columns)
    else:
        call.epilogue(main.type.shape[:-1], columns)
    call.set("scratch", call.scratch(mul(symbol(THREADS), inner * target.nr * 4)))
    return call.finish("GemmBlocksArgs", "gemm_blocks", "gemm_blocks.hpp")


def _right_operand(call: Call, form: MatmulForm, target: Target) -> None:
    base = form.b.base
    if is_constant_operand(call.op, base) and form.b.offset == 0 and form.b_col == 1:
        call.set("b", call.constant(base, f"gemm:{target.nr}"))
        call.set("constant_b", "true")
        size = packed_size(form.k, form.n, target.nr)
        call.set("b_batch", 0 if form.b_batch == 0 else size)
        return
    size = packed_size(form.k, form.n, target.nr)
    aligned = mul(floordiv(add(size, 15), 16), 16)
    count: Dim = 1 if form.b_batch == 0 else form.batch
    packed = call.scratch(mul(mul(aligned, count), 4))
    text = call.writer.text
    call.lines.append(f"  float* packed = (float*){packed};")
    call.lines.append(f"  for (int64_t i = 0; i < {text(count)}; ++i)")
    call.lines.append(
        f"    cuvil::pack_b_f32(packed + i * {text(aligned)}, {call.pointer(form.b)} + "
        f"i * {text(form.b_batch)}, {text(form.k)}, {text(form.n)}, {text(form.b_row)}, "
        f"{text(form.b_col)});"
    )
    call.set("b", "packed")
    call.set("b_batch", 0 if count == 1 else aligned)


def is_constant_operand(op: Op, argument: Value) -> bool:
    """Whether a region's argument stands for a constant of the block outside."""
    if argument.op is not None:
        return False
    source = op.operands[argument.index].op
    return source is not None and source.short == "constant"


def _window(main: Op, x: Value, axes: str) -> dict[str, Dim]:
    """Sizes of a channels-last convolution as the native structs name them.

    ``axes`` are the letters of the spatial dimensions that the struct has, of which the
    convolution has the last ones; the rest have size 1.
    """
    spatial = x.type.rank - 2
    missing = len(axes) - spatial

    def filled(values: Sequence[Dim], unused: Dim = 1) -> dict[str, Dim]:
        return dict(zip(axes, (*(unused,) * missing, *values), strict=True))

    families = {
        "": filled(x.type.shape[1:-1]),
        "o": filled(main.type.shape[1:-1]),
        "k": filled(main.operands[1].type.shape[2:]),
        "s": filled(main.attrs["strides"]),
        "d": filled(main.attrs["dilations"]),
        "p": filled(main.attrs["pads_lo"], 0),
    }
    sizes: dict[str, Dim] = {"n": x.type.shape[0], "c": x.type.shape[-1]}
    for prefix, values in families.items():
        sizes.update({prefix + axis: value for axis, value in values.items()})
    return sizes


def _winograd(op: Op, main: Op, facts: Facts, target: Target) -> Kernel:
    call = Call(op, main, facts)
    x, weight = main.operands[0], main.operands[1]
    view = trace_view(x, facts)
    assert view is not None
    sizes = _window(main, x, "hw")
    for name in ("n", "h", "w", "c", "oh", "ow", "ph", "pw"):
        call.set(name, sizes[name])
    call.set("oc", main.type.shape[-1])
    call.set("x", call.pointer(view))
    m = int(main.attrs["algorithm"].removeprefix("winograd_"))
    channels = sizes["c"]
    assert isinstance(channels, int)
    narrow = is_filtered_bf16(main)
    pairs = narrow and m == 2
    packing = "winograd_bf16" if pairs else "winograd"
    call.set("w_packed", call.constant(weight, f"{packing}:{m}:{target.nr}"))
    steps = (channels + 1) // 2 if pairs else channels
    group = call.tuned("group")
    if target.variants and not group:  # one size for all of them, as scratch memory is
        group = winograd_group(m, steps, target)
        call.set("group", group)
    call.set("scratch", call.scratch(winograd_scratch(m, steps, target, group)))
    if call.plain():
        call.set("y", call.names[0])
    else:
        call.epilogue(main.type.shape[:-1], main.type.shape[-1])
    if narrow:
        return call.finish("WinogradArgs", f"winograd_{m}_bf16", "winograd_bf16.hpp")
    return call.finish("WinogradArgs", f"winograd_{m}_f32", "winograd.hpp")


def _conv(op: Op, main: Op, facts: Facts, target: Target) -> Kernel:
    if main.attrs.get("algorithm"):
        return _winograd(op, main, facts, target)
    call = Call(op, main, facts)
    x, weight = main.operands[0], main.operands[1]
    view = trace_view(x, facts)
    assert view is not None
    transposed = main.short == "conv_transpose"
    sizes = _window(main, x, "hw" if transposed else "dhw")
    groups = main.attrs["groups"]
    channels, out_channels = sizes["c"], main.type.shape[-1]
    depthwise = is_depthwise(main)
    pairs = reads_pairs(main)
    if pairs:
        assert isinstance(channels, int)
        channels = sizes["c"] = channels // 2
    for name, value in sizes.items():
        call.set(name, value)
    call.set("x", f"(const float*)({call.pointer(view)})" if pairs else call.pointer(view))
    taps = product([sizes[k] for k in ("kd", "kh", "kw") if k in sizes])
    assert isinstance(channels, int) and isinstance(taps, int) and isinstance(sizes["kw"], int)
    if depthwise:
        kind = "depthwise_bf16" if pairs else "depthwise"
        call.set("w_packed", call.constant(weight, kind))
        scratch = depthwise_scratch(taps, channels, pairs)
        names = ("DepthwiseArgs", _DEPTHWISE[kind], f"{kind}.hpp")
    else:
        call.set("oc", out_channels)
        call.set("groups", groups)
        each = channels // groups
        if transposed:
            strides = f"{main.attrs['strides']}:{main.attrs['dilations']}"
            kind = "conv_transpose_bf16" if pairs else "conv_transpose"
            packing = f"{kind}:{groups}:{target.nr}:{strides}"
            scratch = conv_transpose_scratch(taps, each, target.mr)
            name = f"conv_transpose2d_{'bf16' if pairs else 'f32'}"
            names = ("ConvTransposeArgs", name, f"{kind}.hpp")
        else:
            kind = "conv_bf16" if pairs else "conv"
            packing = f"{kind}:{groups}:{target.nr}"
            scratch = conv_scratch(taps, sizes["kw"], each, target.mr)
            names = ("ConvArgs", "conv_bf16" if pairs else "conv_f32", f"{kind}.hpp")
        packed = call.constant(weight, packing)
        call.set("w_packed", f"(const float*){packed}" if pairs else packed)
    call.set("scratch", call.scratch(scratch))
    if names[0] == "ConvArgs":
        _cutting(call)
    if pairs and not (depthwise or transposed):
        _copied_rows(call, taps * each, target)
    finish = finish_of(op, main) if names[0] in _FINISHING else None
    if depthwise and finish is not None and finish.residual is not None:
        finish = None
    if finish is not None or call.plain():
        finish = finish or Finish()
        call.set("y", direct_output(call, finish))
        set_finish(call, finish)
    else:
        call.epilogue(main.type.shape[:-1], main.type.shape[-1])
    return call.finish(*names)


def _attention(op: Op, main: Op, facts: Facts, target: Target) -> Kernel:
    call = Call(op, main, facts)
    views = attention_views(main, facts)
    if views is None or not call.plain():
        raise CuvilError("attention operands should have been materialised", where=str(main.loc))
    q, k, v = views[:3]
    sizes: dict[str, Dim] = {
        "batch": q.shape[0], "heads": q.shape[1], "kv_heads": k.shape[1],
        "q_len": q.shape[2], "kv_len": k.shape[2], "head_dim": q.shape[3], "v_dim": v.shape[3],
    }  # fmt: skip
    for name, value in sizes.items():
        call.set(name, value)
    for letter, view in (("q", q), ("k", k), ("v", v)):
        call.set(letter, call.pointer(view))
        for part, stride in zip(("batch", "head", "row"), view.strides, strict=False):
            call.set(f"{letter}_{part}", stride)
    if len(views) > 3:
        _mask(call, views[3], main)
    call.set("causal", "true" if main.attrs["causal"] else "false")
    call.set("causal_offset", main.attrs.get("causal_offset", 0))
    call.set("zero_masked_rows", "false" if main.attrs.get("nan_rows") else "true")
    call.set("zero_nan_rows", "true" if main.attrs.get("zero_nan_rows") else "false")
    call.set("scale", f"{float(main.attrs['scale'])!r}f" if main.attrs["scale"] else "0.0f")
    call.set("out", call.names[0])
    if main.attrs.get("heads_inner"):
        row = mul(q.shape[1], v.shape[3])
        strides: tuple[Dim, ...] = (mul(row, q.shape[2]), v.shape[3], row)
    else:
        head = mul(q.shape[2], v.shape[3])
        strides = (mul(head, q.shape[1]), head, v.shape[3])
    for part, stride in zip(("batch", "head", "row"), strides, strict=True):
        call.set(f"out_{part}", stride)
    block = call.tuned("key_block") or ATTENTION_BLOCK
    scratch = attention_scratch(sizes, block, target)
    if main.attrs.get("narrow") and target.multiplies_pairs:
        scratch = maximum(scratch, attention_unit_scratch(sizes, block, target))
        call.set("scratch", call.scratch(scratch))
        return call.finish("AttentionArgs", "attention_bf16", "attention_bf16.hpp")
    call.set("scratch", call.scratch(scratch))
    return call.finish("AttentionArgs", "attention_f32", "attention.hpp")


def _mask(call: Call, mask: View, main: Op) -> None:
    call.set("mask", call.pointer(mask))
    call.set("mask_kind", 2 if main.operands[3].type.dtype == BOOL else 1)
    lead = 4 - len(mask.strides)
    strides = [*([0] * lead), *mask.strides]
    for part, stride in zip(("batch", "head", "row", "col"), strides, strict=True):
        call.set(f"mask_{part}", stride)


_BUILDERS = {
    "matmul": _matmul,
    "matmul_blocks": _block_matmul,
    "conv": _conv,
    "conv_transpose": _conv,
    "attention": _attention,
}
