"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

from collections.abc import Callable

from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.table_select import mask_of, places
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, DType


def unary(name: str) -> Rule:
    """The map ``name`` in the result's dtype (torch computes exp of an integer in float)."""

    def rule(c: Call) -> Value:
        return c.e.op(name, c.e.cast(c.first, c.dtype))

    return rule


def unary_float_only(name: str) -> Rule:
    """As :func:`unary`; the identity on integers."""

    def rule(c: Call) -> Value:
        return c.e.op(name, c.first) if c.first.type.dtype.is_float else c.first

    return rule


def composed(function: Callable[[Call, Value], Value]) -> Rule:
    """A formula over the operand cast to the result's dtype."""

    def rule(c: Call) -> Value:
        return function(c, c.e.cast(c.first, c.dtype))

    return rule


def predicate(function: Callable[[Call, Value], Value]) -> Rule:
    """A formula over the operand in its own dtype, giving bool."""

    def rule(c: Call) -> Value:
        return function(c, c.first)

    return rule


def operands(c: Call, dtype: DType) -> tuple[Value, Value]:
    """The first two arguments in one dtype."""
    left, right = list(c.args.values())[:2]
    return c.as_value(left, dtype), c.as_value(right, dtype)


def binary(name: str) -> Rule:
    """The map ``name`` of the first two arguments in the result's dtype."""

    def rule(c: Call) -> Value:
        return c.e.map(name, *operands(c, c.dtype))

    return rule


def compare(name: str) -> Rule:
    """A comparison in the dtype torch promotes the operands to."""

    def rule(c: Call) -> Value:
        names = list(c.args)[:2]
        return c.e.map(name, *operands(c, c.promoted(*names)))

    return rule


def logical(name: str) -> Rule:
    """``and``, ``or``, ``xor`` of the truth of the operands."""

    def rule(c: Call) -> Value:
        return c.e.map(name, *operands(c, BOOL))

    return rule


def bitwise(name: str) -> Rule:
    def rule(c: Call) -> Value:
        return c.e.map(name, *operands(c, c.dtype))

    return rule


def _scaled(c: Call, value: Value, dtype: DType) -> Value:
    alpha = c.get("alpha", 1)
    if alpha == 1:
        return value
    if dtype == BOOL:
        return c.e.map("and", value, c.as_value(alpha, BOOL))
    return c.e.map("mul", value, c.as_value(alpha, dtype))


def _add(c: Call) -> Value:
    left, right = operands(c, c.dtype)
    if c.dtype == BOOL:
        return c.e.map("or", left, _scaled(c, right, BOOL))
    return c.e.map("add", left, _scaled(c, right, c.dtype))


def _sub(c: Call) -> Value:
    left, right = operands(c, c.dtype)
    return c.e.map("sub", left, _scaled(c, right, c.dtype))


def _rsub(c: Call) -> Value:
    left, right = operands(c, c.dtype)
    return c.e.map("sub", right, _scaled(c, left, c.dtype))


def _mul(c: Call) -> Value:
    return c.e.map("and" if c.dtype == BOOL else "mul", *operands(c, c.dtype))


def _div(c: Call) -> Value:
    mode = c.get("rounding_mode")
    left, right = operands(c, c.dtype)
    if mode == "floor":
        return floor_divide(c, left, right)
    out = c.e.map("div", left, right)
    return c.e.op("trunc", out) if mode == "trunc" and c.dtype.is_float else out


def floor_divide(c: Call, a: Value, b: Value) -> Value:
    """Floor division; floats as torch has them (ATen's div_floor_floating): from the exact
    remainder, so that 1.0 // 0.1 is 9, and a / b where b is 0."""
    e = c.e
    if not a.type.dtype.is_float:
        return e.map("floordiv", a, b)
    ratio = e.map("div", a, b)
    a, b = e.broadcast(a, ratio.type.shape), e.broadcast(b, ratio.type.shape)
    rest = e.op("fmod", a, b)
    whole = e.op("div", e.op("sub", a, rest), b)
    opposite = e.op("ne", e.with_scalar("lt", rest, 0), e.with_scalar("lt", b, 0))
    down = e.op("and", e.with_scalar("ne", rest, 0), opposite)
    whole = e.op("select", down, e.with_scalar("sub", whole, 1), whole)
    low = e.op("floor", whole)
    high = e.with_scalar("gt", e.op("sub", whole, low), 0.5)
    out = e.op("select", high, e.with_scalar("add", low, 1), low)
    return e.op("select", e.with_scalar("eq", b, 0), ratio, out)


def _floor_divide(c: Call) -> Value:
    return floor_divide(c, *operands(c, c.dtype))


def power(c: Call, base: Value, exponent: float) -> Value:
    """base ** exponent with torch's special cases: 0.5, 2, 3, -0.5, -1, -2 are computed as roots
    and products."""
    e = c.e
    if exponent == 2:
        return e.op("mul", base, base)
    if exponent == 3:
        return e.op("mul", e.op("mul", base, base), base)
    if exponent == 1:
        return base
    if base.type.dtype.is_float:
        if exponent == 0.5:
            return e.op("sqrt", base)
        if exponent == -0.5:
            return e.op("rsqrt", base)
        if exponent == -1:
            return e.map("div", e.scalar(1, base.type.dtype), base)
        if exponent == -2:
            return e.map("div", e.scalar(1, base.type.dtype), e.op("mul", base, base))
    return e.with_scalar("pow", base, exponent)


def _pow(c: Call) -> Value:
    exponent = list(c.args.values())[1]
    if isinstance(exponent, (int, float)) and c.dtype != BOOL:
        return power(c, c.as_value(next(iter(c.args.values())), c.dtype), exponent)
    return c.e.map("pow", *operands(c, c.dtype))


def _clamp(c: Call) -> Value:
    low, high = c.args.get("min"), c.args.get("max")
    out = c.as_value(c.first, c.dtype)
    if low is not None:
        out = c.e.map("max", out, c.as_value(low, c.dtype))
    if high is not None:
        out = c.e.map("min", out, c.as_value(high, c.dtype))
    return out


def _ignoring_nan(name: str) -> Rule:
    """fmax and fmin: a NaN loses against a number."""

    def rule(c: Call) -> Value:
        a, b = operands(c, c.dtype)
        out = c.e.map(name, a, b)
        if not c.dtype.is_float:
            return out
        a, b = c.e.broadcast(a, out.type.shape), c.e.broadcast(b, out.type.shape)
        inner = c.e.op("select", c.e.op("isnan", b), a, out)
        return c.e.op("select", c.e.op("isnan", a), b, inner)

    return rule


def choose(c: Call, condition: Value, yes: Value, no: Value) -> Value:
    """select with all three broadcast."""
    return c.e.map("select", c.e.cast(condition, BOOL), yes, no)


def _where(c: Call) -> Value | list[Value]:
    """With a condition alone, the places where it holds."""
    if "self" not in c.args:
        return places(c.e, mask_of(c.e, c.tensor("condition")))
    yes, no = c.as_value(c["self"], c.dtype), c.as_value(c["other"], c.dtype)
    return choose(c, c.tensor("condition"), yes, no)


def _masked_fill(c: Call) -> Value:
    x = c.tensor("self")
    value = c.as_value(c["value"], x.type.dtype)
    return choose(c, c.tensor("mask"), value, x)


def _bitnot(c: Call) -> Value:
    return c.e.op("not" if c.dtype == BOOL else "bitnot", c.first)


def _abs(c: Call) -> Value:
    return c.first if c.dtype == BOOL else c.e.op("abs", c.first)


def sign_of(c: Call, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN too, as torch compares with 0."""
    sign = c.e.op("sign", x)
    if not x.type.dtype.is_float:
        return sign
    return choose(c, c.e.op("isnan", x), c.e.scalar(0, x.type.dtype), sign)


def _sign(c: Call) -> Value:
    return c.first if c.dtype == BOOL else sign_of(c, c.first)


def _fill(c: Call) -> Value:
    x = c.first
    value = c.as_value(c.get("value", 0), x.type.dtype)
    return c.e.broadcast(value, x.type.shape)


_UNARY_SAME = (
    "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid",
)  # fmt: skip
_ALIASES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "special_expit": "sigmoid",
    "special_erf": "erf", "special_exp2": "exp2", "special_expm1": "expm1",
    "special_log1p": "log1p", "neg": "neg", "negative": "neg", "_neg_view": "neg",
}  # fmt: skip
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "__and__": "and",
         "__or__": "or", "__xor__": "xor"}  # fmt: skip
_SHIFTS = {"bitwise_left_shift": "shl", "bitwise_right_shift": "shr", "__lshift__": "shl",
           "__rshift__": "shr"}  # fmt: skip
_COMPARISONS = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip

RULES: dict[str, Rule] = {
    **{name: unary(name) for name in _UNARY_SAME},
    **{name: unary(op) for name, op in _ALIASES.items()},
    **{name: unary_float_only(name) for name in ("floor", "ceil", "trunc")},
    "fix": unary_float_only("trunc"),
    **{name: bitwise(op) for name, op in (_BITS | _SHIFTS).items()},
    **{name: compare(op) for name, op in _COMPARISONS.items()},
    "logical_and": logical("and"),
    "logical_or": logical("or"),
    "logical_xor": logical("xor"),
    "logical_not": predicate(lambda c, x: c.e.op("not", c.e.cast(x, BOOL))),
    "bitwise_not": _bitnot,
    "abs": _abs, "absolute": _abs, "sign": _sign, "sgn": _sign,
    "add": _add, "sub": _sub, "subtract": _sub, "rsub": _rsub, "mul": _mul, "multiply": _mul,
    "div": _div, "divide": _div, "true_divide": _div,
    "floor_divide": _floor_divide,
    "remainder": binary("mod"),
    "fmod": binary("fmod"),
    "pow": _pow, "float_power": _pow,
    "atan2": binary("atan2"), "arctan2": binary("atan2"),
    "maximum": binary("max"), "minimum": binary("min"),
    "fmax": _ignoring_nan("max"), "fmin": _ignoring_nan("min"),
    "clamp": _clamp, "clip": _clamp, "clamp_min": _clamp, "clamp_max": _clamp,
    "where": _where, "masked_fill": _masked_fill,
    "fill": _fill, "zero": _fill,
    "reciprocal": composed(lambda c, x: c.e.map("div", c.e.scalar(1, c.dtype), x)),
    "square": composed(lambda c, x: c.e.op("mul", x, x)),
}  # fmt: skip
