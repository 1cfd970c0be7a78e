"""What looks at the bits of numbers, and arithmetic of whole numbers."""

from __future__ import annotations

import math

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import operands
from cuvil.ir.core import Value
from cuvil.ir.types import DTYPES, F32, F64, I32, I64, DType

# The integer dtype of a float's bits, the number of its mantissa's, and its exponent's bias.
_LAYOUT: dict[str, tuple[DType, int, int]] = {"f32": (I32, 23, 126), "f64": (I64, 52, 1022)}


def _layout(c: Call, x: Value) -> tuple[DType, int, int]:
    found = _LAYOUT.get(x.type.dtype.name)
    if found is None:
        raise Refused(f"it reads the bits of {x.type.dtype}")
    return found


def _bits(x: Term, dtype: DType) -> Term:
    return Term(x.e, x.e.op("bitcast", x.value, dtype=dtype))


def _frexp(c: Call) -> list[Value]:
    """x = mantissa * 2**exponent with the mantissa in [0.5, 1). Denormals are scaled up first;
    0, infinities and NaN stay themselves, with exponent 0."""
    given = c.first.type.dtype
    x = Term(c.e, c.e.cast(c.first, F64 if given == F64 else F32))
    whole, width, bias = _layout(c, x.value)
    field = (2 << (8 * whole.size - width - 2)) - 1
    small = abs(x) < float(2.0 ** (1 - bias))
    scaled = small.where(x * float(2.0 ** (width + 1)), x)
    bits = _bits(scaled, whole)
    exponent = bits.map("shr", width).map("and", field)
    mantissa = _bits(bits.map("and", ~(field << width)).map("or", bias << width), x.dtype)
    exponent = small.where(exponent - (width + 1), exponent) - bias
    itself = x.equals(0) | x.map("isinf") | x.map("isnan")
    return [
        itself.where(x, mantissa).cast(given).value,
        itself.where(0, exponent).cast(I32).value,
    ]


def _nextafter(c: Call) -> Value:
    """The neighbour of a in the direction of b: its bits count away from zero."""
    a, b = (Term(c.e, c.e.broadcast(v, c.shape)) for v in operands(c, c.dtype))
    whole, width, bias = _layout(c, a.value)
    outward = (a < b).map("eq", a > 0)
    bits = _bits(a, whole)
    moved = _bits(outward.where(bits + 1, bits - 1), a.dtype)
    least = a.lift(2.0 ** (1 - bias - width))
    out = a.equals(0).where((b > 0).where(least, -least), moved)
    out = a.equals(b).where(b, out)
    return (a.map("isnan") | b.map("isnan")).where(math.nan, out).value


def _view(c: Call) -> Value:
    """view(dtype) reads the same bits as another dtype of the same size; view(shape) reshapes."""
    x = c.first
    if "dtype" not in c.args or x.type.dtype == c.dtype:
        return c.e.reshape(x, c.shape)
    if x.type.dtype.size != c.dtype.size or "b" in (x.type.dtype.kind, c.dtype.kind):
        raise Refused("a view as a dtype of another size cuts elements into bytes")
    return c.e.op("bitcast", x, dtype=c.dtype)


def _lcm(c: Call) -> Value:
    """|a / gcd(a, b) * b|, 0 where either is 0. As in C, short integers are computed with as i32,
    so that the absolute value is that of the whole product; it wraps after."""
    a, b = (Term(c.e, v) for v in operands(c, c.dtype))
    wide = c.dtype if c.dtype.size >= I32.size else I32
    shared, a, b = (x.cast(wide) for x in (a.map("gcd", b), a, b))
    return abs(a.map("div", shared) * b).cast(c.dtype).value


def _heaviside(c: Call) -> Value:
    """0 for negative numbers, 1 for positive ones, ``values`` at 0; NaN counts as negative."""
    x, at_zero = (Term(c.e, v) for v in operands(c, c.dtype))
    return x.equals(0).where(at_zero, (x > 0).cast(c.dtype)).value


def _angle(c: Call) -> Value:
    """The angle of a real number: pi for a negative one, 0 otherwise; NaN is kept."""
    x = Term(c.e, c.first)
    out = (x < 0).where(x.cast(c.dtype).lift(math.pi), 0.0)
    return (x.map("isnan").where(math.nan, out) if x.dtype.is_float else out).value


def _logaddexp2(c: Call) -> Value:
    """max + log2(1 + 2**-|a - b|), and the maximum alone where both are the same infinity."""
    a, b = (Term(c.e, v) for v in operands(c, c.dtype))
    top = a.map("max", b)
    rest = (-abs(a - b)).map("exp2").map("log1p") * (1 / math.log(2))
    return (a.equals(b) & top.map("isinf")).where(top, top + rest).value


def _hash(c: Call) -> Value:
    """The exclusive or of the elements' 64 bits (floats as f64): bit by bit, a bit is set where it
    is set in an odd number of elements."""
    if c.get("mode", 0) != 0:
        raise Refused("hashing in another mode than 0")
    e, axes, keep = c.e, c.axes("dim"), bool(c.get("keepdim", False))
    wide = e.cast(c.first, F64 if c.first.type.dtype.is_float else I64)
    bits = e.unsqueeze(e.op("bitcast", wide, dtype=I64), wide.type.rank)
    place = e.op("iota", shape=(64,), axis=0, dtype=I64)
    each = e.with_scalar("and", e.map("shr", bits, place), 1)
    if axes:
        each = e.op("reduce_sum", each, axes=tuple(axes), keepdims=keep)
    word = e.map("shl", e.with_scalar("and", each, 1), place)
    word = e.op("reduce_sum", word, axes=(word.type.rank - 1,), keepdims=False)
    return e.op("bitcast", word, dtype=DTYPES["u64"])


RULES: dict[str, Rule] = {
    "hash_tensor": _hash,
    "frexp": _frexp, "nextafter": _nextafter, "view": _view,
    "gcd": lambda c: c.e.map("gcd", *operands(c, c.dtype)), "lcm": _lcm,
    "heaviside": _heaviside, "angle": _angle, "logaddexp2": _logaddexp2,
}  # fmt: skip
