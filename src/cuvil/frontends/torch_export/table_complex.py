"""Operators over complex tensors, which are carried as pairs of real ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export import table_fft
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.pairs import (
    Complex,
    Pair,
    complex_of,
    pair_of,
    partwise,
    result_dtype,
)
from cuvil.frontends.torch_export.table_contraction import matmul
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F64


def _first(c: Call) -> Any:
    return next(iter(c.args.values()))


def _view_as_complex(c: Call) -> Pair:
    x = c.first
    last = x.type.rank - 1
    re, im = (c.e.squeeze(c.e.slice(x, last, i, i + 1), [last]) for i in (0, 1))
    return Pair(re, im)


def _view_as_real(c: Call) -> Value:
    z = pair_of(c, _first(c))
    return c.e.op("concat", c.e.unsqueeze(z.re, -1), c.e.unsqueeze(z.im, -1), axis=z.re.type.rank)


def _from_parts(c: Call) -> Pair:
    dtype = result_dtype(c)
    re, im = (c.as_value(c[n], dtype) for n in ("real", "imag"))
    return Pair(c.e.broadcast(re, c.shape), c.e.broadcast(im, c.shape))


def _polar(c: Call) -> Pair:
    dtype = result_dtype(c)
    size, angle = (Term(c.e, c.as_value(c[n], dtype)) for n in ("abs", "angle"))
    return Complex(size * angle.map("cos"), size * angle.map("sin")).pair


def _convert(c: Call) -> Pair | Value:
    """Between complex dtypes, from real to complex, and to real, which drops the imaginary part."""
    source = _first(c)
    if c.metas[0].dtype.is_complex:
        return pair_of(c, source)
    assert isinstance(source, Pair)
    return c.e.cast(source.re, c.dtype)


def _same(c: Call) -> Pair:
    return pair_of(c, _first(c))


def _unary(formula: Callable[[Complex], Complex]) -> Rule:
    return lambda c: formula(complex_of(c, _first(c))).pair


def _real(formula: Callable[[Complex], Term]) -> Rule:
    """A real result in the dtype of the parts."""
    return lambda c: formula(complex_of(c, _first(c))).value


def _binary(formula: Callable[[Complex, Complex], Complex]) -> Rule:
    def rule(c: Call) -> Pair:
        a, b = (complex_of(c, v) for v in list(c.args.values())[:2])
        alpha = c.get("alpha", 1)
        return formula(a, b if alpha == 1 else b * complex_of(c, alpha)).pair

    return rule


def _quotient(c: Call) -> Pair:
    if c.get("rounding_mode") is not None:
        raise Refused("complex numbers have no rounded quotient")
    a, b = (complex_of(c, v) for v in list(c.args.values())[:2])
    return (a / b).pair


def _exp(z: Complex) -> Complex:
    """In f64, where the size alone doesn't overflow; an exponential of a real number is real, and
    one of -inf zero whatever its angle (C99, G.6.3.1)."""
    wide = _wide(z)
    size = wide.re.map("exp")
    gone = wide.re.equals(-math.inf)
    across = wide.im.equals(0).where(wide.im, size * wide.im.map("sin"))
    parts = (size * wide.im.map("cos"), across)
    re, im = (gone.where(0.0, part).cast(z.re.dtype) for part in parts)
    return Complex(re, im)


def _log(z: Complex) -> Complex:
    return Complex(_wide(z).size().map("log").cast(z.re.dtype), z.angle())


def _wide(z: Complex) -> Complex:
    """In f64, where no sum of two sizes of f32 overflows."""
    return Complex(z.re.cast(F64), z.im.cast(F64))


def _root(z: Complex) -> Complex:
    """The principal square root, from the part that does not cancel. It has the sign of z.im, that
    of a zero too; an infinite part gives an infinite one (C99, G.6.4.2)."""
    wide = _wide(z)
    scale = (abs(wide.re).map("max", abs(wide.im)) > 1e300).where(wide.re.lift(0.25), 1.0)
    re, im = abs(wide.re) * scale, abs(wide.im) * scale
    size = Complex(re, im).size()
    steep = im.map("isinf")
    large = (steep | re.map("isinf")).where(math.inf, (size * 0.5 + re * 0.5).map("sqrt"))
    small = steep.where(math.inf, large.equals(0).where(0.0, im * 0.5 / large))
    back = 1.0 / scale.map("sqrt")
    large, small = ((part * back).cast(z.re.dtype) for part in (large, small))
    right = z.re >= 0
    down = (z.im < 0) | (z.im.lift(1.0) / z.im < 0)
    other = right.where(small, large)
    return Complex(right.where(large, small), down.where(-other, other))


def _sine(z: Complex) -> Complex:
    return Complex(
        z.re.map("sin") * z.im.map("cosh"), z.re.map("cos") * z.im.map("sinh")
    )


def _cosine(z: Complex) -> Complex:
    return Complex(
        z.re.map("cos") * z.im.map("cosh"), -(z.re.map("sin") * z.im.map("sinh"))
    )


def _reciprocal(z: Complex) -> Complex:
    return Complex(z.re.lift(1.0), z.im.lift(0.0)) / z


def _sign(z: Complex) -> Complex:
    """z / |z|, 0 at 0"""
    size = z.size()
    zero = size.equals(0)
    return Complex(zero.where(0.0, z.re / size), zero.where(0.0, z.im / size))


def _power(c: Call) -> Pair:
    base, exponent = list(c.args.values())[:2]
    if not (isinstance(exponent, int) and 1 <= exponent <= 8):
        raise Refused("a power of complex numbers with an exponent other than 1 to 8")
    z = complex_of(c, base)
    out = z
    for _ in range(exponent - 1):
        out = out * z
    return out.pair


def _prod(c: Call) -> Pair:
    """The product along an axis, or of all elements: halves are multiplied with each other."""
    z = pair_of(c, c["self"])
    dim = c.get("dim")
    if dim is None or not z.re.type.rank:
        z, axis = Pair(*(c.e.reshape(part, [z.re.type.elements]) for part in (z.re, z.im))), 0
    else:
        axis = dim % z.re.type.rank
    count = z.re.type.shape[axis]
    if not isinstance(count, int):
        raise Refused("the product of a number of complex numbers that isn't fixed")
    left = complex_of(c, z)
    while count > 1:
        half = count // 2
        parts = [_cut(left, axis, i * half, (i + 1) * half) for i in (0, 1)]
        joined = parts[0] * parts[1]
        if count % 2:
            joined = _beside(joined, _cut(left, axis, count - 1, count), axis)
        left, count = joined, half + count % 2
    if not count:
        return _filled(c, 1)
    return Pair(*(c.e.reshape(part.value, list(c.shape)) for part in (left.re, left.im)))


def _cut(z: Complex, axis: int, start: int, stop: int) -> Complex:
    return Complex(*(p.of(p.e.slice(p.value, axis, start, stop)) for p in (z.re, z.im)))


def _beside(a: Complex, b: Complex, axis: int) -> Complex:
    pairs = ((a.re, b.re), (a.im, b.im))
    return Complex(*(x.of(x.e.op("concat", x.value, y.value, axis=axis)) for x, y in pairs))


def _product(first: str, second: str) -> Rule:
    """A matrix product by four real ones; beta and alpha as addmm has them."""

    def rule(c: Call) -> Pair:
        a, b = pair_of(c, c[first]), pair_of(c, c[second])
        re = c.e.map("sub", matmul(c, a.re, b.re), matmul(c, a.im, b.im))
        im = c.e.map("add", matmul(c, a.re, b.im), matmul(c, a.im, b.re))
        out = Complex(Term(c.e, re), Term(c.e, im))
        if "beta" not in c.args:
            return out.pair
        out = out * complex_of(c, c.get("alpha", 1))
        beta = c.get("beta", 1)
        if beta != 0:
            out = out + complex_of(c, c["self"]) * complex_of(c, beta)
        return out.pair

    return rule


def _compare(equal: bool) -> Rule:
    def rule(c: Call) -> Value:
        a, b = list(c.args.values())[:2]
        dtype = next(x.re.type.dtype for x in (a, b) if isinstance(x, Pair))
        x, y = complex_of(c, a, dtype), complex_of(c, b, dtype)
        same = x.re.equals(y.re) & x.im.equals(y.im)
        return same.value if equal else (~same).value

    return rule


def _test(name: str, joined: str) -> Rule:
    """isnan and isinf of either part."""

    def rule(c: Call) -> Value:
        z = _first(c)
        return c.e.op(joined, c.e.op(name, z.re), c.e.op(name, z.im))

    return rule


def _finite(c: Call) -> Value:
    z = _first(c)
    tests = [Term(c.e, part).map(n) for part in (z.re, z.im) for n in ("isnan", "isinf")]
    return (~(tests[0] | tests[1] | tests[2] | tests[3])).value


def _choose(c: Call, condition: Value, yes: Pair, no: Pair) -> Pair:
    mask = c.e.cast(condition, BOOL)
    return Pair(*(c.e.map("select", mask, a, b)
                  for a, b in ((yes.re, no.re), (yes.im, no.im))))  # fmt: skip


def _where(c: Call) -> Pair:
    return _choose(c, c.tensor("condition"), pair_of(c, c["self"]), pair_of(c, c["other"]))


def _masked_fill(c: Call) -> Pair:
    return _choose(c, c.tensor("mask"), pair_of(c, c["value"]), pair_of(c, c["self"]))


def _filled(c: Call, number: complex | float) -> Pair:
    pair = pair_of(c, number)
    return Pair(c.e.broadcast(pair.re, c.shape), c.e.broadcast(pair.im, c.shape))


def _copy(c: Call) -> Pair | Value:
    """self.copy_(src)"""
    source = pair_of(c, c["src"])
    shape = c.shape
    return Pair(c.e.broadcast(source.re, shape), c.e.broadcast(source.im, shape))


_PARTWISE = (
    "reshape", "_unsafe_view", "view_as", "reshape_as", "unsqueeze", "squeeze", "flatten", "ravel",
    "view_copy", "unsqueeze_copy", "squeeze_copy", "_reshape_alias", "atleast_1d", "atleast_2d",
    "unflatten", "view", "expand", "expand_as", "broadcast_to", "expand_copy", "permute",
    "permute_copy", "transpose", "swapaxes", "swapdims", "transpose_copy", "t", "t_copy",
    "numpy_T", "mT", "movedim", "moveaxis", "cat", "concat", "concatenate", "stack", "hstack",
    "repeat", "tile", "flip", "roll", "rot90", "slice", "select", "narrow", "split",
    "split_with_sizes", "chunk", "unbind", "index_select", "gather", "index", "take", "diagonal",
    "unfold", "tril", "triu", "sum", "mean", "cumsum", "trace", "as_strided", "constant_pad_nd",
    "pad", "masked_scatter", "index_put", "slice_scatter", "select_scatter", "diag_embed",
)  # fmt: skip
_COPIES = ("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "lift",
           "resolve_conj", "resolve_neg", "alias_copy", "detach_copy", "positive")  # fmt: skip


def complex_rules(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """The table, given that of real operators."""
    conjugate = _unary(lambda z: Complex(z.re, -z.im))
    return {
        **{name: partwise(rules[name]) for name in _PARTWISE if name in rules},
        **dict.fromkeys(_COPIES, _same),
        **dict.fromkeys(("to", "_to_copy", "type_as"), _convert),
        **{n: lambda c: _conjugated(partwise(rules["mT"])(c), c)
           for n in ("adjoint", "mH", "matrix_H")},
        "view_as_complex": _view_as_complex, "view_as_real": _view_as_real,
        "_view_as_complex_copy": _view_as_complex, "view_as_real_copy": _view_as_real,
        "complex": _from_parts, "polar": _polar,
        "real": _real(lambda z: z.re), "imag": _real(lambda z: z.im),
        "conj": conjugate, "_conj": conjugate, "conj_physical": conjugate,
        "_conj_physical": conjugate, "_conj_copy": conjugate,
        "abs": _real(Complex.size), "absolute": _real(Complex.size),
        "angle": _real(Complex.angle),
        "neg": _unary(lambda z: -z), "negative": _unary(lambda z: -z),
        "add": _binary(lambda a, b: a + b), "sub": _binary(lambda a, b: a - b),
        "subtract": _binary(lambda a, b: a - b), "rsub": _binary(lambda a, b: b - a),
        "mul": _binary(lambda a, b: a * b), "multiply": _binary(lambda a, b: a * b),
        "div": _quotient, "divide": _quotient, "true_divide": _quotient,
        "reciprocal": _unary(_reciprocal), "square": _unary(lambda z: z * z),
        "exp": _unary(_exp), "log": _unary(_log), "sgn": _unary(_sign), "pow": _power,
        "prod": _prod,
        "sqrt": _unary(_root), "sin": _unary(_sine), "cos": _unary(_cosine),
        "matmul": _product("self", "other"), "mm": _product("self", "mat2"),
        "bmm": _product("self", "mat2"), "mv": _product("self", "vec"),
        "dot": _product("self", "tensor"),
        "addmm": _product("mat1", "mat2"), "baddbmm": _product("batch1", "batch2"),
        "eq": _compare(True), "ne": _compare(False),
        "isnan": _test("isnan", "or"), "isinf": _test("isinf", "or"), "isfinite": _finite,
        "where": _where, "masked_fill": _masked_fill, "copy": _copy,
        **{n: lambda c: _filled(c, 0) for n in ("zeros", "zeros_like", "new_zeros", "empty",
                                                "empty_like", "new_empty")},
        **{n: lambda c: _filled(c, 1) for n in ("ones", "ones_like", "new_ones")},
        **{n: lambda c: _filled(c, c["fill_value"]) for n in ("full", "full_like", "new_full")},
        **{n: rules[n] for n in ("linalg_eig", "linalg_eigvals", "_linalg_eigvals")},
        **table_fft.COMPLEX,
    }  # fmt: skip


def _conjugated(z: Any, c: Call) -> Pair:
    return Pair(z.re, c.e.op("neg", z.im))
