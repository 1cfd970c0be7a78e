"""Maps: one output element from the elements at the same place of each operand.

Operands of a map have one and the same shape; broadcasting is an operator of its own. Float maps
are computed in the operand's own type, f16 and bf16 in f32. Integers wrap. NaN propagates through
max and min (IEEE 754-2019 maximum, minimum).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, BOOL, F16, F32, DType, TensorType
from cuvil.ops.base import Array, Attrs, OpDef, Scalar, ShapeContext, same_dtype, same_shape

Kernel = Callable[..., Any]


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.itemsize == 2 and _is_float(array) else array


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _reference(function: Kernel) -> Callable[..., list[Array]]:
    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        with np.errstate(all="ignore"):
            out = function(*(_wide(np.asarray(a)) for a in arrays))
        return [np.asarray(out).astype(results[0].dtype.numpy)]

    return run


def _call(function: str) -> Scalar:
    """The C++ expression ``function(operands)``; 16-bit floats are widened around it."""

    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        return narrow(f"{function}({', '.join(widen(a, t) for a, t in zip(args, types))})", result)

    return scalar


def _infix(text: str) -> Scalar:
    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        wide = [widen(a, t) for a, t in zip(args, types)]
        expression = text.format(*wide)
        small = result.is_integer and result.size < 4
        return f"({result.cxx})({expression})" if small else narrow(f"({expression})", result)

    return scalar


def _wrapping(text: str) -> Scalar:
    """Integer arithmetic that wraps: signed operands are computed in the unsigned type."""

    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        if result.kind == "i":
            unsigned = f"uint{max(result.size, 4) * 8}_t"
            return f"({result.cxx})({text.format(*(f'({unsigned}){a}' for a in args))})"
        return _infix(text)(args, types, result)

    return scalar


def widen(text: str, dtype: DType) -> str:
    """A 16-bit float as the f32 it is computed in."""
    return f"cuvil::to_f32({text})" if dtype in (F16, BF16) else text


def narrow(text: str, dtype: DType) -> str:
    """An f32 result rounded to a 16-bit float."""
    if dtype == F16:
        return f"cuvil::to_f16({text})"
    return f"cuvil::to_bf16({text})" if dtype == BF16 else text


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _round_trip(function: Callable[[Array], Array]) -> Kernel:
    """Compute in f64, give back the operand's dtype."""
    return lambda x: function(np.asarray(x, np.float64)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _gelu_tanh(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + np.tanh(inner))


# name: (numpy function, C++ function or infix text, kinds allowed, tolerance)
_UNARY: Mapping[str, tuple[Kernel, str, str, str]] = {
    "neg": (np.negative, "-{0}", "fiu", "exact"),
    "abs": (np.abs, "cuvil::abs", "fiu", "exact"),
    "sign": (np.sign, "cuvil::sign", "fiu", "exact"),
    "floor": (np.floor, "cuvil::floor", "f", "exact"),
    "ceil": (np.ceil, "cuvil::ceil", "f", "exact"),
    "trunc": (np.trunc, "cuvil::trunc", "f", "exact"),
    "round": (np.rint, "cuvil::round_even", "f", "exact"),
    "sqrt": (np.sqrt, "cuvil::sqrt", "f", "exact"),
    "rsqrt": (_round_trip(lambda x: 1 / np.sqrt(x)), "cuvil::rsqrt", "f", "close"),
    "exp": (_round_trip(np.exp), "cuvil::exp", "f", "close"),
    "exp2": (_round_trip(np.exp2), "cuvil::exp2", "f", "close"),
    "expm1": (_round_trip(np.expm1), "cuvil::expm1", "f", "close"),
    "log": (_round_trip(np.log), "cuvil::log", "f", "close"),
    "log1p": (_round_trip(np.log1p), "cuvil::log1p", "f", "close"),
    "log2": (_round_trip(np.log2), "cuvil::log2", "f", "close"),
    "sin": (_round_trip(np.sin), "cuvil::sin", "f", "close"),
    "cos": (_round_trip(np.cos), "cuvil::cos", "f", "close"),
    "tan": (_round_trip(np.tan), "cuvil::tan", "f", "close"),
    "asin": (_round_trip(np.arcsin), "cuvil::asin", "f", "close"),
    "acos": (_round_trip(np.arccos), "cuvil::acos", "f", "close"),
    "atan": (_round_trip(np.arctan), "cuvil::atan", "f", "close"),
    "sinh": (_round_trip(np.sinh), "cuvil::sinh", "f", "close"),
    "cosh": (_round_trip(np.cosh), "cuvil::cosh", "f", "close"),
    "tanh": (_round_trip(np.tanh), "cuvil::tanh", "f", "close"),
    "asinh": (_round_trip(np.arcsinh), "cuvil::asinh", "f", "close"),
    "acosh": (_round_trip(np.arccosh), "cuvil::acosh", "f", "close"),
    "atanh": (_round_trip(np.arctanh), "cuvil::atanh", "f", "close"),
    "erf": (_round_trip(_erf), "cuvil::erf", "f", "close"),
    "sigmoid": (_round_trip(_sigmoid), "cuvil::sigmoid", "f", "close"),
    "silu": (_round_trip(lambda x: x * _sigmoid(x)), "cuvil::silu", "f", "close"),
    "gelu": (
        _round_trip(lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))),
        "cuvil::gelu_erf",
        "f",
        "close",
    ),
    "gelu_tanh": (_round_trip(_gelu_tanh), "cuvil::gelu_tanh", "f", "close"),
    "softplus": (_round_trip(lambda x: np.logaddexp(x, 0)), "cuvil::softplus", "f", "close"),
    "not": (np.logical_not, "!{0}", "b", "exact"),
    "bitnot": (np.invert, "~{0}", "iu", "exact"),
}

_UNARY_BOOL: Mapping[str, tuple[Kernel, str]] = {
    "isnan": (np.isnan, "cuvil::isnan"),
    "isinf": (np.isinf, "cuvil::isinf"),
}


def _int_div(a: Array, b: Array) -> Array:
    """Truncating division, never trapping: x / 0 is 0, INT_MIN / -1 is INT_MIN."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a // safe).astype(a.dtype)
    quotient = np.floor_divide(a, safe)
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, quotient + inexact).astype(a.dtype)


def _div(a: Array, b: Array) -> Array:
    return a / b if _is_float(a) else _int_div(a, b)


def _floordiv(a: Array, b: Array) -> Array:
    if _is_float(a):
        return np.floor(a / b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.floor_divide(a, safe)).astype(a.dtype)


def _mod(a: Array, b: Array) -> Array:
    """The result has the sign of the divisor; x % 0 is 0 for integers, NaN for floats."""
    if _is_float(a):
        return np.mod(a, b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.mod(a, safe)).astype(a.dtype)


def _fmod(a: Array, b: Array) -> Array:
    """The result has the sign of the dividend."""
    if _is_float(a):
        return np.fmod(a, b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.fmod(a, safe)).astype(a.dtype)


def _pow(a: Array, b: Array) -> Array:
    if _is_float(a):
        return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    base, exponent = a.astype(object), b.astype(object)
    out = [_int_pow(int(x), int(y)) for x, y in zip(base.reshape(-1), exponent.reshape(-1))]
    bits = a.dtype.itemsize * 8
    wrapped = [x & ((1 << bits) - 1) for x in out]
    if a.dtype.kind == "i":
        wrapped = [x - (1 << bits) if x >> (bits - 1) else x for x in wrapped]
    return np.array(wrapped, dtype=a.dtype).reshape(a.shape)


def _int_pow(x: int, y: int) -> int:
    """Exact power; a negative exponent gives the truncated quotient 1 / x**|y| (0 for x == 0)."""
    if y >= 0:
        return pow(x, y)
    return 0 if x not in (1, -1) else (1 if x == 1 or y % 2 == 0 else -1)


_BINARY: Mapping[str, tuple[Kernel, str, str, str]] = {
    "add": (np.add, "{0} + {1}", "fiu", "exact"),
    "sub": (np.subtract, "{0} - {1}", "fiu", "exact"),
    "mul": (np.multiply, "{0} * {1}", "fiu", "exact"),
    "div": (_div, "cuvil::div", "fiu", "exact"),
    "floordiv": (_floordiv, "cuvil::floor_div", "fiu", "exact"),
    "mod": (_mod, "cuvil::floor_mod", "fiu", "exact"),
    "fmod": (_fmod, "cuvil::trunc_mod", "fiu", "exact"),
    "pow": (_pow, "cuvil::pow", "fiu", "close"),
    "atan2": (lambda a, b: np.arctan2(a.astype(float), b.astype(float)), "cuvil::atan2", "f", "close"),
    "max": (np.maximum, "cuvil::max", "fiub", "exact"),
    "min": (np.minimum, "cuvil::min", "fiub", "exact"),
    "and": (np.bitwise_and, "{0} & {1}", "iub", "exact"),
    "or": (np.bitwise_or, "{0} | {1}", "iub", "exact"),
    "xor": (np.bitwise_xor, "{0} ^ {1}", "iub", "exact"),
    "shl": (np.left_shift, "cuvil::shift_left", "iu", "exact"),
    "shr": (np.right_shift, "cuvil::shift_right", "iu", "exact"),
}

_COMPARE: Mapping[str, tuple[Kernel, str]] = {
    "eq": (np.equal, "{0} == {1}"),
    "ne": (np.not_equal, "{0} != {1}"),
    "lt": (np.less, "{0} < {1}"),
    "le": (np.less_equal, "{0} <= {1}"),
    "gt": (np.greater, "{0} > {1}"),
    "ge": (np.greater_equal, "{0} >= {1}"),
}


def _infer_map(name: str, kinds: str, result: DType | None) -> Callable[..., list[TensorType]]:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        dtype = same_dtype(types, name)
        if dtype.kind not in kinds:
            raise InvalidModelError(f"{name} is not defined for {dtype}")
        return [TensorType(same_shape(ctx, types, name), result or dtype)]

    return infer


def _infer_select(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    if types[0].dtype != BOOL:
        raise InvalidModelError(f"select needs a bool condition, got {types[0].dtype}")
    dtype = same_dtype(types[1:], "select")
    return [TensorType(same_shape(ctx, types, "select"), dtype)]


def _infer_cast(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    return [types[0].with_dtype(attrs["dtype"])]


def cast_array(array: Array, dtype: DType) -> Array:
    """The cast Cuvil defines: float to integer truncates, NaN gives 0, out of range saturates;
    integer to narrower integer wraps; anything to bool is ``!= 0``."""
    target = dtype.numpy
    if dtype == BOOL:
        return np.asarray(array != 0)
    if dtype.is_integer and _is_float(array):
        info = np.iinfo(target)
        wide = np.trunc(np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = float(info.min), float(info.max)
        inside = np.where((wide > low) & (wide < high), wide, 0).astype(target)
        out = np.where(wide >= high, info.max, np.where(wide <= low, info.min, inside))
        return np.asarray(out.astype(target))
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(target))


def _reference_cast(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    return [cast_array(np.asarray(arrays[0]), attrs["dtype"])]


def _scalar_cast(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
    source = types[0]
    text = widen(args[0], source)
    if result == BOOL:
        return f"({text} != 0)"
    if result in (F16, BF16):
        return narrow(text if source in (F16, BF16, F32) else f"(float){text}", result)
    if source.is_float and result.is_integer:
        return f"cuvil::saturate<{result.cxx}>({text})"
    return f"({result.cxx}){text}"


def _unary_defs() -> list[OpDef]:
    defs = []
    for name, (function, cxx, kinds, tolerance) in _UNARY.items():
        scalar = (_wrapping if name == "neg" else _infix)(cxx) if "{0}" in cxx else _call(cxx)
        infer = _infer_map(name, kinds, None)
        defs.append(
            OpDef(f"cuvil.{name}", "map", infer, _reference(function), (1, 1), {}, tolerance, scalar=scalar)
        )
    for name, (function, cxx) in _UNARY_BOOL.items():
        infer = _infer_map(name, "f", BOOL)
        defs.append(OpDef(f"cuvil.{name}", "map", infer, _reference(function), (1, 1), scalar=_call(cxx)))
    return defs


def _binary_defs() -> list[OpDef]:
    defs = []
    for name, (function, cxx, kinds, tolerance) in _BINARY.items():
        wraps = name in ("add", "sub", "mul")
        scalar = (_wrapping if wraps else _infix)(cxx) if "{0}" in cxx else _call(cxx)
        infer = _infer_map(name, kinds, None)
        defs.append(
            OpDef(f"cuvil.{name}", "map", infer, _reference(function), (2, 2), {}, tolerance, scalar=scalar)
        )
    for name, (function, cxx) in _COMPARE.items():
        infer = _infer_map(name, "fiub", BOOL)
        defs.append(OpDef(f"cuvil.{name}", "map", infer, _reference(function), (2, 2), scalar=_infix(cxx)))
    return defs


DEFS: list[OpDef] = [
    *_unary_defs(),
    *_binary_defs(),
    OpDef(
        "cuvil.select",
        "map",
        _infer_select,
        _reference(np.where),
        (3, 3),
        scalar=lambda args, types, result: f"({args[0]} ? {args[1]} : {args[2]})",
        doc="condition ? a : b",
    ),
    OpDef(
        "cuvil.cast",
        "map",
        _infer_cast,
        _reference_cast,
        (1, 1),
        {"dtype": "dtype"},
        scalar=_scalar_cast,
        doc="Float to integer truncates and saturates, NaN gives 0; integers wrap.",
    ),
]
