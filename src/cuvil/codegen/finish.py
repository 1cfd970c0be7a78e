"""The part of a contraction's epilogue that the native kernels do in registers (epilogue.hpp,
Finish): a bias, a residual, a clamp, in this order; and for products of bf16, what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.analysis.contraction_views import is_pair_product, reads_pairs
from cuvil.codegen.contraction_call import Call
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, F32
from cuvil.passes.matching import scalar_of


@dataclass
class Finish:
    """``bias`` is a vector over columns, ``residual`` lies as the result does, in f32 or, for
    products of bf16, in that. ``kept`` and ``half`` are the positions of the outputs that get the
    result, and the result as bf16."""

    bias: Value | None = None
    residual: Value | None = None
    low: float | None = None
    high: float | None = None
    kept: int | None = 0
    half: int | None = None


def finish_of(op: Op, main: Op) -> Finish | None:
    """What follows ``main`` in a fused op, if it is nothing but what Finish has."""
    stored = _stored(op.regions[0].terminator.operands, main)
    if stored is None:
        return None
    # A value that is also read elsewhere is still the only one that is stored.
    return _parts(*stored, main)


def finish_between(main: Op, value: Value) -> Finish | None:
    """What makes ``value`` of the result of ``main``, if it is nothing but what Finish has."""
    return _parts(Finish(), value, main)


def _parts(found: Finish, value: Value, main: Op) -> Finish | None:
    for step in (_take_high, _take_low, _take_residual, _take_bias):
        value = step(found, value, main)
    return found if value is main.results[0] else None


def _stored(results: Sequence[Value], main: Op) -> tuple[Finish, Value] | None:
    """What goes to which output, and the f32 value that it is made of."""
    if main.type.dtype != F32:
        return None
    casts = [_source_of_half(v) if reads_pairs(main) else None for v in results]
    if len(results) == 1:
        return (Finish(), results[0]) if casts[0] is None else (Finish(kept=None, half=0), casts[0])
    for half, kept in ((0, 1), (1, 0)):
        if len(results) == 2 and casts[half] is results[kept]:
            return Finish(kept=kept, half=half), results[kept]
    return None


def _source_of_half(value: Value) -> Value | None:
    op = value.op
    if op is None or op.short != "cast" or op.type.dtype != BF16:
        return None
    return op.operands[0]


def _take_high(found: Finish, value: Value, main: Op) -> Value:
    rest, found.high = _without_scalar(value, "min")
    return rest


def _take_low(found: Finish, value: Value, main: Op) -> Value:
    rest, found.low = _without_scalar(value, "max")
    return rest


def _without_scalar(value: Value, name: str) -> tuple[Value, float | None]:
    op = value.op
    if op is None or op.short != name or op.type.dtype != F32:
        return value, None
    for a, b in (op.operands, op.operands[::-1]):
        number = scalar_of(b)
        if number is not None and number == number:
            return a, float(number)
    return value, None


def _take_residual(found: Finish, value: Value, main: Op) -> Value:
    op = value.op
    if op is None or op.short != "add" or op.type != main.type:
        return value
    for a, b in (op.operands, op.operands[::-1]):
        source = _residual_of(b, main)
        if source is not None and a.op is not None:
            found.residual = source
            return a
    return value


def _residual_of(value: Value, main: Op) -> Value | None:
    """The argument, as the result in shape, that ``value`` is or is widened from."""
    if value.type != main.type:
        return None
    if value.op is None:
        return value
    if value.op.short != "cast" or not is_pair_product(main):
        return None
    source = value.op.operands[0]
    return source if source.op is None and source.type.dtype == BF16 else None


def _take_bias(found: Finish, value: Value, main: Op) -> Value:
    op = value.op
    if op is None or op.short != "add" or op.type != main.type:
        return value
    for a, b in (op.operands, op.operands[::-1]):
        if a is main.results[0] and (vector := _column_vector(b, main)) is not None:
            found.bias = vector
            return a
    return value


def _column_vector(value: Value, main: Op) -> Value | None:
    """The argument that is broadcast along rows, of which it has one number a column."""
    source = value
    if value.op is not None:
        if value.op.short != "broadcast":
            return None
        source = value.op.operands[0]
    shape = source.type.shape
    columns = main.type.shape[-1]
    if source.op is not None or source.type.dtype != F32 or not shape:
        return None
    return source if shape[-1] == columns and all(d == 1 for d in shape[:-1]) else None


def direct_output(call: Call, finish: Finish) -> str:
    """Where the kernel writes, as a pointer to f32."""
    if finish.kept is not None:
        return call.names[finish.kept]
    assert finish.half is not None
    return f"(float*){call.names[finish.half]}"


def set_finish(call: Call, finish: Finish, field: str = "finish") -> None:
    """Fill ``args.finish`` or such a field, and let the kernel write to the outputs itself."""
    if finish.half is not None:
        call.set(f"{field}.half", call.names[finish.half])
        call.set(f"{field}.half_only", "true" if finish.kept is None else "false")
    for name, value in (("bias", finish.bias), ("residual", finish.residual)):
        if value is not None:
            half = "_half" if value.type.dtype == BF16 else ""
            call.set(f"{field}.{name}{half}", call.kernel.buffer(value, name))
    if finish.low is not None or finish.high is not None:
        call.set(f"{field}.low", _number(finish.low, "-__builtin_inff()"))
        call.set(f"{field}.high", _number(finish.high, "__builtin_inff()"))
        call.set(f"{field}.clamped", "true")


def _number(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value!r}f"
