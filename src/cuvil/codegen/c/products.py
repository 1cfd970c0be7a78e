"""Contractions in C: tiles by library/tile.c, and what follows on each finished element."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cuvil.analysis.contraction_views import (
    MatmulForm,
    attention_views,
    has_kernel,
    is_byte_product,
    is_pair_product,
    matmul_form,
)
from cuvil.analysis.index_map import Index, View, delinearize, trace_view
from cuvil.codegen.c.constants import PANEL
from cuvil.codegen.c.spelling import CWriter
from cuvil.codegen.contraction_kernel import is_constant_operand
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names
from cuvil.codegen.scalar import Point, buffer_name
from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BOOL
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, add, floordiv, mul, product, symbol
from cuvil.sym.facts import Facts

MOST_ROWS = 12
"""The most rows that a tile has on any machine (CUVIL_ROWS)."""
SHORT_RUN = 16
"""Channels below which a kernel's taps are copied into one row each."""
MOST_COPIED = 1024
"""Floats of such a row at most: CUVIL_ROWS of them are on the stack."""
_SPATIAL = ("d", "h", "w")


def product_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op of kind "contraction". Raises UnsupportedOpError for one that C has
    no kernel for."""
    mains = [
        o for o in op.regions[0].ops
        if o.name in registry() and registry()[o.name].fusion == "contraction"
    ]  # fmt: skip
    for main in mains:
        if not _has_c_kernel(main):
            node = UnsupportedNode(
                main.name, str(main.operands[0].type.dtype), str(main.loc),
                "the target c has no kernel for it",
            )  # fmt: skip
            raise UnsupportedOpError([node], stage="codegen")
    return _BUILDERS[mains[0].short](_Product(op, mains[0], facts))


def _has_c_kernel(main: Op) -> bool:
    if main.short not in _BUILDERS or not has_kernel(main):
        return False
    bytes_ = main.short == "matmul" and is_byte_product(main)
    return not bytes_ and not is_pair_product(main)


def rounded(size: Dim, to: int) -> Dim:
    """The next multiple of ``to``."""
    return mul(floordiv(add(size, to - 1), to), to)


class _Product:
    """One contraction's kernel: text of its loops, and of what is done to each finished element."""

    def __init__(self, op: Op, main: Op, facts: Facts) -> None:
        self.op = op
        self.main = main
        self.facts = facts
        self.kernel = Kernel(op.attrs["name"])
        self.outputs = list(zip(op.regions[0].terminator.operands, op.results, strict=True))
        self.names = [
            self.kernel.buffer(result, f"out{i}", out=True)
            for i, (_, result) in enumerate(self.outputs)
        ]
        self.writer = CWriter(self.kernel, facts)
        self.lines: list[str] = []
        self._indent = 1

    def text(self, dim: Dim) -> str:
        """A size in C."""
        return self.writer.text(dim)

    def line(self, text: str) -> None:
        """One statement."""
        self.lines.append("  " * self._indent + text)

    def open(self, text: str) -> None:
        """A statement that opens a block."""
        self.line(text + " {")
        self._indent += 1

    def loop(self, var: str, extent: Dim | str, step: str = "") -> None:
        """Open a loop over ``var``."""
        end = extent if isinstance(extent, str) else self.text(extent)
        ahead = f"{var} += {step}" if step else f"++{var}"
        self.open(f"for (ptrdiff_t {var} = 0; {var} < {end}; {ahead})")

    def close(self, count: int = 1) -> None:
        """Close so many blocks."""
        for _ in range(count):
            self._indent -= 1
            self.line("}")

    def pointer(self, view: View) -> str:
        """The address of a view's first element."""
        name = self.kernel.buffer(view.base, buffer_name(view.base))
        return name if view.offset == 0 else f"{name} + {self.text(view.offset)}"

    def constant(self, value: Value, packing: str) -> str:
        """A constant operand, packed."""
        return self.kernel.buffer(value, "weights", packing=packing)

    def scratch(self, floats: Dim) -> str:
        """So many floats of scratch; the expression of their address."""
        start = self.kernel.scratch or 0
        self.kernel.scratch = add(start, rounded(floats, 4))
        name = self.kernel.special("scratch", "float *", "scratch")
        return name if start == 0 else f"{name} + {self.text(start)}"

    def plain(self) -> bool:
        """Whether the only output is the contraction itself."""
        return len(self.outputs) == 1 and self.outputs[0][0] is self.main.results[0]

    def finish(
        self, rows: Sequence[Dim], columns: Dim, batch: Sequence[Dim] = (), n: str = "n0 + j"
    ) -> None:
        """The loops over a finished tile: m runs over ``rows``, n over ``columns``."""
        loops = [Loop("b", product(batch)), Loop("m", product(rows)), Loop("n", columns)]
        facts = loop_facts(self.facts, loops)
        b, m, at = (symbol(x.name) for x in loops)
        index: Index = (
            *delinearize(b if batch else 0, tuple(batch), facts),
            *delinearize(m, tuple(rows), facts),
            at if columns != 1 else 0,
        )
        writer = CWriter(self.kernel, facts, loop_names(loops))
        writer.bound[id(self.main.results[0])] = lambda point, where: "tile[i * CUVIL_PANEL + j]"
        row, point = Point(writer, self._indent + 1), Point(writer, self._indent + 2)
        if columns != 1:
            point.hoist_to(row, [loops[-1].name])
        for (inside, result), name in zip(self.outputs, self.names, strict=True):
            point.store(result, name, index, point.element(inside, index))
        self.loop("i", "count")
        self._named("m", "m0 + i", [*row.lines, *point.lines])
        self.lines += row.lines
        # Vector code needs to know how many columns a full panel has; without it one loop will do.
        self.lines += ["#if defined(CUVIL_LANES)"]
        self.open("if (columns == CUVIL_PANEL)")
        self._columns("CUVIL_PANEL", n, ["  " + line for line in point.lines])
        self._indent -= 1
        self.line("} else")
        self.lines += ["#endif"]
        self._columns("columns", n, point.lines)
        self.close()

    def _columns(self, count: str, n: str, lines: Sequence[str]) -> None:
        self.loop("j", count)
        self._named("n", n, lines)
        self.lines += lines
        self.close()

    def _named(self, name: str, value: str, lines: Sequence[str]) -> None:
        if any(re.search(rf"\b{name}\b", line) for line in lines):
            self.line(f"const ptrdiff_t {name} = {value};")

    def blocks(self, rows: Dim) -> None:
        """Open the loop over blocks of rows."""
        self.loop("m0", rows, "CUVIL_ROWS")
        self.line(f"const ptrdiff_t count = cuvil_minimum(CUVIL_ROWS, {self.text(rows)} - m0);")

    def panels(self, columns: Dim) -> None:
        """Open the loop over panels of columns."""
        self.loop("n0", columns, "CUVIL_PANEL")
        end = self.text(columns)
        self.line(f"const ptrdiff_t columns = cuvil_minimum(CUVIL_PANEL, {end} - n0);")

    def done(self) -> Kernel:
        """The finished kernel."""
        self.kernel.body = "\n".join(self.lines) + "\n"
        return self.kernel


def _matmul(p: _Product) -> Kernel:
    form = matmul_form(p.main, p.facts)
    assert form is not None, "operands should have been materialised"
    packing = _packing(p, form)
    p.line("float tile[CUVIL_ROWS * CUVIL_PANEL];")
    p.line("const float *rows[CUVIL_ROWS];")
    copies = "" if form.a_col == 1 or form.k == 1 else p.scratch(mul(form.k, MOST_ROWS))
    batched = form.batch != 1
    if batched:
        p.loop("b", form.batch)
    shape = p.main.type.shape
    lead = (shape[:-1], ()) if form.shared else ((form.m,), shape[:-2])
    if packing:
        weights = p.constant(form.b.base, packing)
        if batched and form.b_batch != 0:
            weights += f" + b * {p.text(mul(form.k, rounded(form.n, 4)))}"
        p.blocks(form.m)
        _rows(p, form, copies)
        p.panels(form.n)
        panel = f"{weights} + n0 * {p.text(form.k)}"
    else:
        panel = p.scratch(mul(form.k, PANEL))
        p.panels(form.n)
        start = p.pointer(form.b) + (f" + b * {p.text(form.b_batch)}" if batched else "")
        p.line(
            f"cuvil_pack_panel({panel}, {start} + n0 * {p.text(form.b_col)}, {p.text(form.k)}, "
            f"columns, {p.text(form.b_row)}, {p.text(form.b_col)});"
        )
        p.blocks(form.m)
        _rows(p, form, copies)
    p.line(
        f"cuvil_tile(rows, count, 1, {p.text(form.k)}, {panel}, cuvil_panel_width(columns), tile);"
    )
    p.finish(lead[0], form.n, lead[1])
    p.close(2 + batched)
    return p.done()


def _packing(p: _Product, form: MatmulForm) -> str:
    """How a constant right operand is packed; "" for one that is packed when it is read."""
    base, sizes = form.b.base, (form.k, form.n)
    if not is_constant_operand(p.op, base) or form.b.offset != 0:
        return ""
    if not all(isinstance(d, int) for d in (*sizes, form.b_batch)):
        return ""
    last = base.type.shape[-2:]
    if form.b_col == 1 and last == sizes and form.b_row == form.n:
        return "panels"
    return "turned" if form.b_row == 1 and last == sizes[::-1] and form.b_col == form.k else ""


def _rows(p: _Product, form: MatmulForm, copies: str) -> None:
    """Where each row of the left operand lies; a row that is not contiguous is copied."""
    start = p.pointer(form.a) + (f" + b * {p.text(form.a_batch)}" if form.batch != 1 else "")
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


def window_text(p: _Product, x: Value, main: Op) -> tuple[str, int]:
    """The initialiser of a cuvil_window, and the number of taps."""
    missing = 3 - (x.type.rank - 2)

    def three(values: Sequence[Dim], unused: Dim) -> list[str]:
        return [p.text(v) for v in (*(unused,) * missing, *values)]

    attrs, kernel = main.attrs, main.operands[1].type.shape[2:]
    sizes = [
        *three(x.type.shape[1:-1], 1), p.text(x.type.shape[-1]), *three(main.type.shape[1:-1], 1),
        *three(kernel, 1), *three(attrs["strides"], 1), *three(attrs["dilations"], 1),
        *three(attrs["pads_lo"], 0),
    ]  # fmt: skip
    taps = product(kernel)
    assert isinstance(taps, int)
    return ", ".join(sizes), taps


def _conv(p: _Product) -> Kernel:
    main = p.main
    x, weight = main.operands[:2]
    view = trace_view(x, p.facts)
    assert view is not None
    groups, channels, outputs = main.attrs["groups"], x.type.shape[-1], main.type.shape[-1]
    assert isinstance(channels, int) and isinstance(outputs, int)
    turned = main.short == "conv_transpose"
    window, taps = window_text(p, x, main)
    rows = main.type.shape[:-1]
    p.line(f"const cuvil_window window = {{{window}}};")
    p.line("float tile[CUVIL_ROWS * CUVIL_PANEL];")
    source = p.pointer(view)
    if not turned and groups == channels == outputs and groups > 1:
        return _depthwise(p, source, p.constant(weight, "depthwise"), taps)
    each, wide = channels // groups, outputs // groups
    padded = turned or any((*main.attrs["pads_lo"], *main.attrs["pads_hi"]))
    if padded:
        p.kernel.includes.add(f"zeros:{each}")
    patched = each < SHORT_RUN and taps > 1 and taps * each <= MOST_COPIED
    p.line(f"const float *rows[{taps} * CUVIL_ROWS];")
    if patched:
        p.line(f"float patch[CUVIL_ROWS * {taps * each}];")
    weights = p.constant(weight, f"{'conv_transpose' if turned else 'conv'}:{groups}")
    if groups > 1:
        p.loop("group", groups)
        source = f"{source} + group * {each}"
        weights = f"{weights} + group * {taps * each * (-(-wide // 4) * 4)}"
    p.blocks(product(rows))
    function = "cuvil_turned_taps" if turned else "cuvil_taps"
    p.loop("i", "count")
    absent = "zeros" if padded else "0"
    p.line(f"{function}(&window, {source}, m0 + i, {absent}, rows + i, CUVIL_ROWS);")
    p.close()
    sizes = f"{taps}, {each}"
    if patched:
        p.line(f"cuvil_patch(rows, count, {taps}, {each}, patch);")
        sizes = f"1, {taps * each}"
    p.panels(wide)
    p.line(
        f"cuvil_tile(rows, count, {sizes}, {weights} + n0 * {taps * each}, "
        "cuvil_panel_width(columns), tile);"
    )
    n = f"group * {wide} + n0 + j" if groups > 1 else "n0 + j"
    p.finish(rows, outputs, n=n)
    p.close(2 + (groups > 1))
    return p.done()


def _depthwise(p: _Product, source: str, weights: str, taps: int) -> Kernel:
    """One pixel after the other, a block of channels at once."""
    rows, channels = p.main.type.shape[:-1], p.main.type.shape[-1]
    p.line(f"const float *taps[{taps}];")
    p.loop("m0", product(rows))
    p.line("const ptrdiff_t count = 1;")
    p.line(f"cuvil_taps(&window, {source}, m0, 0, taps, 1);")
    p.panels(channels)
    p.line(f"cuvil_depthwise(taps, {taps}, {weights}, {p.text(channels)}, n0, columns, tile);")
    p.finish(rows, channels)
    p.close(2)
    return p.done()


def _attention(p: _Product) -> Kernel:
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
    values["keys"] = p.scratch(mul(rounded(k.shape[2], 4), q.shape[3]))
    values["values"] = p.scratch(mul(k.shape[2], rounded(v.shape[3], 4)))
    values["scores"] = p.scratch(mul(k.shape[2], MOST_ROWS))
    p.line("cuvil_attention_args args = {0};")
    for name, value in values.items():
        p.line(f"args.{name} = {value if isinstance(value, str) else p.text(value)};")
    p.line("cuvil_attention(&args);")
    return p.done()


_BUILDERS: Mapping[str, Callable[[_Product], Kernel]] = {
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv,
    "attention": _attention,
}
