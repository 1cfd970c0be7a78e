"""Contractions in C: tiles by library/tile.c, and what follows on each finished element."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.analysis.contraction_views import (
    MatmulForm,
    attention_views,
    has_kernel,
    matmul_form,
    reads_pairs,
)
from cuvil.codegen.c.call import refused
from cuvil.codegen.c.constants import PANEL
from cuvil.codegen.c.convolutions import conv_kernel
from cuvil.codegen.c.product import Product
from cuvil.codegen.contraction_kernel import is_constant_operand
from cuvil.codegen.kernel import Kernel
from cuvil.ir.core import Op
from cuvil.ir.types import BOOL
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, mul
from cuvil.sym.facts import Facts

MOST_ROWS = 12
"""The most rows that a tile has on any machine (CUVIL_ROWS)."""


def product_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op of kind "contraction". Raises UnsupportedOpError for one that C has
    no kernel for."""
    mains = [
        o for o in op.regions[0].ops
        if o.name in registry() and registry()[o.name].fusion == "contraction"
    ]  # fmt: skip
    for main in mains:
        if not _has_c_kernel(main):
            raise refused(main, "the target c has no kernel for it")
    return _BUILDERS[mains[0].short](Product(op, mains[0], facts))


def _has_c_kernel(main: Op) -> bool:
    return main.short in _BUILDERS and has_kernel(main) and not reads_pairs(main)


def _matmul(p: Product) -> Kernel:
    form = matmul_form(p.main, p.facts)
    assert form is not None, "operands should have been materialised"
    packing = _packing(p, form)
    if p.bytes and not packing:
        raise refused(p.main, "the target c multiplies bytes by constant ones as they lie")
    p.tile()
    p.line(f"const {p.element.cxx} *rows[CUVIL_ROWS];")
    copies = "" if form.a_col == 1 or form.k == 1 else p.scratch(mul(form.k, MOST_ROWS))
    batched = form.batch != 1
    if batched:
        p.loop("batch", form.batch)
    shape = p.main.type.shape
    lead = (shape[:-1], ()) if form.shared else ((form.m,), shape[:-2])
    if packing:
        weights = p.constant(form.b.base, packing)
        if batched and form.b_batch != 0:
            weights += f" + batch * {p.text(mul(p.depth(form.k), p.width(form.n)))}"
        p.blocks(form.m)
        _rows(p, form, copies)
        p.panels(form.n)
        p.multiply(1, form.k, weights, form.n)
    else:
        panel = p.scratch(mul(form.k, PANEL))
        p.panels(form.n)
        start = p.pointer(form.b) + (f" + batch * {p.text(form.b_batch)}" if batched else "")
        p.line(
            f"cuvil_pack_panel({panel}, {start} + n0 * {p.text(form.b_col)}, {p.text(form.k)}, "
            f"columns, {p.text(form.b_row)}, {p.text(form.b_col)});"
        )
        p.blocks(form.m)
        _rows(p, form, copies)
        p.multiply(1, form.k, panel, "columns")
    p.finish(lead[0], form.n, lead[1])
    p.close(2 + batched)
    return p.done()


def _packing(p: Product, form: MatmulForm) -> str:
    """How a constant right operand is packed; "" for one that is packed when it is read."""
    base, sizes = form.b.base, (form.k, form.n)
    if not is_constant_operand(p.op, base) or form.b.offset != 0:
        return ""
    if not all(isinstance(d, int) for d in (*sizes, form.b_batch)):
        return ""
    last = base.type.shape[-2:]
    if form.b_col == 1 and last == sizes and form.b_row == form.n:
        return "bytes" if p.bytes else "panels"
    turned = form.b_row == 1 and last == sizes[::-1] and form.b_col == form.k
    return "turned" if turned and not p.bytes else ""


def _rows(p: Product, form: MatmulForm, copies: str) -> None:
    """Where each row of the left operand lies; a row that is not contiguous is copied."""
    start = p.pointer(form.a) + (f" + batch * {p.text(form.a_batch)}" if form.batch != 1 else "")
    at = f"{start} + (m0 + i) * {p.text(form.a_row)}"
    p.loop("i", "count")
    if copies:
        k = p.text(form.k)
        p.line(f"float *const copy = {copies} + i * {k};")
        p.line(f"const float *const from = {at};")
        step = p.text(form.a_col)
        p.line(f"for (ptrdiff_t c = 0; c < {k}; ++c) copy[c] = from[c * {step}];")
        at = "copy"
    p.line(f"rows[i] = {at};")
    p.close()


def _attention(p: Product) -> Kernel:
    main, attrs = p.main, p.main.attrs
    views = attention_views(main, p.facts)
    assert views is not None and p.plain(), "operands should have been materialised"
    q, k, v = views[:3]
    values: dict[str, Dim | str] = {
        "batch": q.shape[0], "heads": q.shape[1], "kv_heads": k.shape[1], "q_len": q.shape[2],
        "kv_len": k.shape[2], "head_dim": q.shape[3], "v_dim": v.shape[3],
    }  # fmt: skip
    for letter, view in (("q", q), ("k", k), ("v", v)):
        values[letter] = p.pointer(view)
        for part, stride in zip(("batch", "head", "row"), view.strides, strict=False):
            values[f"{letter}_{part}"] = stride
    if len(views) > 3:
        shown = main.operands[3].type.dtype == BOOL
        values["shown" if shown else "added"] = p.pointer(views[3])
        strides = [*([0] * (4 - len(views[3].strides))), *views[3].strides]
        for part, stride in zip(("batch", "head", "row", "col"), strides, strict=True):
            values[f"mask_{part}"] = stride
    for name, value in (
        ("causal", attrs["causal"]), ("zero_masked_rows", not attrs.get("nan_rows")),
        ("zero_nan_rows", attrs.get("zero_nan_rows")),
    ):  # fmt: skip
        values[name] = "true" if value else "false"
    values["causal_offset"] = attrs.get("causal_offset", 0)
    values["scale"] = f"{float(attrs['scale'] or 0.0)!r}f"
    values["out"] = p.names[0]
    if attrs.get("heads_inner"):
        row = mul(q.shape[1], v.shape[3])
        out: tuple[Dim, ...] = (mul(row, q.shape[2]), v.shape[3], row)
    else:
        head = mul(q.shape[2], v.shape[3])
        out = (mul(head, q.shape[1]), head, v.shape[3])
    for part, stride in zip(("batch", "head", "row"), out, strict=True):
        values[f"out_{part}"] = stride
    values["keys"] = p.scratch(mul(k.shape[2], q.shape[3]))
    values["values"] = p.scratch(mul(k.shape[2], v.shape[3]))
    values["scores"] = p.scratch(mul(k.shape[2], MOST_ROWS))
    p.line("cuvil_attention_args args = {0};")
    for name, value in values.items():
        p.line(f"args.{name} = {value if isinstance(value, str) else p.text(value)};")
    p.line("cuvil_attention(&args);")
    return p.done()


_BUILDERS: Mapping[str, Callable[[Product], Kernel]] = {
    "matmul": _matmul,
    "conv": conv_kernel,
    "conv_transpose": conv_kernel,
    "attention": _attention,
}
