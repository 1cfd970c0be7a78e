"""Scalar algebra that is exact in IEEE arithmetic, signed zeros and NaN included."""

from __future__ import annotations

import math

import numpy as np

from cuvil.ir.core import Op, Value, Weight
from cuvil.passes.matching import scalar_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule


@rule("neutral-operand", "mul", "div", "sub", "add", "or", "and")
def neutral_operand(op: Op, context: Context) -> Outcome:
    """x * 1 -> x, x / 1 -> x, x - 0 -> x, integer x + 0 -> x, x + -0.0 -> x, x and true -> x"""
    a, b = op.operands
    if _neutral(op, scalar_of(b)):
        return lambda rw: [a]
    if op.short in ("mul", "add", "or", "and") and _neutral(op, scalar_of(a)):
        return lambda rw: [b]
    return Refusal("no operand is neutral")


def _neutral(op: Op, number: float | int | bool | None) -> bool:
    if number is None:
        return False
    if op.short in ("mul", "div"):
        return number == 1
    if op.type.dtype.kind == "b":
        return bool(number) is (op.short == "and")
    if op.short == "and":
        return False
    if op.short == "add" and op.type.dtype.is_float:
        return number == 0 and math.copysign(1, number) < 0
    if op.short == "sub" and op.type.dtype.is_float:
        return number == 0 and math.copysign(1, number) > 0
    return number == 0


@rule("small-power", "pow")
def small_power(op: Op, context: Context) -> Outcome:
    """pow(x, 2) -> x * x, pow(x, 3) -> x * x * x, pow(x, 1) -> x"""
    base, exponent = op.operands[0], scalar_of(op.operands[1])
    if exponent not in (1, 2, 3):
        return Refusal("the exponent is not the constant 1, 2 or 3")

    def action(rw: Rewriter) -> list[Value]:
        out = base
        for _ in range(int(exponent) - 1):
            out = rw.value("mul", [out, base])
        return [out]

    return action


@rule("divide-by-power-of-two", "div")
def divide_by_power_of_two(op: Op, context: Context) -> Outcome:
    """x / 2^k -> x * 2^-k, which rounds the same"""
    number = scalar_of(op.operands[1])
    if not op.type.dtype.is_float or not isinstance(number, float) or number == 0:
        return Refusal("the divisor is no float constant")
    mantissa, exponent = math.frexp(number)
    if abs(mantissa) != 0.5 or not -20 < exponent < 20:
        return Refusal("the divisor is no power of two")

    def action(rw: Rewriter) -> list[Value]:
        return [rw.value("mul", [op.operands[0], number_like(rw, 1 / number, op.operands[0])])]

    return action


def number_like(rw: Rewriter, number: float, like: Value) -> Value:
    """A constant of the dtype and shape of ``like``."""


    array = np.asarray(number, dtype=like.type.dtype.numpy)
    scalar = rw.value("constant", value=Weight(array))
    if like.type.rank == 0:
        return scalar
    return rw.value("broadcast", [scalar], shape=like.type.shape)


RULES: list[Rule] = [neutral_operand, small_power, divide_by_power_of_two]
