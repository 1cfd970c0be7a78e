"""Resampling: a table for each axis that changes, then one pass over one or two axes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuvil.codegen.kernel import THREADS, Kernel, storage
from cuvil.codegen.literals import literal
from cuvil.codegen.native_call import NativeCall, flag, round_up
from cuvil.ir.core import Op
from cuvil.ops.resize import CROP, is_identity
from cuvil.sym.expr import Dim, ceildiv, maximum, mul, product, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_COORDINATES: Mapping[str, str] = {
    "half_pixel": "kHalfPixel", "half_pixel_symmetric": "kHalfPixelSymmetric",
    "pytorch_half_pixel": "kPytorchHalfPixel", "align_corners": "kAlignCorners",
    "asymmetric": "kAsymmetric", CROP: "kCrop",
}  # fmt: skip
_ROUNDING: Mapping[str, str] = {
    "round_prefer_floor": "kRoundPreferFloor", "round_prefer_ceil": "kRoundPreferCeil",
    "floor": "kFloor", "ceil": "kCeil",
}  # fmt: skip


@dataclass(frozen=True)
class _Step:
    """One pass over ``axes`` (one, or two neighbours)."""

    axes: tuple[int, ...]


def _steps(axes: Sequence[int]) -> list[_Step]:
    """Neighbours from the back go together."""
    steps: list[_Step] = []
    left = list(axes)
    while left:
        size = 2 if len(left) > 1 and left[-2] == left[-1] - 1 else 1
        steps.insert(0, _Step(tuple(left[-size:])))
        del left[-size:]
    return steps


def _kept(op: Op, axis: int) -> bool:
    """Whether the axis stays as it is, a crop of the whole of it included."""
    attrs, size, out = op.attrs, op.operands[0].type.shape[axis], op.attrs["sizes"][axis]
    if attrs["coordinate"] == CROP:
        rank = op.type.rank
        return bool(size == out and attrs["roi"][axis] == 0 and attrs["roi"][rank + axis] == 1)
    return len(op.operands) == 1 and is_identity(attrs, axis, size, out)


class _Resize:
    def __init__(self, op: Op, facts: Facts) -> None:
        self.op = op
        self.call = NativeCall(op, facts)
        self.shape = list(op.operands[0].type.shape)
        self.out = list(op.type.shape)
        self.nearest = op.attrs["mode"] == "nearest"
        dtype = op.type.dtype
        # Elements that are only moved go as unsigned integers of their size.
        self.element = f"uint{8 * dtype.size}_t" if self.nearest else storage(dtype)
        self.weight = "float" if self.nearest else self.element
        self.size = dtype.size

    def write(self) -> Kernel:
        call, op = self.call, self.op
        axes = [i for i in range(op.type.rank) if not _kept(op, i)]
        total = call.text(op.type.elements)
        call.line(f"if ({total} == 0) return;")
        self._how()
        for axis in axes:
            self._table(axis)
        source = f"(const {self.element}*){call.input(0)}"
        target = f"({self.element}*){call.outputs[0]}"
        steps = _steps(axes)
        if not steps:
            call.line(
                f"__builtin_memcpy({call.outputs[0]}, {call.input(0)}, {total} * {self.size});"
            )
        shape = list(self.shape)
        for number, step in enumerate(steps):
            after = [self.out[i] if i in step.axes else d for i, d in enumerate(shape)]
            to = target
            if number < len(steps) - 1:
                to = f"({self.element}*){call.scratch(mul(product(after), self.size))}"
            self._pass(step, shape, source, to)
            source, shape = f"(const {self.element}*){to}", after
        if op.attrs["coordinate"] == CROP:
            self._fill(axes, target)
        return call.finish("resize.hpp", "")

    def _how(self) -> None:
        attrs = self.op.attrs
        mode = {"nearest": "kNearest", "linear": "kLinear", "cubic": "kCubic"}[attrs["mode"]]
        rounding = _ROUNDING[attrs["nearest"]] if self.nearest else "kFloor"
        self.call.line(
            f"const cuvil::ResizeHow how = {{cuvil::{mode}, "
            f"cuvil::{_COORDINATES[attrs['coordinate']]}, cuvil::{rounding}, "
            f"{float(attrs.get('cubic_coeff') or -0.75)!r}, "
            f"{flag(attrs.get('exclude_outside'))}, {flag(attrs.get('antialias'))}}};"
        )

    def _table(self, axis: int) -> None:
        call, attrs = self.call, self.op.attrs
        scales, roi = attrs.get("scales"), attrs.get("roi") or ()
        scale = float(scales[axis]) if scales else 0.0
        crop = attrs["coordinate"] == CROP
        given = f"{call.input(1)}[{axis}]" if len(self.op.operands) > 1 else repr(scale)
        start, end = (roi[axis], roi[self.op.type.rank + axis]) if crop else (0.0, 1.0)
        call.line(
            f"const cuvil::ResizeAxis axis{axis} = {{{call.text(self.shape[axis])}, "
            f"{call.text(self.out[axis])}, {given}, {float(start)!r}, "
            f"{float(end)!r}}};"
        )
        weight = 8 if self.weight == "double" else 4
        bytes_each = mul(self._taps(axis, scale), 8 + weight)
        memory = call.scratch(round_up(mul(bytes_each + 1, self.out[axis]), 64))
        made = f"cuvil::resize_table<{self.weight}>(how, axis{axis}, {memory})"
        call.line(f"const auto table{axis} = {made};")

    def _taps(self, axis: int, scale: float) -> Dim:
        """At least native resize_taps."""
        attrs = self.op.attrs
        if self.nearest:
            return 1
        radius = 1 if attrs["mode"] == "linear" else 2
        if not attrs.get("antialias", False):
            return 2 * radius
        if scale:
            return 2 * (int(radius / min(scale, 1.0)) + 2)
        shrunk = ceildiv(mul(self.shape[axis], radius), maximum(self.out[axis], 1))
        return mul(maximum(radius, shrunk) + 1, 2)

    def _pass(self, step: _Step, shape: list[Dim], source: str, target: str) -> None:
        call, first, last = self.call, step.axes[0], step.axes[-1]
        outer, inner = product(shape[:first]), product(shape[last + 1 :])
        sizes = ", ".join(call.text(d) for d in (outer, *shape[first : last + 1], inner))
        tables = ", ".join(f"table{a}" for a in step.axes)
        name, lines = "resize_axis", ""
        if len(step.axes) == 2:
            name, lines = "resize_plane", f"({self.element}*)nullptr, "
            if not self.nearest:
                row = round_up(mul(mul(shape[last], inner), self.size), 64)
                lines = f"({self.element}*){call.scratch(mul(row, symbol(THREADS)))}, "
        call.line(
            f"cuvil::{name}<{flag(self.nearest)}>({source}, {target}, {sizes}, {tables}, "
            f"{lines}rc.pool);"
        )

    def _fill(self, axes: Sequence[int], target: str) -> None:
        call, dtype = self.call, self.op.type.dtype
        number = float(self.op.attrs.get("extrapolation") or 0.0)
        value = literal(number if dtype.is_float else int(number), dtype)
        call.line(f"const {storage(dtype)} beyond = {value};")
        if self.nearest:
            call.line(f"const auto bits = __builtin_bit_cast({self.element}, beyond);")
        for axis in axes:
            outer, inner = product(self.out[:axis]), product(self.out[axis + 1 :])
            call.line(
                f"cuvil::fill_outside({target}, {call.text(outer)}, {call.text(inner)}, "
                f"table{axis}, {'bits' if self.nearest else 'beyond'});"
            )


def resize(op: Op, facts: Facts, target: Target) -> Kernel:
    """resize of any type (native/resize.hpp); linear and cubic of f32 and f64."""
    return _Resize(op, facts).write()
