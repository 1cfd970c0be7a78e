"""Maps: one output element from the elements at the same place of each operand.

Operands of a map have one and the same shape; broadcasting is an operator of its own. Float maps
are computed in the operand's own type, f16 and bf16 in f32. Integers wrap. NaN propagates through
max and min; which zero they give for zeros of both signs is not specified, nor is the sign of
sign(-0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, BOOL, F16, DType, TensorType
from cuvil.ops.base import (
    Array,
    Attrs,
    Infer,
    OpDef,
    Reference,
    Scalar,
    ShapeContext,
    same_dtype,
    same_shape,
)
from cuvil.ops.numeric import is_float, wide

Kernel = Callable[..., Any]


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.itemsize == 2 and is_float(array) else array


def _reference(function: Kernel) -> Reference:
    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        with np.errstate(all="ignore"):
            out = function(*(_wide(np.asarray(a)) for a in arrays))
            return [np.asarray(out).astype(results[0].dtype.numpy)]

    return run


def call_of(function: str) -> Scalar:
    """The C++ expression ``function(operands)``; 16-bit floats are widened around it."""

    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        operands = [widen(a, t) for a, t in zip(args, types, strict=True)]
        return narrow(f"{function}({', '.join(operands)})", result)

    return scalar


def _infix(text: str) -> Scalar:
    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        operands = [widen(a, t) for a, t in zip(args, types, strict=True)]
        expression = text.format(*operands)
        small = result.is_integer and result.size < 4
        return f"({result.cxx})({expression})" if small else narrow(f"({expression})", result)

    return scalar


def _wrapping(text: str) -> Scalar:
    """Integer arithmetic that wraps: computed in an unsigned type of 32 bits or more, since
    even u16 * u16 would overflow the int that C++ promotes it to."""

    def scalar(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
        if result.is_integer:
            unsigned = f"uint{max(result.size, 4) * 8}_t"
            return f"({result.cxx})({text.format(*(f'({unsigned}){a}' for a in args))})"
        return _infix(text)(args, types, result)

    return scalar


def widen(text: str, dtype: DType) -> str:
    """A 16-bit float as the f32 it is computed in."""
    if dtype == F16:
        return f"cuvil::f16_to_f32({text})"
    return f"cuvil::bf16_to_f32({text})" if dtype == BF16 else text


def narrow(text: str, dtype: DType) -> str:
    """An f32 result rounded to a 16-bit float."""
    if dtype == F16:
        return f"cuvil::f32_to_f16({text})"
    return f"cuvil::f32_to_bf16({text})" if dtype == BF16 else text


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _round_trip(function: Callable[[Array], Array]) -> Kernel:
    """Compute in f64, give back the operand's dtype."""
    return lambda x: np.asarray(function(np.asarray(x, np.float64))).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def gelu_tanh(x: Array) -> Array:
    """Hendrycks and Gimpel 2016, section 2: x / 2 * (1 + tanh(u)), which is x * sigmoid(2 u)."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x * sigmoid(2 * inner))


def gelu(x: Array) -> Array:
    """x / 2 * (1 + erf(x / sqrt 2)), by erfc so that nothing cancels where x is negative."""
    return np.asarray(0.5 * x * _erfc(-x / math.sqrt(2)))


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
    "sigmoid": (_round_trip(sigmoid), "cuvil::sigmoid", "f", "close"),
    "silu": (_round_trip(lambda x: x * sigmoid(x)), "cuvil::silu", "f", "close"),
    "gelu": (_round_trip(gelu), "cuvil::gelu_erf", "f", "close"),
    "gelu_tanh": (_round_trip(gelu_tanh), "cuvil::gelu_tanh", "f", "close"),
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
    return a / b if is_float(a) else _int_div(a, b)


def _floordiv(a: Array, b: Array) -> Array:
    """Towards minus infinity: for floats (a - mod(a, b)) / b as Python and torch have it, which
    floor(a / b) misses where the quotient is rounded up; x / 0 is 0 for integers."""
    if is_float(a):
        return np.asarray(np.floor_divide(a, b))
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.floor_divide(a, safe)).astype(a.dtype)


def _mod(a: Array, b: Array) -> Array:
    """The result has the sign of the divisor; x % 0 is 0 for integers, NaN for floats."""
    if is_float(a):
        return np.asarray(np.mod(a, b))
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.mod(a, safe)).astype(a.dtype)


def _fmod(a: Array, b: Array) -> Array:
    """The result has the sign of the dividend."""
    if is_float(a):
        return np.asarray(np.fmod(a, b))
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, 0, np.fmod(a, safe)).astype(a.dtype)


def _pow(a: Array, b: Array) -> Array:
    if is_float(a):
        return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype))
    bits = a.dtype.itemsize * 8
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    wrapped = [_int_pow(x, y, 1 << bits) for x, y in pairs]
    if a.dtype.kind == "i":
        wrapped = [x - (1 << bits) if x >> (bits - 1) else x for x in wrapped]
    return np.array(wrapped, dtype=a.dtype).reshape(a.shape)


def _int_pow(x: int, y: int, modulus: int) -> int:
    """x**y in 0..modulus-1; a negative exponent gives the truncated 1 / x**|y| (0 for x == 0)."""
    if y >= 0:
        return pow(x, y, modulus)
    return 0 if x not in (1, -1) else (1 if x == 1 or y % 2 == 0 else modulus - 1)


def _atan2(a: Array, b: Array) -> Array:
    return np.asarray(np.arctan2(a.astype(np.float64), b.astype(np.float64)))


_BINARY: Mapping[str, tuple[Kernel, str, str, str]] = {
    "add": (np.add, "{0} + {1}", "fiu", "exact"),
    "sub": (np.subtract, "{0} - {1}", "fiu", "exact"),
    "mul": (np.multiply, "{0} * {1}", "fiu", "exact"),
    "div": (_div, "cuvil::div", "fiu", "exact"),
    "floordiv": (_floordiv, "cuvil::floor_div", "fiu", "exact"),
    "mod": (_mod, "cuvil::python_mod", "fiu", "exact"),
    "fmod": (_fmod, "cuvil::trunc_mod", "fiu", "exact"),
    "pow": (_pow, "cuvil::power", "fiu", "close"),
    "atan2": (_atan2, "cuvil::atan2", "f", "close"),
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


def _infer_map(name: str, kinds: str, result: DType | None) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        dtype = same_dtype(types, name)
        if dtype.kind not in kinds:
            raise InvalidModelError(f"{name} is not defined for {dtype}")
        return [TensorType(same_shape(ctx, types, name), result or dtype)]

    return infer


def _infer_select(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if types[0].dtype != BOOL:
        raise InvalidModelError(f"select needs a bool condition, got {types[0].dtype}")
    dtype = same_dtype(types[1:], "select")
    return [TensorType(same_shape(ctx, types, "select"), dtype)]


def _map(
    name: str, infer: Infer, function: Kernel, arity: int, scalar: Scalar,
    tolerance: str = "exact", doc: str = "",
) -> OpDef:  # fmt: skip
    return OpDef(
        f"cuvil.{name}", "map", infer, _reference(function), (arity, arity), {}, tolerance,
        scalar=scalar, doc=doc,
    )  # fmt: skip


def float_map(
    name: str, function: Kernel, arity: int, doc: str, tolerance: str, in_f64: bool = True
) -> OpDef:
    """A map of floats that C++ has as ``cuvil::name``; ``function`` gets its operands in f64, or
    else in their own type (16-bit floats in f32)."""

    def in_wide(*arrays: Array) -> Any:
        return function(*(wide(a) for a in arrays))

    return _map(
        name, _infer_map(name, "f", None), in_wide if in_f64 else function, arity,
        call_of(f"cuvil::{name}"), tolerance, doc,
    )  # fmt: skip


def _unary_defs() -> list[OpDef]:
    defs = []
    for name, (function, cxx, kinds, tolerance) in _UNARY.items():
        scalar = (_wrapping if name == "neg" else _infix)(cxx) if "{0}" in cxx else call_of(cxx)
        infer = _infer_map(name, kinds, None)
        defs.append(_map(name, infer, function, 1, scalar, tolerance))
    for name, (function, cxx) in _UNARY_BOOL.items():
        infer = _infer_map(name, "f", BOOL)
        defs.append(_map(name, infer, function, 1, call_of(cxx)))
    return defs


def _binary_defs() -> list[OpDef]:
    defs = []
    for name, (function, cxx, kinds, tolerance) in _BINARY.items():
        wraps = name in ("add", "sub", "mul")
        scalar = (_wrapping if wraps else _infix)(cxx) if "{0}" in cxx else call_of(cxx)
        infer = _infer_map(name, kinds, None)
        defs.append(_map(name, infer, function, 2, scalar, tolerance))
    for name, (function, cxx) in _COMPARE.items():
        infer = _infer_map(name, "fiub", BOOL)
        defs.append(_map(name, infer, function, 2, _infix(cxx)))
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
        "cuvil.materialize",
        "map",
        lambda ctx, types, attrs: [types[0]],
        lambda arrays, attrs, results: [np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape)],
        (1, 1),
        scalar=lambda args, types, result: args[0],
        doc="x itself, lying in memory row-major: what kernels need that read no views.",
    ),
]
