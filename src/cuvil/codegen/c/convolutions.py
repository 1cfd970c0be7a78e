"""Convolutions in C: rows of tiles are where a pixel's taps lie (library/windows.c)."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.analysis.index_map import trace_view
from cuvil.codegen.c.product import Product
from cuvil.codegen.kernel import Kernel
from cuvil.ir.core import Op, Value
from cuvil.sym.expr import Dim, mul, product

SHORT_RUN = 16
"""Channels below which a kernel's taps are copied into one row each."""
MOST_COPIED = 1024
"""Floats of such a row at most: CUVIL_ROWS of them are on the stack."""


def window_text(p: Product, x: Value, main: Op) -> tuple[str, int]:
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


def conv_kernel(p: Product) -> Kernel:
    """A convolution, or a transposed one, of floats or bytes."""
    main = p.main
    x, weight = main.operands[:2]
    view = trace_view(x, p.facts)
    assert view is not None
    groups, channels, outputs = main.attrs["groups"], x.type.shape[-1], main.type.shape[-1]
    assert isinstance(channels, int) and isinstance(outputs, int)
    turned = main.short == "conv_transpose"
    window, taps = window_text(p, x, main)
    rows = main.type.shape[:-1]
    depthwise = not turned and groups == channels == outputs and groups > 1
    pointwise = not depthwise and _is_pointwise(main)
    if not pointwise:
        p.line(f"const cuvil_window window = {{{window}}};")
    p.tile()
    source = p.pointer(view)
    if depthwise:
        return _depthwise(p, source, p.constant(weight, "depthwise"), taps)
    each, wide = channels // groups, outputs // groups
    absent = _absent(p, each, turned)
    patched = each < SHORT_RUN and taps > 1 and taps * each <= MOST_COPIED
    p.line(f"const {p.element.cxx} *rows[{taps} * CUVIL_ROWS];")
    if patched:
        p.line(f"{p.element.cxx} patch[CUVIL_ROWS * {taps * each}];")
    inner = (1, taps * each) if patched else (taps, each)
    depth = mul(inner[0], p.depth(inner[1]))
    weights = p.constant(weight, _packing(p, groups, turned, patched))
    if groups > 1:
        p.loop("group", groups)
        source = f"{source} + group * {each}"
        weights = f"{weights} + group * {mul(depth, p.width(wide))}"
    p.blocks(product(rows))
    function = f"cuvil_{'turned_' if turned else ''}taps{p.suffix}"
    p.loop("i", "count")
    if pointwise:
        p.line(f"rows[i] = {source} + (m0 + i) * {channels};")
    else:
        p.line(f"{function}(&window, {source}, m0 + i, {absent}, rows + i, CUVIL_ROWS);")
    p.close()
    if patched:
        p.line(f"cuvil_patch{p.suffix}(rows, count, {taps}, {each}, patch);")
    p.panels(wide)
    p.multiply(*inner, weights, wide)
    n = f"group * {wide} + n0 + j" if groups > 1 else "n0 + j"
    p.finish(rows, outputs, n=n)
    p.close(2 + (groups > 1))
    return p.done()


def _is_pointwise(main: Op) -> bool:
    """Whether row m of the result is made of row m of the input."""
    attrs = main.attrs
    pads = (*attrs["pads_lo"], *attrs["pads_hi"], *attrs.get("output_padding", ()))
    sizes = (*main.operands[1].type.shape[2:], *attrs["strides"])
    return not any(pads) and all(n == 1 for n in sizes)


def _packing(p: Product, groups: int, turned: bool, patched: bool) -> str:
    if p.bytes:
        return f"conv_bytes:{groups}:{int(patched)}"
    return f"{'conv_transpose' if turned else 'conv'}:{groups}"


def _absent(p: Product, channels: int, turned: bool) -> str:
    """Where a tap outside the input finds its channels."""
    attrs = p.main.attrs
    if not turned and not any((*attrs["pads_lo"], *attrs["pads_hi"])):
        return "0"
    if not p.bytes:
        p.kernel.includes.add(f"zeros:{channels}")
        return "zeros"
    p.line(f"{p.element.cxx} absent[{channels}];")
    p.loop("c", channels)
    p.line(f"absent[c] = {attrs.get('pad_value', 0)};")
    p.close()
    return "absent"


def _depthwise(p: Product, source: str, weights: str, taps: int) -> Kernel:
    """One pixel after the other, a block of channels at once; taps that would add nothing are
    left out."""
    rows, channels = p.main.type.shape[:-1], p.main.type.shape[-1]
    assert isinstance(channels, int)
    absent = _absent(p, channels, False) if p.main.attrs.get("pad_value", 0) else "0"
    p.line(f"const {p.element.cxx} *taps[{taps}];")
    p.loop("m0", product(rows))
    p.line("const ptrdiff_t count = 1;")
    p.line(f"cuvil_taps{p.suffix}(&window, {source}, m0, {absent}, taps, 1);")
    p.panels(channels)
    sizes = f"taps, {taps}, {weights}, {channels}"
    p.line(f"cuvil_depthwise{p.suffix}({sizes}, n0, columns, tile);")
    p.finish(rows, channels)
    p.close(2)
    return p.done()
