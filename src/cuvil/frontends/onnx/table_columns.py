"""Columns of blocks back to an image (Col2Im-18), whose sizes may be symbols or data."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, add, floordiv, mul, product


def _col2im(n: Node) -> Value:
    """Columns [N, C * kernel, L] added up at their places in the image."""
    e, x = n.e, n[0]
    image, kernel = n.sizes(1, "the image's shape"), n.sizes(2, "the block's shape")
    count = len(image)
    strides = n.integers("strides", [1] * count)
    dilations = n.integers("dilations", [1] * count)
    pads = n.integers("pads", [0] * 2 * count)
    whole = [add(d, pads[i] + pads[count + i]) for i, d in enumerate(image)]
    steps = [_steps(w, k, d, s)
             for w, k, d, s in zip(whole, kernel, dilations, strides, strict=True)]  # fmt: skip
    taps, places = e.simplify(product(kernel)), e.simplify(product(steps))
    if any(isinstance(s, int) and s < 1 for s in steps) or _count(taps) * _count(places) > 1 << 24:
        raise Refused(f"blocks of {kernel} in an image of {image}")
    for i, size in enumerate(steps):
        e.context.require(size, ">=", 1, f"Col2Im: a block fits into axis {i} of the image")
    batch, rows, columns = x.type.shape
    channels = e.simplify(floordiv(rows, taps))
    e.context.same(rows, mul(channels, taps), "Col2Im: rows are those of whole blocks")
    e.context.same(columns, places, "Col2Im: a column for each place of the block")
    lines = e.simplify(mul(batch, channels))
    data = e.reshape(x, (lines, mul(taps, places)))
    index = e.reshape(_places(n, whole, kernel, steps), (1, mul(taps, places)))
    zeros = e.broadcast(e.scalar(0, x.type.dtype), (lines, product(whole)))
    index = e.broadcast(index, data.type.shape)
    out = e.op("scatter_elements", zeros, index, data, axis=1, reduction="add")
    out = e.reshape(out, (batch, channels, *whole))
    return e.op("slice", out, start=(0, 0, *pads[:count]), size=(batch, channels, *image),
                step=(1,) * (2 + count))  # fmt: skip


def _count(size: Dim) -> int:
    return size if isinstance(size, int) else 1


def _steps(whole: Dim, kernel: Dim, dilation: int, stride: int) -> Dim:
    """How many places a block has along an axis."""
    reach = add(mul(kernel, dilation), 1 - dilation)
    return add(floordiv(add(whole, mul(reach, -1)), stride), 1)


def _places(n: Node, whole: Sequence[Dim], kernel: Sequence[Dim], steps: Sequence[Dim]) -> Value:
    """Where each element of a block lies in the flat image, at each place of it: [taps, places]."""
    e, count = n.e, len(whole)
    strides, dilations = (n.integers(name, [1] * count) for name in ("strides", "dilations"))
    found = e.broadcast(e.scalar(0, I64), (1, 1))
    for i in range(count):
        tap = e.op("iota", shape=(kernel[i], 1), axis=0, dtype=I64)
        step = e.op("iota", shape=(1, steps[i]), axis=1, dtype=I64)
        line = e.map("add", e.with_scalar("mul", tap, dilations[i]),
                     e.with_scalar("mul", step, strides[i]))  # fmt: skip
        taps, places = found.type.shape
        wide = e.map("mul", found, e.dims([whole[i]], scalar=True))
        wide = e.reshape(wide, (taps, 1, places, 1))
        line = e.reshape(line, (1, kernel[i], 1, steps[i]))
        found = e.reshape(e.map("add", wide, line), (mul(taps, kernel[i]), mul(places, steps[i])))
    return found


TABLE: dict[str, Handler] = {"Col2Im": _col2im}
