"""Kernels that fuse with nothing, in C: pools and recurrent layers (library/layers.c)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cuvil.codegen.c import axes
from cuvil.codegen.c.call import LibraryCall, refused
from cuvil.codegen.c.spelling import c_text
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.literals import literal
from cuvil.codegen.native_call import constant_array, split_axis
from cuvil.ir.core import Op
from cuvil.ir.types import F32, I32, I64
from cuvil.ops.recurrent import ACTIVATIONS, GATES, OPTIONAL, gate_functions
from cuvil.ops.windows import spatial_dims
from cuvil.sym.expr import Dim
from cuvil.sym.facts import Facts

AHEAD = 4
"""Steps whose input products are made at once (CUVIL_AHEAD)."""
_STEPS: Mapping[str, str] = {
    "lstm": "cuvil_lstm_step", "gru": "cuvil_gru_step", "rnn": "cuvil_rnn_step",
}  # fmt: skip


def _axes(call: LibraryCall) -> None:
    op = call.op
    last = bool(op.attrs.get("channels_last"))
    sizes = spatial_dims(op.operands[0].type.shape, last)
    counts = spatial_dims(op.results[0].type.shape, last)
    rows = []
    for axis in range(3):
        at = axis - (3 - len(sizes))
        values: list[Dim] = [1, 1, 1, 1, 1, 0, 0]
        if at >= 0:
            keys = ("kernel", "strides", "dilations", "pads_lo", "pads_hi")
            values = [sizes[at], counts[at], *(op.attrs[k][at] for k in keys)]
        rows.append("{" + ", ".join(call.text(v) for v in values) + "}")
    call.line(f"const cuvil_axis axes[3] = {{{', '.join(rows)}}};")


def _pool(op: Op, facts: Facts) -> Kernel:
    call = LibraryCall(op, facts)
    x, last = op.operands[0].type, bool(op.attrs.get("channels_last"))
    if op.short == "avg_pool" and not x.dtype.is_float:
        raise refused(op, "the target c averages floats")
    _axes(call)
    n, c = call.text(x.shape[0]), call.text(x.shape[-1 if last else 1])
    if op.short == "max_pool":
        lowest = -np.inf if x.dtype.is_float else np.iinfo(x.dtype.numpy).min
        extra = c_text(literal(lowest, x.dtype))
    else:
        extra = "true" if op.attrs.get("count_include_pad") else "false"
    call.line(
        f"cuvil_{op.short}_{x.dtype.name}({call.input(0)}, {call.outputs[0]}, axes, {n}, {c}, "
        f"{'true' if last else 'false'}, {extra});"
    )
    return call.done()


class _Layer:
    """Writes a recurrent layer: for each direction its parameters, and the loop over steps."""

    def __init__(self, op: Op, facts: Facts) -> None:
        if op.operands[0].type.dtype != F32:
            raise refused(op, "the target c has recurrent layers of f32")
        self.op = op
        self.call = LibraryCall(op, facts)
        self.hidden: int = op.attrs["hidden"]
        self.rows = GATES[op.short] * self.hidden
        given = [f for f in OPTIONAL if op.attrs.get(f, False)]
        self.optional = dict(zip(given, range(3, 3 + len(given)), strict=True))
        self.size = op.operands[0].type.shape[2]
        self.packed = [self._weights(1, self.size), self._weights(2, self.hidden)]
        self.apart = self.hidden if op.short == "gru" else 0
        self.biases = self.rows + self.apart
        self.bias = self._bias()

    def _weights(self, index: int, columns: Dim) -> str:
        """Weights [D, rows, columns] in panels: packed when the model is compiled, or here."""
        value, call = self.op.operands[index], self.call
        if not isinstance(columns, int):
            raise refused(self.op, "the size of its inputs is symbolic")
        array = constant_array(value)
        gru = index == 2 and self.op.short == "gru"
        if array is not None and array.shape == value.type.shape:
            packing = "gru" if gru else "turned"
            return call.kernel.buffer(value, "w" if index == 1 else "r", packing=packing)
        parts = (2 * self.hidden, self.hidden) if gru else (self.rows,)
        directions = value.type.shape[0]
        assert isinstance(directions, int)
        packed = call.scratch(directions * self.rows * columns)
        to = row = 0
        for n in parts * directions:
            call.line(
                f"cuvil_pack({packed} + {to}, {call.input(index)} + {row * columns}, {columns}, "
                f"{n}, 1, {columns});"
            )
            to, row = to + columns * n, row + n
        return packed

    def _bias(self) -> str:
        """Both biases [D, 2 * rows] in one: summed when the model is compiled, or here. The last
        ``apart`` of the second one stand behind the sums."""
        if "has_bias" not in self.optional:
            return ""
        call, rows, index = self.call, self.rows, self.optional["has_bias"]
        value = self.op.operands[index]
        array = constant_array(value)
        if array is not None and array.shape == value.type.shape:
            return call.kernel.buffer(value, "bias", packing=f"biases:{self.apart}")
        directions = value.type.shape[0]
        assert isinstance(directions, int)
        summed, given = call.scratch(directions * self.biases), call.input(index)
        for d in range(directions):
            to, first = f"({summed})[{d * self.biases} + i]", f"{given}[{2 * d * rows} + i]"
            second = f"{given}[{(2 * d + 1) * rows} + i]"
            call.loop("i", rows - self.apart)
            call.line(f"{to} = {first} + {second};")
            call.close()
            if self.apart:
                call.line(f"for (ptrdiff_t i = {rows - self.apart}; i < {rows}; ++i) {{")
                call.line(f"  {to} = {first};")
                call.line(f"  ({summed})[{d * self.biases + self.apart} + i] = {second};")
                call.line("}")
        return summed

    def write(self) -> Kernel:
        """The kernel."""
        call, op = self.call, self.op
        steps, batch, _ = op.operands[0].type.shape
        kind = op.attrs["direction"]
        flags = [False, True] if kind == "bidirectional" else [kind == "reverse"]
        scratch = call.scratch(AHEAD * self.rows + 4 * self.hidden)
        call.line("cuvil_layer layer = {0};")
        for name, dim in (("steps", steps), ("batch", batch), ("size", self.size),
                          ("hidden", self.hidden), ("directions", len(flags))):  # fmt: skip
            call.line(f"layer.{name} = {call.text(dim)};")
        for name in ("linear_before_reset", "input_forget"):
            if op.attrs.get(name):
                call.line(f"layer.{name} = true;")
        if op.attrs.get("clip") is not None:
            call.line(f"layer.clip = {max(float(op.attrs['clip']), 1e-37)!r}f;")
        call.line(f"layer.x = {call.input(0)};")
        for name, pointer in zip(("y", "h", "c"), call.outputs, strict=False):
            call.line(f"layer.{name} = {pointer};")
        call.line(f"layer.scratch = {scratch};")
        self._states()
        for d, backward in enumerate(flags):
            self._direction(d, backward)
        return call.done()

    def _states(self) -> None:
        call = self.call
        for name in ("h0", "c0"):
            if f"has_{name}" in self.optional:
                call.line(f"layer.{name} = {call.input(self.optional[f'has_{name}'])};")
        at = self.optional.get("has_seq_lens")
        if at is not None:
            dtype = self.op.operands[at].type.dtype
            if dtype not in (I32, I64):
                raise refused(self.op, f"the target c has no lengths of {dtype}")
            call.line(f"layer.lengths{'' if dtype == I64 else '32'} = {call.input(at)};")

    def _direction(self, d: int, backward: bool) -> None:
        call, op = self.call, self.op
        call.line(f"layer.direction = {d};")
        call.line(f"layer.backward = {'true' if backward else 'false'};")
        assert isinstance(self.size, int)
        sizes = (self.size * self.rows, self.hidden * self.rows)
        for name, pointer, size in zip("wr", self.packed, sizes, strict=True):
            call.line(f"layer.{name} = {pointer} + {d * size};")
        if self.bias:
            call.line(f"layer.bias = {self.bias} + {d * self.biases};")
        if "has_peephole" in self.optional:
            peephole = call.input(self.optional["has_peephole"])
            call.line(f"layer.peephole = {peephole} + {d * 3 * self.hidden};")
        for at, (name, alpha, beta) in enumerate(gate_functions(op.short, op.attrs)[d]):
            call.line(f"layer.functions[{at}] = cuvil_gate_{name};")
            if ACTIVATIONS[name].reads:
                call.line(f"layer.alpha[{at}] = {c_text(literal(alpha, F32))};")
                call.line(f"layer.beta[{at}] = {c_text(literal(beta, F32))};")
        call.line(f"cuvil_recurrent(&layer, {GATES[op.short]}, {_STEPS[op.short]});")


def _recurrent(op: Op, facts: Facts) -> Kernel:
    return _Layer(op, facts).write()


def _topk(op: Op, facts: Facts) -> Kernel:
    """The positions that come first, in a heap where their output is."""
    call, dtype = LibraryCall(op, facts), op.operands[0].type.dtype
    sizes = map(call.text, split_axis(op.operands[0].type.shape, op.attrs["axis"]))
    k, largest = call.text(op.attrs["k"]), "true" if op.attrs["largest"] else "false"
    name = "u8" if dtype.name == "bool" else dtype.name
    arguments = [call.input(0), *call.outputs, *sizes, k, largest]
    call.line(f"cuvil_topk_{name}({', '.join(arguments)});")
    return call.done()


Builder = Callable[[Op, Facts], Kernel]

BUILDERS: Mapping[str, Builder] = {
    "max_pool": _pool,
    "avg_pool": _pool,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn": _recurrent,
    "cumsum": axes.running,
    "cumprod": axes.running,
    "scatter_elements": axes.scatter_elements,
    "scatter_nd": axes.scatter_nd,
    "resize": axes.resize,
    "topk": _topk,
}


def layer_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of an op that stands alone. Raises UnsupportedOpError if C has none."""
    builder = BUILDERS.get(op.short)
    if builder is None:
        raise refused(op, "the target c has no kernel for it")
    return builder(op, facts)

