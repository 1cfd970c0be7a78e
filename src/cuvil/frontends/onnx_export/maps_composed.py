"""Maps that are written with several operators."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cuvil.frontends.onnx_export.maps import WIDE, Body, Map, Writer, known
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, BOOL, DTYPES, F16, F32, DType
from cuvil.ops.rounded import ROUNDED


def _trunc(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    negative = s.node("Less", a[0], s.number(0, t))
    return s.node("Where", negative, s.node("Ceil", a[0]), s.node("Floor", a[0]))


def _rsqrt(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Reciprocal", s.node("Sqrt", a[0]))


def _exp2(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Pow", s.number(2, t), a[0])


def _expm1(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """tanh(x / 2) (exp(x) + 1), which cancels nowhere."""
    half = s.node("Tanh", s.node("Mul", a[0], s.number(0.5, t)))
    return s.node("Mul", half, s.node("Add", s.node("Exp", a[0]), s.number(1, t)))


def _log1p(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """log(u) x / (u - 1) with u = 1 + x rounded (Kahan); x where u is 1, u where it is inf."""
    one = s.number(1, t)
    u = s.node("Add", a[0], one)
    off = s.node("Sub", u, one)
    same = s.node("Equal", off, s.number(0, t))
    safe = s.node("Where", same, one, off)
    scaled = s.node("Mul", s.node("Log", u), s.node("Div", a[0], safe))
    ends = s.node("Where", same, a[0], scaled)
    return s.node("Where", s.node("Equal", u, s.number(np.inf, t)), u, ends)


def _log2(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Mul", s.node("Log", a[0]), s.number(1 / math.log(2), t))


def _silu(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Mul", a[0], s.node("Sigmoid", a[0]))


def _gelu(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, as runtimes look for it."""
    inner = s.node("Erf", s.node("Div", a[0], s.number(math.sqrt(2), t)))
    outer = s.node("Mul", a[0], s.node("Add", inner, s.number(1, t)))
    return s.node("Mul", outer, s.number(0.5, t))


def _gelu_tanh(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    cube = s.node("Mul", s.node("Mul", a[0], a[0]), a[0])
    inner = s.node("Add", a[0], s.node("Mul", cube, s.number(0.044715, t)))
    bent = s.node("Tanh", s.node("Mul", inner, s.number(math.sqrt(2 / math.pi), t)))
    outer = s.node("Mul", a[0], s.node("Add", bent, s.number(1, t)))
    return s.node("Mul", outer, s.number(0.5, t))


def _atan2(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """The angle of |y| and |x|, turned by the signs of x and y (those of zeros too)."""
    y, x = a
    zero, one = s.number(0, t), s.number(1, t)
    high, wide = s.node("Abs", y), s.node("Abs", x)
    alike = s.node("Equal", high, wide)  # zeros or infinities, or simply 1
    infinite = s.node("IsInf", s.cast(high, t, F32) if t == F16 else high)
    diagonal = s.node("And", alike, infinite)
    flat = s.node("And", alike, s.node("Equal", high, zero))
    ratio = s.node("Div", s.node("Where", diagonal, one, high),
                   s.node("Where", s.node("Or", diagonal, flat), one, wide))  # fmt: skip
    angle = s.node("Atan", ratio)
    back = s.node("Sub", s.number(math.pi, t), angle)
    turned = s.node("Where", _is_negative(s, x, t), back, angle)
    return s.node("Where", _is_negative(s, y, t), s.node("Neg", turned), turned)


def _is_negative(s: Scope, x: str, t: DType) -> str:
    zero = s.number(0, t)
    return s.node("Or", s.node("Less", x, zero), s.node("Less", s.node("Reciprocal", x), zero))


def _divides_safely(op: Op, t: DType) -> bool:
    """Whether the divisor is known, and neither 0 nor, for signed numbers, -1."""
    divisor = known(op.operands[1])
    if divisor is None or (divisor == 0).any():
        return False
    return t.kind == "u" or not bool((divisor == -1).any())


def _guarded(op: Op, s: Scope, t: DType, a: list[str], name: str, minus_one: str) -> str:
    """``name(a, b)``, 0 where b is 0; ``minus_one`` stands for it where b is -1: neither may reach
    the processor's division."""
    zero, one = s.number(0, t), s.number(1, t)
    bad = s.node("Equal", a[1], zero)
    special = bad
    if t.kind != "u":
        inverse = s.node("Equal", a[1], s.number(-1, t))
        special = s.node("Or", bad, inverse)
    out = s.node(name, a[0], s.node("Where", special, one, a[1]))
    if t.kind != "u":
        out = s.node("Where", inverse, minus_one, out)
    return s.node("Where", bad, zero, out)


def _div(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    if t.is_float or _divides_safely(op, t):
        return s.node("Div", *a)
    negative = s.node("Sub", s.number(0, t), a[0]) if t.kind != "u" else ""
    return _guarded(op, s, t, a, "Div", negative)


def _fmod(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    if t.is_float:
        return s.node("Mod", *a, fmod=1)
    quotient = _div(s, op, t, a)
    rest = s.node("Sub", a[0], s.node("Mul", quotient, a[1]))
    if _divides_safely(op, t):
        return rest
    return s.node("Where", s.node("Equal", a[1], s.number(0, t)), s.number(0, t), rest)


def _mod(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """The sign of the divisor."""
    if not t.is_float:
        if _divides_safely(op, t):
            return s.node("Mod", *a)
        return _guarded(op, s, t, a, "Mod", s.number(0, t))
    zero = s.number(0, t)
    rest = s.node("Mod", *a, fmod=1)
    apart = s.node("Xor", s.node("Less", rest, zero), s.node("Less", a[1], zero))
    moved = s.node("And", apart, s.node("Not", s.node("Equal", rest, zero)))
    return s.node("Where", moved, s.node("Add", rest, a[1]), rest)


def _floordiv(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    if not t.is_float:
        return _integer_floor(s, op, t, a)
    rest = _mod(s, op, t, a)
    whole = s.node("Round", s.node("Div", s.node("Sub", a[0], rest), a[1]))
    straight = s.node("Div", *a)
    return s.node("Where", s.node("Equal", a[1], s.number(0, t)), straight, whole)


def _integer_floor(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """The truncated quotient, less one where it was rounded up."""
    quotient = _div(s, op, t, a)
    if t.kind == "u":
        return quotient
    zero = s.number(0, t)
    rest = s.node("Sub", a[0], s.node("Mul", quotient, a[1]))
    apart = s.node("Xor", s.node("Less", rest, zero), s.node("Less", a[1], zero))
    up = s.node("And", apart, s.node("Not", s.node("Equal", rest, zero)))
    out = s.node("Sub", quotient, s.cast(up, BOOL, t))
    if _divides_safely(op, t):
        return out
    return s.node("Where", s.node("Equal", a[1], zero), zero, out)


def _pow(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """Integers by squaring, which wraps; a negative exponent gives the truncated 1 / x**n."""
    if t.is_float:
        return s.node("Pow", *a)
    base, exponent = a
    given = known(op.operands[1])
    own = op.operands[1].type.dtype
    most = 2 ** (own.bits - (own.kind != "u")) - 1
    if given is not None and given.size:
        most = int(max(0, given.max()))
    one, two = s.number(1, t), s.number(2, t)
    result, square, left = one, base, s.node("Max", exponent, s.number(0, t))
    for bit in range(most.bit_length()):
        odd = s.node("Equal", s.node("Mod", left, two), one)
        result = s.node("Mul", result, s.node("Where", odd, square, one))
        if bit + 1 < most.bit_length():
            square, left = s.node("Mul", square, square), s.node("Div", left, two)
    if not most:
        nothing = s.node("Add", s.node("Sub", base, base), s.node("Sub", exponent, exponent))
        result = s.node("Add", nothing, one)
    if t.kind == "u" or (given is not None and given.size and given.min() >= 0):
        return result
    even = s.node("Equal", s.node("Mod", exponent, two), s.number(0, t))
    of_minus = s.node("Where", even, one, s.number(-1, t))
    minus = s.node("Equal", base, s.number(-1, t))
    plus = s.node("Equal", base, one)
    inverse = s.node("Where", plus, one, s.node("Where", minus, of_minus, s.number(0, t)))
    return s.node("Where", s.node("Less", exponent, s.number(0, t)), inverse, result)


def _shift(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    """On the same bits without a sign; amounts outside 0 .. bits - 1 shift all bits out."""
    own = op.type.dtype
    zero = s.number(0, t)
    inside = s.node("And", s.node("GreaterOrEqual", a[1], zero),
                    s.node("Less", a[1], s.number(own.bits, t)))  # fmt: skip
    bits, unsigned = a[0], DTYPES["u" + t.name[1:]]
    arithmetic = op.short == "shr" and own.kind == "i"
    if arithmetic:
        negative = s.node("Less", a[0], zero)
        bits = s.node("Where", negative, s.node("BitwiseNot", bits), bits)
    amount = s.node("Mul", a[1], s.cast(inside, BOOL, t))
    direction = "LEFT" if op.short == "shl" else "RIGHT"
    moved = s.node("BitShift", s.cast(bits, t, unsigned), s.cast(amount, t, unsigned),
                   direction=direction)  # fmt: skip
    out = s.node("Mul", s.cast(moved, unsigned, t), s.cast(inside, BOOL, t))
    return s.node("Where", negative, s.node("BitwiseNot", out), out) if arithmetic else out


_BODIES: Mapping[str, Body] = {
    "trunc": _trunc, "rsqrt": _rsqrt, "exp2": _exp2, "expm1": _expm1, "log1p": _log1p,
    "log2": _log2, "silu": _silu, "gelu": _gelu, "gelu_tanh": _gelu_tanh, "atan2": _atan2,
    "div": _div, "fmod": _fmod, "mod": _mod, "floordiv": _floordiv, "pow": _pow,
    "shl": _shift, "shr": _shift,
}  # fmt: skip


def _rounded(body: Body) -> Writer:
    """The writer of an activation of f32 that gives bf16."""

    def write(scope: Scope, op: Op) -> list[str]:
        return [scope.cast(body(scope, op, F32, [scope.name(op.operands[0])]), F32, BF16)]

    return write


WRITERS: Mapping[str, Writer] = {
    **{name: Map(body, WIDE) for name, body in _BODIES.items()},
    **{bf16: _rounded(_BODIES[name]) for name, bf16 in ROUNDED.items()},
}
