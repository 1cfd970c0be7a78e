"""Convolutions."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.windows import windows
from cuvil.ir.core import Value
from cuvil.sym.expr import Expr, mul


def kernel_size(n: Node, weight: Value) -> list[int]:
    """The spatial dims of a weight; a kernel_shape attribute must agree."""
    found = [n.size(weight.type.shape, i, "the kernel's size") for i in range(2, weight.type.rank)]
    asked = n.integers("kernel_shape", found)
    if asked and asked != found:
        raise InvalidModelError(f"{n.op}: kernel_shape {asked} is not the weight's {found}")
    return found


def conv(n: Node) -> Value:
    """Conv-22."""
    window = windows(n, kernel_size(n, n[1]))
    x = n.sized(n[0], 1, mul(n[1].type.shape[1], n.integer("group", 1)), "input channels")
    return n.e.op(
        "conv", window.pad(n, x), n[1], *([n[2]] if n.has(2) else []),
        groups=n.integer("group", 1), has_bias=n.has(2), **window.attrs(),
    )  # fmt: skip


def conv_transpose(n: Node) -> Value:
    """Padding from output_shape: the total is what the natural size has too much
    (ConvTranspose-11); a negative total lengthens the output at its end."""
    kernel = kernel_size(n, n[1])
    count = len(kernel)
    strides = n.integers("strides", [1] * count)
    dilations = n.integers("dilations", [1] * count)
    extra = n.integers("output_padding", [0] * count)
    auto = n.text("auto_pad", "NOTSET") or "NOTSET"
    pads = n.integers("pads", [0] * 2 * count)
    lo, hi = pads[:count], pads[count:]
    wanted: list[int] | None = None
    if n.attrs.get("output_shape"):
        wanted = n.integers("output_shape")[-count:]
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        for i, size in enumerate(n[0].type.shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            if wanted is None:
                total = reach + extra[i] - strides[i]
            elif isinstance(size, Expr):
                raise Refused(
                    "output_shape with a symbolic input size", "give explicit pads in the model"
                )
            else:
                total = strides[i] * (size - 1) + extra[i] + reach - wanted[i]
            extra[i] += max(-total, 0)
            total = max(total, 0)
            small, large = total // 2, total - total // 2
            lo[i], hi[i] = (small, large) if auto == "SAME_UPPER" else (large, small)
    x = n.sized(n[0], 1, n[1].type.shape[0], "input channels")
    return n.e.op(
        "conv_transpose", x, n[1], *([n[2]] if n.has(2) else []),
        strides=tuple(strides), dilations=tuple(dilations), pads_lo=tuple(lo), pads_hi=tuple(hi),
        output_padding=tuple(extra), groups=n.integer("group", 1), has_bias=n.has(2),
    )  # fmt: skip


TABLE: dict[str, Handler] = {
    "ConvTranspose": conv_transpose,
}
