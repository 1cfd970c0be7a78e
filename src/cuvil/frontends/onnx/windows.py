"""Padding of sliding windows: explicit, or SAME by the input's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Node
from cuvil.ir.core import Value
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul


@dataclass(frozen=True)
class Windows:
    """One entry a spatial dimension; ``lo`` and ``hi`` may be symbolic for SAME padding."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    lo: tuple[Dim, ...]
    hi: tuple[Dim, ...]

    @property
    def is_static(self) -> bool:
        """Whether the padding is known."""
        return all(isinstance(p, int) for p in (*self.lo, *self.hi))

    def attrs(self) -> dict[str, tuple[int, ...]]:
        """As the operators take them; symbolic padding is 0 here, and applied before."""
        lo, hi = (self.lo, self.hi) if self.is_static else ((0,) * len(self.lo),) * 2
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads_lo": tuple(int(p) for p in lo),  # type: ignore[arg-type]
            "pads_hi": tuple(int(p) for p in hi),  # type: ignore[arg-type]
        }

    def pad(self, n: Node, x: Value, fill: float = 0.0) -> Value:
        """x with its spatial dims padded by symbolic amounts; x itself where they are static."""
        if self.is_static:
            return x
        return n.e.op("pad", x, lo=(0, 0, *self.lo), hi=(0, 0, *self.hi), value=fill or None)


def windows(n: Node, kernel: Sequence[int]) -> Windows:
    """The windows of a convolution or pooling over the first input [N, C, *spatial].

    SAME: total = max((ceil(in / s) - 1) s + (k - 1) d + 1 - in, 0), the odd one at the end for
    SAME_UPPER, at the start for SAME_LOWER (Conv-11).
    """
    sizes = n[0].type.shape[2:]
    count = len(kernel)
    if not count or count != len(sizes):
        raise InvalidModelError(f"{n.op}: kernel {tuple(kernel)} does not fit {n[0].type}")
    strides = n.integers("strides", [1] * count) or [1] * count
    dilations = n.integers("dilations", [1] * count) or [1] * count
    if len(strides) != count or len(dilations) != count or min(*strides, *dilations) < 1:
        raise InvalidModelError(f"{n.op}: strides {strides} or dilations {dilations} are wrong")
    auto = n.text("auto_pad", "NOTSET") or "NOTSET"
    lo: list[Dim] = [0] * count
    hi: list[Dim] = [0] * count
    if auto == "NOTSET":
        pads = n.integers("pads", [0] * 2 * count) or [0] * 2 * count
        if len(pads) != 2 * count:
            raise InvalidModelError(f"{n.op}: {len(pads)} pads for {count} spatial dimensions")
        lo, hi = list(pads[:count]), list(pads[count:])
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        for i, (size, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
            lo[i], hi[i] = _halves(n, _same(n, size, (k - 1) * d + 1, s), auto == "SAME_UPPER")
    elif auto != "VALID":
        raise InvalidModelError(f"{n.op}: auto_pad {auto!r} is unknown")
    return Windows(tuple(kernel), tuple(strides), tuple(dilations), tuple(lo), tuple(hi))


def _same(n: Node, size: Dim, reach: int, stride: int) -> Dim:
    if stride == 1:
        return max(reach - 1, 0)
    steps = add(floordiv(add(size, stride - 1), stride), -1)
    total = add(add(mul(steps, stride), reach), mul(size, -1))
    return n.e.simplify(maximum(total, 0))


def _halves(n: Node, total: Dim, end: bool) -> tuple[Dim, Dim]:
    half = n.e.simplify(floordiv(total, 2))
    rest = n.e.simplify(add(total, mul(half, -1)))
    return (half, rest) if end else (rest, half)
