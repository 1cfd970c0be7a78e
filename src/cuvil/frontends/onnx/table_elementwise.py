"""Arithmetic, comparison, logic and casts: one element from the elements at the same place."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.texts import Texts
from cuvil.frontends.onnx.types import dtype_from, sparse_array, string_list, tensor_array
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, F64, I64, NARROW_FLOATS, U64, DType
from cuvil.ops.cast import cast_array


def old_broadcast(n: Node, a: Value, b: Value) -> Value:
    """``b`` as opset 6 and older place it: its dims begin at ``axis`` of ``a``, at the end if none.

    Source: Add-6, attributes ``broadcast`` and ``axis``.
    """
    axis = n.attrs.get("axis")
    if n.version >= 7 or not n.integer("broadcast", 0) or axis is None:
        return b
    axis = axis % a.type.rank if a.type.rank else 0
    after = a.type.rank - axis - b.type.rank
    if after < 0:
        raise InvalidModelError(f"{n.op}: axis {axis} does not fit ranks {a.type} and {b.type}")
    return n.e.reshape(b, (*b.type.shape, *[1] * after))


def _unary(name: str) -> Handler:
    return lambda n: n.e.op(name, n[0])


def _binary(name: str) -> Handler:
    return lambda n: n.e.map(name, n[0], old_broadcast(n, n[0], n[1]))


def _variadic(name: str) -> Handler:
    def handle(n: Node) -> Value:
        out = n[0]
        for other in n.values()[1:]:
            out = n.e.map(name, out, other)
        return out

    return handle


def _mean(n: Node) -> Value:
    return n.e.with_scalar("div", _variadic("add")(n), len(n.inputs))  # type: ignore[arg-type]


def _of_counts(n: Node, a: Value, b: Value) -> None:
    """Division of symbolic sizes is followed as a floor: require what makes that the same.

    Truncation and floor agree for a dividend from 0 on and a divisor from 1 on.
    """
    if a.type.dtype.is_float or n.knowledge.array(a) is not None:
        return
    tops, bottoms = n.knowledge.dims(a), n.knowledge.dims(b)
    if tops is None or bottoms is None:
        return
    for top in tops:
        n.e.context.require(top, ">=", 0, f"{n.op}: the dividend is a size")
    for bottom in bottoms:
        n.e.context.require(bottom, ">=", 1, f"{n.op}: the divisor is a size")


def _div(n: Node) -> Value:
    a, b = n[0], old_broadcast(n, n[0], n[1])
    _of_counts(n, a, b)
    return n.e.map("div", a, b)


def _mod(n: Node) -> Value:
    _of_counts(n, n[0], n[1])
    return n.e.map("fmod" if n.integer("fmod", 0) else "mod", n[0], n[1])


def _pow(n: Node) -> Value:
    """The result has the base's dtype (Pow-12). Where the exponent has another, both go to a type
    that holds them: floats and f64 for what is 32 bits wide or more, integers to i64."""
    e = n.e
    a, b = n[0], old_broadcast(n, n[0], n[1])
    base, exponent = a.type.dtype, b.type.dtype
    if base == exponent or _keeps(n, b, base):
        return e.map("pow", a, e.cast(b, base))
    kinds = (base, exponent)
    if not base.is_float and not exponent.is_float:
        wide = U64 if exponent.kind == "u" else I64  # what wraps is right in either
    else:
        wide = F64 if F64 in kinds or any(d.is_integer and d.size >= 4 for d in kinds) else F32
    return e.cast(e.map("pow", e.cast(a, wide), e.cast(b, wide)), base)


def _keeps(n: Node, value: Value, dtype: DType) -> bool:
    """Whether a small constant is the same as a float of another type."""
    array = n.knowledge.array(value) if dtype.is_float else None
    if array is None or array.size > 64:
        return False
    numbers = array.astype(np.float64)
    there_and_back = cast_array(numbers, dtype).astype(np.float64)
    return bool(np.array_equal(there_and_back, numbers, equal_nan=True))


def _shift(n: Node) -> Value:
    return n.e.map("shl" if n.text("direction") == "LEFT" else "shr", n[0], n[1])


def _clip(n: Node) -> Value:
    """min(max(x, low), high), so that low > high gives high (Clip-13)."""
    out = n[0]
    if n.version < 11:
        low, high = n.attrs.get("min"), n.attrs.get("max")
        if low is not None:
            out = n.e.with_scalar("max", out, low)
        return out if high is None else n.e.with_scalar("min", out, high)
    for index, name in ((1, "max"), (2, "min")):
        end = n.optional(index)
        if end is not None:
            out = n.e.map(name, out, n.e.reshape(end, ()))
    return out


def _cast(n: Node) -> Value:
    target = n.attrs.get("to")
    if isinstance(target, str):
        names = {"FLOAT": 1, "DOUBLE": 11, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10}
        target = names.get(target, -1)
    if not isinstance(target, int):
        raise InvalidModelError("Cast needs the attribute 'to'")
    return _cast_to(n, dtype_from(target))


def _cast_like(n: Node) -> Value:
    return _cast_to(n, n[1].type.dtype)


def _cast_to(n: Node, target: DType) -> Value:
    """With the modes that narrow floats have, where the target is one."""
    if target not in NARROW_FLOATS or target == n.dtype():
        return n.e.cast(n[0], target)
    saturate, round_mode = bool(n.integer("saturate", 1)), n.text("round_mode", "up")
    return n.e.op("cast", n[0], dtype=target, saturate=saturate, round_mode=round_mode)


def _isnan(n: Node) -> Value:
    return n.e.op("isnan", _comparable(n))


def _comparable(n: Node) -> Value:
    """The input as a type that can be computed with."""
    return n.e.cast(n[0], F32) if n.dtype().is_narrow else n[0]


def _where(n: Node) -> Value:
    return n.e.map("select", n[0], n[1], n[2])


def _reciprocal(n: Node) -> Value:
    return n.e.map("div", n.e.scalar(1, n.dtype()), n[0])


def _isinf(n: Node) -> Value:
    down, up = n.integer("detect_negative", 1), n.integer("detect_positive", 1)
    x = _comparable(n)
    found = n.e.op("isinf", x)
    if down and up:
        return found
    if not down and not up:
        return n.e.map("and", found, n.e.scalar(False, BOOL))
    side = n.e.with_scalar("gt" if up else "lt", x, 0)
    return n.e.op("and", found, side)


def _identity(n: Node) -> Any:
    return n.inputs[0]


def _constant(n: Node) -> Value | Texts:
    """All forms of Constant-13: a tensor, a sparse one, numbers."""
    for name, kind in (
        ("value_float", F32),
        ("value_int", I64),
        ("value_floats", F32),
        ("value_ints", I64),
    ):
        if name in n.attrs:
            return n.e.weight(np.array(n.attrs[name], dtype=kind.numpy))
    for name in ("value_string", "value_strings"):
        if name in n.attrs:
            numbers = n.words.numbers(n.attrs[name] if name[-1] == "s" else [n.attrs[name]])
            return Texts(n.e.weight(numbers if name[-1] == "s" else numbers.reshape(())))
    if "sparse_value" in n.attrs:
        array = sparse_array(n.attrs["sparse_value"], n.folder)
        return n.e.weight(array, n.outputs[0])
    if "value" not in n.attrs:
        raise InvalidModelError("Constant has no value")
    words = string_list(n.attrs["value"])
    if words is not None:
        numbers = n.words.numbers(words).reshape([int(d) for d in n.attrs["value"].dims])
        return Texts(n.e.weight(numbers, n.outputs[0]))
    return n.e.weight(tensor_array(n.attrs["value"], n.folder), n.outputs[0])


def _bit_cast(n: Node) -> Value:
    target = dtype_from(n.integer("to"))
    if target.bits != n.dtype().bits:
        raise InvalidModelError(f"BitCast: {n.dtype()} and {target} differ in bits")
    return n.e.op("bitcast", n[0], dtype=target)


_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "Log": "log", "Neg": "neg", "Not": "not",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Softplus": "softplus", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "BitwiseNot": "bitnot",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "And": "and", "Or": "or", "Xor": "xor",
    "Equal": "eq", "Less": "lt", "Greater": "gt", "LessOrEqual": "le", "GreaterOrEqual": "ge",
    "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
}  # fmt: skip

TABLE: dict[str, Handler] = {
    **{op: _unary(name) for op, name in _UNARY.items()},
    **{op: _binary(name) for op, name in _BINARY.items()},
    "Sum": _variadic("add"),
    "Max": _variadic("max"),
    "Min": _variadic("min"),
    "Mean": _mean,
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "BitShift": _shift,
    "BitCast": _bit_cast,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Where": _where,
    "Reciprocal": _reciprocal,
    "IsInf": _isinf,
    "IsNaN": _isnan,
    "Identity": _identity,
    "Constant": _constant,
}
