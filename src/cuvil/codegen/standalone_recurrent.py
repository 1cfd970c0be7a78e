"""Recurrent layers: LSTM, GRU and the plain RNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from cuvil.codegen.kernel import Kernel, storage
from cuvil.codegen.native_call import NativeCall, constant_array, flag, round_up
from cuvil.codegen.packing_rnn import GATES, Kind
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, F32
from cuvil.ops.recurrent import OPTIONAL, gate_functions
from cuvil.sym.expr import Dim, add, mul, product
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_KINDS: Mapping[str, str] = {"lstm": "kLstm", "gru": "kGru", "rnn": "kRnn"}


def _gates(op: Op) -> int:
    return GATES[cast(Kind, op.short)]


def _clip(op: Op) -> str:
    """0 turns clipping off in the native function; a bound of 0 becomes the least float."""
    bound = op.attrs.get("clip")
    if bound is None:
        return "0"
    suffix = "f" if op.operands[0].type.dtype == F32 else ""
    return f"{max(float(bound), 1e-37)!r}{suffix}"


def _set_functions(call: NativeCall, op: Op) -> None:
    for d, gates in enumerate(gate_functions(op.short, op.attrs)):
        for at, (name, alpha, beta) in enumerate(gates):
            kind = "k" + name.title().replace("_", "")
            call.set(f"functions[{d}][{at}]", f"{{cuvil::{kind}, {alpha!r}, {beta!r}}}")


class _Layer:
    """Writes the call of one layer."""

    def __init__(self, op: Op, facts: Facts, target: Target) -> None:
        self.op = op
        self.call = NativeCall(op, facts)
        self.kind = op.short
        self.lanes, self.nr = target.recurrent_lanes, target.nr
        self.hidden: int = op.attrs["hidden"]
        # Of bf16: x, w and r; the native struct has them as floats.
        self.pairs = op.operands[0].type.dtype == BF16
        self.kinds = ("rnn_w_bf16", "rnn_r_bf16") if self.pairs else ("rnn_w", "rnn_r")
        self.directions = 2 if op.attrs["direction"] == "bidirectional" else 1
        self.rows = self.directions * _gates(op) * self.hidden
        self.linear = bool(op.attrs.get("linear_before_reset", False))
        self.size: Dim = op.operands[0].type.shape[2]
        given = [f for f in OPTIONAL if op.attrs.get(f, False)]
        self.optional: dict[str, Value] = dict(zip(given, op.operands[3:], strict=True))

    def write(self) -> Kernel:
        """The kernel."""
        call = self.call
        steps, batch, _ = self.op.operands[0].type.shape
        call.line("cuvil::RecurrentArgs args = {};")
        call.set("kind", f"cuvil::{_KINDS[self.kind]}")
        call.set("directions", self.directions)
        call.set("reverse", flag(self.op.attrs["direction"] == "reverse"))
        for name, dim in (("steps", steps), ("batch", batch), ("size", self.size)):
            call.set(name, dim)
        call.set("hidden", self.hidden)
        call.set("x", self._floats(call.input(0)))
        call.set("linear_before_reset", flag(self.linear))
        call.set("input_forget", flag(self.op.attrs.get("input_forget")))
        call.set("clip", _clip(self.op))
        _set_functions(call, self.op)
        self._parameters()
        self._states(batch)
        for name, pointer in zip(("y", "h", "c"), call.outputs, strict=False):
            call.set(name, pointer)
        call.set("scratch", call.scratch(self._scratch(steps, batch)))
        call.set("pool", "rc.pool")
        if self.pairs:
            return call.finish("recurrent_bf16.hpp", "cuvil::recurrent_bf16(args);")
        return call.finish("recurrent.hpp", "cuvil::recurrent_f32(args);")

    def _floats(self, pointer: str) -> str:
        return f"(const float*){pointer}" if self.pairs else pointer

    def _constant(self, value: Value) -> bool:
        array = constant_array(value)
        return array is not None and array.shape == value.type.shape

    def _parameters(self) -> None:
        call = self.call
        w, r = self.op.operands[1:3]
        linear = int(self.linear)
        if self._constant(w):
            packing = f"{self.kinds[0]}:{self.kind}:{self.nr}"
            call.set("w", self._floats(call.packed(w, "w", packing)))
        else:
            columns = -(-self.rows // self.nr) * self.nr
            packed = call.scratch(mul(self.size, columns * 4))
            rows = call.scratch(mul(self.size, self.rows * 4))
            call.line(
                f"cuvil::pack_recurrent_w((float*){packed}, (float*){rows}, {call.input(1)}, args);"
            )
            call.set("w", f"(float*){packed}")
        if self._constant(r):
            packing = f"{self.kinds[1]}:{self.kind}:{self.lanes}:{linear}"
            call.set("r", self._floats(call.packed(r, "r", packing)))
        else:
            padded = -(-self.hidden // self.lanes) * self.lanes
            packed = call.scratch(self.rows * padded * 4)
            call.line(f"cuvil::pack_recurrent_r((float*){packed}, {call.input(2)}, args);")
            call.set("r", f"(float*){packed}")
        self._bias()
        self._peepholes()

    def _bias(self) -> None:
        value = self.optional.get("has_bias")
        if value is None:
            return
        call, scaled = self.call, self.kind == "gru" and self.linear
        if self._constant(value):
            options = f"{self.kind}:{int(self.linear)}"
            call.set("bias", call.packed(value, "bias", f"rnn_b:{options}"))
            if scaled:
                call.set("bias_h", call.packed(value, "bias_h", f"rnn_bh:{options}"))
            return
        bias = call.scratch(self.rows * 4)
        bias_h = call.scratch(self.directions * self.hidden * 4) if scaled else "nullptr"
        call.line(
            f"cuvil::pack_recurrent_bias((float*){bias}, (float*){bias_h}, "
            f"{self._pointer(value)}, args);"
        )
        call.set("bias", f"(float*){bias}")
        if scaled:
            call.set("bias_h", f"(float*){bias_h}")

    def _peepholes(self) -> None:
        value = self.optional.get("has_peephole")
        if value is None:
            return
        call = self.call
        if self._constant(value):
            call.set("peepholes", call.packed(value, "peepholes", "rnn_p"))
            return
        packed = call.scratch(self.directions * 3 * self.hidden * 4)
        call.line(
            f"cuvil::pack_recurrent_peepholes((float*){packed}, {self._pointer(value)}, args);"
        )
        call.set("peepholes", f"(float*){packed}")

    def _states(self, batch: Dim) -> None:
        call = self.call
        for flag_name, name in (("has_h0", "h0"), ("has_c0", "c0")):
            if flag_name in self.optional:
                call.set(name, self._pointer(self.optional[flag_name]))
        lengths = self.optional.get("has_seq_lens")
        if lengths is not None:
            copy = call.scratch(mul(batch, 8))
            call.set(
                "lengths",
                f"cuvil::recurrent_lengths<{storage(lengths.type.dtype)}>((int64_t*){copy}, "
                f"{self._pointer(lengths)}, {call.text(batch)})",
            )

    def _pointer(self, value: Value) -> str:
        at = next(i for i, v in enumerate(self.op.operands) if v is value)
        return self.call.input(at)

    def _scratch(self, steps: Dim, batch: Dim) -> Dim:
        """Native recurrent_scratch_bytes."""
        gates = mul(round_up(product((steps, batch, self.rows)), 16), 4)
        padded = -(-self.hidden // self.lanes) * self.lanes
        row = padded * (5 + _gates(self.op))
        return add(gates, mul(batch, self.directions * row * 4))


def plain_recurrent(op: Op, facts: Facts) -> Kernel:
    """The layer in plain loops over the operator's own layout (native/recurrent_plain.hpp)."""
    call = NativeCall(op, facts)
    element = op.operands[0].type.dtype.cxx
    steps, batch, size = op.operands[0].type.shape
    call.line(f"cuvil::PlainRecurrentArgs<{element}> args = {{}};")
    call.set("kind", f"cuvil::{_KINDS[op.short]}")
    call.set("directions", 2 if op.attrs["direction"] == "bidirectional" else 1)
    call.set("reverse", flag(op.attrs["direction"] == "reverse"))
    for name, dim in (("steps", steps), ("batch", batch), ("size", size)):
        call.set(name, dim)
    call.set("hidden", op.attrs["hidden"])
    for at, name in enumerate(("x", "w", "r")):
        call.set(name, call.input(at))
    given = [f for f in OPTIONAL if op.attrs.get(f, False)]
    for at, name in enumerate(given, 3):
        if name == "has_seq_lens":
            copy = call.scratch(mul(batch, 8))
            ctype = storage(op.operands[at].type.dtype)
            call.set(
                "lengths",
                f"cuvil::recurrent_lengths<{ctype}>((int64_t*){copy}, {call.input(at)}, "
                f"{call.text(batch)})",
            )
        else:
            call.set(name.removeprefix("has_"), call.input(at))
    call.set("linear_before_reset", flag(op.attrs.get("linear_before_reset")))
    call.set("input_forget", flag(op.attrs.get("input_forget")))
    call.set("clip", _clip(op))
    _set_functions(call, op)
    for name, pointer in zip(("y", "h", "c"), call.outputs, strict=False):
        call.set(name, pointer)
    floats = op.attrs["hidden"] * (4 + _gates(op))
    call.set("scratch", f"({element}*)" + call.scratch(floats * 8))
    return call.finish("recurrent_plain.hpp", "cuvil::recurrent_plain(args);")


def recurrent(op: Op, facts: Facts, target: Target) -> Kernel:
    """lstm, gru, rnn: f32 and bf16 by the native layer, f64 by plain loops."""
    if op.operands[0].type.dtype in (F32, BF16):
        return _Layer(op, facts, target).write()
    return plain_recurrent(op, facts)
