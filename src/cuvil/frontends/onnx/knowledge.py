"""What is known at capture: constants folded through the ops' references, shapes as dims.

Models compute shapes, scales and conditions with tensors; operators that need such a value as an
attribute ask here. Three answers, each or None: the array of a value that depends on constants
only, the dims of an integer tensor that depends on symbols only, and the same through floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Op, Value
from cuvil.ir.keeping import is_keeping
from cuvil.ir.types import I64
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, Expr, add, floordiv, mul

Array = np.ndarray[Any, Any]
Ratio = tuple[Dim, int]
_SMALL = 64
MOST_DIMS = 1 << 16
_CONSTANT_LIMIT = 1 << 24
_MOVES = ("reshape", "transpose", "broadcast", "slice", "concat", "gather")


@dataclass(frozen=True)
class Codes:
    """What a dequantized value was made of, as the node has it. ``axis`` is that of ``scale`` and
    ``zero``, None where both count for the whole."""

    real: Value
    codes: Value
    scale: Value
    zero: Value | None
    axis: int | None


class Knowledge:
    """Answers about values of one function under construction; results are remembered."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self._arrays: dict[int, tuple[Value, Array | None]] = {}
        self._ratios: dict[int, tuple[Value, Array | None]] = {}
        self._codes: dict[int, Codes] = {}

    def note_codes(self, codes: Codes) -> None:
        """Remember that a value was dequantized."""
        self._codes[id(codes.real)] = codes

    def codes(self, value: Value) -> Codes | None:
        """What a value was dequantized from."""
        return self._codes.get(id(value))

    def array(self, value: Value) -> Array | None:
        """The elements, if they depend on constants only and are not too many."""
        todo = [value]
        while todo:
            current = todo[-1]
            waits = self._waits(current)
            if waits:
                todo.extend(waits)
                continue
            if id(current) not in self._arrays:
                self._arrays[id(current)] = (current, self._fold(current))
            todo.pop()
        return self._arrays[id(value)][1]

    def _waits(self, value: Value) -> list[Value]:
        """Operands whose arrays are still to be asked for; none if the answer doesn't need them."""
        op = value.op
        if id(value) in self._arrays or op is None or not _foldable(value):
            return []
        kept = [self._arrays.get(id(v)) for v in op.operands]
        if any(k is not None and k[1] is None for k in kept):
            return []
        return [v for v, k in zip(op.operands, kept, strict=True) if k is None]

    def _fold(self, value: Value) -> Array | None:
        op = value.op
        if op is None:
            return None
        if op.short == "constant":
            return self.e.constant(value)
        if not _foldable(value):
            return None
        operands = []
        for operand in op.operands:
            kept = self._arrays.get(id(operand))
            if kept is None or kept[1] is None:
                return None
            operands.append(kept[1])
        rule = registry()[op.name].reference
        return np.asarray(rule(operands, op.attrs, [r.type for r in op.results])[value.index])

    def dims(self, value: Value) -> list[Dim] | None:
        """The elements of an integer or bool tensor as dims, flat."""
        if value.type.dtype.is_float:
            return None
        array = self.array(value)
        if array is not None:
            return [int(x) for x in array.reshape(-1)] if array.size <= MOST_DIMS else None
        return self.e.known(value)

    def whole(self, value: Value) -> list[Dim] | None:
        """As ``dims``, and for floats that are whole numbers too."""
        if not value.type.dtype.is_float:
            return self.dims(value)
        array = self.array(value)
        if array is not None:
            flat = [float(x) for x in array.reshape(-1)]
            return [int(x) for x in flat] if all(x.is_integer() for x in flat) else None
        pairs = self.ratios(value)
        if pairs is None or any(den != 1 for _, den in pairs.reshape(-1)):
            return None
        return [num for num, _ in pairs.reshape(-1)]

    def settle(self, value: Value) -> Value:
        """A small integer or bool tensor whose elements are known, as a source op of its own.

        Later questions then find the answer at once, however long the chain behind it.
        """
        op, dtype = value.op, value.type.dtype
        if op is None or op.short in ("constant", "dims") or not value.type.is_static:
            return value
        if dtype.is_float or int(value.type.elements) > _SMALL:  # type: ignore[arg-type]
            if int(value.type.elements) <= _SMALL:  # type: ignore[arg-type]
                self.ratios(value)
            return value
        known = self.dims(value)
        if known is None and op.short == "cast":
            known = self._truncated(op.operands[0])
        if known is None:
            return value
        if not any(isinstance(d, Expr) for d in known):
            data = np.array(known, dtype=object).astype(dtype.numpy)
            return self.e.weight(data.reshape(value.type.shape))
        flat = self.e.dims(known)
        return (
            self.e.cast(self.e.reshape(flat, value.type.shape), dtype)
            if (value.type.rank != 1 or dtype != I64)
            else flat
        )

    def _truncated(self, value: Value) -> list[Dim] | None:
        ratios = self.ratios(value)
        if ratios is None:
            return None
        out = []
        for num, den in ratios.reshape(-1):
            if den != 1 and not self.e.context.facts.nonnegative(num):
                return None
            out.append(self.e.simplify(floordiv(num, den)))
        return out

    def ratios(self, value: Value) -> Array | None:
        """A small float tensor as exact fractions (num: Dim, den: int), an object array.

        Only where f32 arithmetic gives the same integers for sizes below 2**12 and divisors up to
        1024: a product or quotient of such integers is then exact or rounds to the same floor.
        """
        kept = self._ratios.get(id(value))
        if kept is None:
            kept = self._ratios[id(value)] = (value, self._ratio(value))
        return kept[1]

    def _ratio(self, value: Value) -> Array | None:
        op = value.op
        if op is None or not value.type.is_static:
            return None
        if int(value.type.elements) > _SMALL:  # type: ignore[arg-type]
            return None
        if not value.type.dtype.is_float:
            known = self.dims(value)
            return None if known is None else _pack([(d, 1) for d in known], value)
        array = self.e.constant(value)
        if array is not None:
            pairs = [_fraction(float(x)) for x in array.reshape(-1)]
            return None if any(p is None for p in pairs) else _pack(pairs, value)
        inputs = [self.ratios(v) for v in op.operands]
        if not inputs or any(x is None for x in inputs):
            return None
        return self._ratio_of(op, inputs, value)

    def _ratio_of(self, op: Op, inputs: list[Any], value: Value) -> Array | None:
        if op.short in _MOVES:
            if op.short == "gather":
                index = self.array(op.operands[1])
                if index is None:
                    return None
                inputs[1] = index
            moved = registry()[op.name].reference(inputs, op.attrs, [value.type])[0]
            return np.asarray(moved, dtype=object)
        if op.short == "cast":
            return np.asarray(inputs[0])
        columns = zip(*(x.reshape(-1) for x in inputs), strict=True)
        pairs = [_arithmetic(op.short, items) for items in columns]
        return None if any(p is None for p in pairs) else _pack(pairs, value)


def _foldable(value: Value) -> bool:
    """Whether the value's shape and its op's attributes are known, and it is not too large."""
    op = value.op
    if op is None or op.regions or is_keeping(op) or not value.type.is_static:
        return False
    if int(value.type.elements) > _CONSTANT_LIMIT:  # type: ignore[arg-type]
        return False
    return not any(
        isinstance(d, Expr) for key in ("values", "start") for d in op.attrs.get(key, ())
    )


def _pack(pairs: Any, value: Value) -> Array:
    out = np.empty(len(pairs), dtype=object)
    for i, pair in enumerate(pairs):
        out[i] = pair
    return out.reshape(value.type.shape)


def _fraction(number: float) -> Ratio | None:
    if not np.isfinite(number):
        return None
    exact = Fraction(number)
    if exact.denominator > 1024 or abs(exact.numerator) > 1 << 24:
        return None
    return exact.numerator, exact.denominator


def _arithmetic(kind: str, items: tuple[Ratio, ...]) -> Ratio | None:
    (a, p) = items[0]
    if kind == "neg":
        return mul(a, -1), p
    if kind == "floor":
        return floordiv(a, p), 1
    if kind == "ceil":
        return mul(floordiv(mul(a, -1), p), -1), 1
    if len(items) != 2:
        return None
    (b, q) = items[1]
    if kind == "add":
        return _reduced(add(mul(a, q), mul(b, p)), p * q)
    if kind == "sub":
        return _reduced(add(mul(a, q), mul(b, -p)), p * q)
    if kind == "mul":
        return _reduced(mul(a, b), p * q)
    if kind == "div" and isinstance(b, int) and b > 0:
        return _reduced(mul(a, q), p * b)
    return None


def _reduced(num: Dim, den: int) -> Ratio | None:
    if den > 1024:
        return None
    whole = floordiv(num, den)
    return (whole, 1) if mul(whole, den) == num else (num, den)
