"""Elementwise functions that are formulas over others, and tests for special values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose, composed, operands, predicate
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, DTYPES, F64, DType


def _copysign(c: Call) -> Value:
    magnitude, sign = operands(c, c.dtype)
    size = c.e.op("abs", magnitude)
    return choose(c, sign_bit(c, sign), c.e.op("neg", size), size)


def sign_bit(c: Call, x: Value) -> Value:
    """True for negative numbers, -0.0 and NaN whose first bit is set: that of its bits."""
    if x.type.dtype.is_float:
        x = c.e.op("bitcast", x, dtype=DTYPES[f"i{x.type.dtype.bits}"])
    return c.e.with_scalar("lt", x, 0)


def _hypot(c: Call) -> Value:
    """Without overflow: in f64, or relative to the greater one. Infinite where either is, NaN or
    not beside it (C99, F.9.4.3)."""
    a, b = (Term(c.e, c.e.op("abs", v)) for v in operands(c, c.dtype))
    infinite = a.map("isinf").map("or", b.map("isinf"))
    if c.dtype == F64:
        top, low = a.map("max", b), a.map("min", b)
        ratio = low / top.equals(0).where(1.0, top)
        size = top * (ratio * ratio + 1.0).map("sqrt")
    else:
        wide_a, wide_b = a.cast(F64), b.cast(F64)
        size = (wide_a * wide_a + wide_b * wide_b).map("sqrt").cast(c.dtype)
    return infinite.where(math.inf, size).value


def _logaddexp(c: Call) -> Value:
    """max + log1p(exp(-|a - b|)), and the maximum alone where both are the same infinity."""
    a, b = operands(c, c.dtype)
    top = c.e.map("max", a, b)
    gap = c.e.op("neg", c.e.op("abs", c.e.map("sub", a, b)))
    soft = c.e.op("add", top, c.e.op("log1p", c.e.op("exp", gap)))
    same = c.e.op("and", c.e.map("eq", a, b), c.e.op("isinf", top))
    return c.e.op("select", same, top, soft)


def _xlogy(c: Call) -> Value:
    a, b = operands(c, c.dtype)
    product = c.e.map("mul", a, c.e.op("log", b))
    zero = c.e.map("and", c.e.with_scalar("eq", a, 0), c.e.op("not", c.e.op("isnan", b)))
    return choose(c, zero, c.e.scalar(0, c.dtype), product)


def _isfinite(c: Call, x: Value) -> Value:
    if not x.type.dtype.is_float:
        return c.e.broadcast(c.e.scalar(True, BOOL), x.type.shape)
    return c.e.op("not", c.e.op("or", c.e.op("isnan", x), c.e.op("isinf", x)))


def _float_test(name: str) -> Rule:
    def rule(c: Call) -> Value:
        if c.first.type.dtype.is_float:
            return c.e.op(name, c.first)
        return c.e.broadcast(c.e.scalar(False, BOOL), c.first.type.shape)

    return rule


def _infinite(sign: float) -> Rule:
    def rule(c: Call) -> Value:
        if c.first.type.dtype.is_float:
            return c.e.with_scalar("eq", c.first, sign * math.inf)
        return c.e.broadcast(c.e.scalar(False, BOOL), c.first.type.shape)

    return rule


def _nan_to_num(c: Call) -> Value:
    x = c.first
    if not x.type.dtype.is_float:
        return x
    e, dtype = c.e, x.type.dtype
    largest = 65504.0 if dtype.name == "f16" else float(_largest(dtype))
    top, bottom = c.get("posinf", largest), c.get("neginf", -largest)
    out = choose(c, e.op("isnan", x), e.scalar(c.get("nan", 0.0), dtype), x)
    out = choose(c, e.with_scalar("eq", x, math.inf), e.scalar(top, dtype), out)
    return choose(c, e.with_scalar("eq", x, -math.inf), e.scalar(bottom, dtype), out)


def _largest(dtype: DType) -> float:
    if dtype.name == "bf16":
        return 3.3895313892515355e38
    return float(np.finfo(dtype.numpy).max)


def _log_base(base: float) -> Callable[[Call, Value], Value]:
    return lambda c, x: c.e.with_scalar("mul", c.e.op("log", x), 1 / math.log(base))


def _frac(c: Call, x: Value) -> Value:
    return c.e.op("sub", x, c.e.op("trunc", x))


def _degrees(factor: float) -> Callable[[Call, Value], Value]:
    return lambda c, x: c.e.with_scalar("mul", x, factor)


def _sinc(c: Call, x: Value) -> Value:
    scaled = c.e.with_scalar("mul", x, math.pi)
    ratio = c.e.op("div", c.e.op("sin", scaled), scaled)
    return choose(c, c.e.with_scalar("eq", x, 0), c.e.scalar(1, x.type.dtype), ratio)


def _logit(c: Call, x: Value) -> Value:
    eps = c.get("eps")
    if eps is not None:
        x = c.e.with_scalar("min", c.e.with_scalar("max", x, eps), 1 - eps)
    rest = c.e.map("sub", c.e.scalar(1, x.type.dtype), x)
    return c.e.op("log", c.e.op("div", x, rest))


def _lerp(c: Call) -> Value:
    """start + w * (end - start), from the end where w is 0.5 or more (torch's own formula)."""
    e, dtype = c.e, c.dtype
    start, end = (c.as_value(c[n], dtype) for n in ("self", "end"))
    weight = c.as_value(c["weight"], dtype)
    gap = e.map("sub", end, start)
    low = e.map("add", start, e.map("mul", weight, gap))
    rest = e.with_scalar("sub", weight, 1)
    high = e.map("add", end, e.map("mul", gap, rest))
    below = e.with_scalar("lt", e.op("abs", weight), 0.5)
    return choose(c, below, low, high)


def _add_product(name: str) -> Rule:
    """addcmul and addcdiv: self + value * (tensor1 op tensor2)."""

    def rule(c: Call) -> Value:
        a, b, base = (c.as_value(c[n], c.dtype) for n in ("tensor1", "tensor2", "self"))
        scaled = c.e.map("mul", a, c.as_value(c.get("value", 1), c.dtype))
        return c.e.map("add", base, c.e.map(name, scaled, b))

    return rule


def _round(c: Call) -> Value:
    x = c.first
    if not x.type.dtype.is_float:
        return x
    decimals = c.get("decimals", 0)
    if decimals == 0:
        return c.e.op("round", x)
    scale = 10.0 ** abs(decimals)
    first, second = ("mul", "div") if decimals > 0 else ("div", "mul")
    return c.e.with_scalar(second, c.e.op("round", c.e.with_scalar(first, x, scale)), scale)


RULES: dict[str, Rule] = {
    "round": _round, "lerp": _lerp,
    "addcmul": _add_product("mul"), "addcdiv": _add_product("div"),
    "copysign": _copysign, "hypot": _hypot, "logaddexp": _logaddexp,
    "xlogy": _xlogy, "special_xlogy": _xlogy,
    "isnan": _float_test("isnan"), "isinf": _float_test("isinf"),
    "isposinf": _infinite(1), "isneginf": _infinite(-1),
    "isfinite": predicate(_isfinite),
    "signbit": predicate(sign_bit),
    "nan_to_num": _nan_to_num,
    "log10": composed(_log_base(10)),
    "frac": composed(_frac),
    "deg2rad": composed(_degrees(math.pi / 180)), "rad2deg": composed(_degrees(180 / math.pi)),
    "sinc": composed(_sinc), "special_sinc": composed(_sinc),
    "logit": composed(_logit), "special_logit": composed(_logit),
}  # fmt: skip
