"""Tensors made from sizes and numbers, and copies that change only the dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cuvil.frontends.torch_export.call import Call, Final, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F64, I64
from cuvil.sym.expr import Dim, Expr


def _filled(number: Callable[[Call], Any]) -> Rule:
    def rule(c: Call) -> Value:
        return c.e.broadcast(c.as_value(number(c), c.dtype), c.shape)

    return rule


def _zero(c: Call) -> int:
    return 0


def _one(c: Call) -> int:
    return 1


def _arange(c: Call) -> Value:
    """start + step * i; computed in i64 or f64, then rounded to the dtype, as torch does."""
    e = c.e
    start, step = c.get("start", 0), c.get("step", 1)
    if any(isinstance(x, Value) for x in (start, step)):
        raise Refused("its start or step depends on data")
    shape = c.shape
    if c.dtype.is_integer:  # torch converts the ends first, to whole numbers here
        start, step = (int(x) if isinstance(x, float) else x for x in (start, step))
    exact = all(isinstance(x, (int, Expr)) for x in (start, step))
    if start == 0 and step == 1 and exact:
        return e.op("iota", shape=shape, axis=0, dtype=c.dtype)
    wide = I64 if exact else F64
    line = e.op("iota", shape=shape, axis=0, dtype=wide)
    if step != 1:
        line = e.map("mul", line, c.as_value(step, wide))
    if start != 0:
        line = e.map("add", line, c.as_value(start, wide))
    return e.cast(line, c.dtype)


def _linspace(c: Call) -> Value:
    """From both ends towards the middle, so that the last value is ``end`` exactly."""
    return c.e.cast(line_between(c), c.dtype)


def line_between(c: Call) -> Value:
    """linspace in f64; for an integer result torch truncates the ends first."""
    e = c.e
    (steps,) = c.shape
    start, end = (c.as_value(c[n], F64) for n in ("start", "end"))
    if c.dtype.is_integer:
        start, end = e.op("trunc", start), e.op("trunc", end)
    if steps in (0, 1):
        return e.broadcast(start, c.shape)
    if isinstance(steps, Expr):
        raise Refused("linspace of a symbolic length")
    gap = e.with_scalar("div", e.map("sub", end, start), float(max(int(steps) - 1, 1)))
    line = e.op("iota", shape=c.shape, axis=0, dtype=F64)
    back = e.map("sub", e.scalar(int(steps) - 1, F64), line)
    low = e.map("add", start, e.map("mul", gap, line))
    high = e.map("sub", end, e.map("mul", gap, back))
    early = e.with_scalar("lt", line, float(int(steps) // 2))
    return e.op("select", early, low, high)


def _eye(c: Call) -> Value:
    shape = c.shape
    rows, columns = (c.e.op("iota", shape=shape, axis=i, dtype=I64) for i in (0, 1))
    return c.e.cast(c.e.op("eq", rows, columns), c.dtype)


def _convert(c: Call) -> Value:
    return c.e.cast(c.first, c.dtype)


def _identity(c: Call) -> Value:
    return c.first


def _dropout(c: Call) -> Value:
    if c.get("train", False) and c.get("p", 0.5) > 0:
        raise Final(
            "dropout in training mode draws random numbers; call model.eval(), and write "
            "F.dropout(x, p, training=self.training), which is else in training mode always"
        )
    return c.first


def _native_dropout(c: Call) -> list[Value]:
    out = _dropout(c)
    return [out, c.e.broadcast(c.e.scalar(True, BOOL), out.type.shape)]


def _copy(c: Call) -> Value:
    """self.copy_(src): src in self's dtype and shape."""
    into = c.tensor("self")
    source = c.as_value(c["src"], into.type.dtype)
    return c.e.broadcast(source, into.type.shape)


def _one_hot(c: Call) -> Value:
    """Torch makes the classes from the data where num_classes is -1, so it must be given. A row of
    the unit matrix for each element, so that what is no class is an error of the call."""
    classes = c.shape[-1]
    row, column = (
        c.e.op("iota", shape=(classes, classes), axis=i, dtype=I64) for i in range(2)
    )
    unit = c.e.cast(c.e.op("eq", row, column), I64)
    return c.e.op("gather", unit, c.e.cast(c.tensor("self"), I64), axis=0, from_end=False)


def _random(c: Call) -> Value:
    raise Refused("it draws random numbers; pass them in as an input")


def triangle(c: Call, upper: bool) -> Value:
    """tril and triu: keep where column - row is at most (at least) the diagonal."""
    return triangle_of(c, c.first, c.get("diagonal", 0), upper=upper)


def triangle_of(c: Call, x: Value, shift: Dim, *, upper: bool) -> Value:
    """The elements on one side of a diagonal, the others 0."""
    e = c.e
    rows, columns = x.type.shape[-2:]
    row = e.op("iota", shape=(rows, 1), axis=0, dtype=I64)
    column = e.op("iota", shape=(1, columns), axis=1, dtype=I64)
    edge = e.map("add", row, c.as_value(shift, I64))
    keep = e.map("ge" if upper else "le", column, edge)
    return e.map("select", keep, x, e.scalar(0, x.type.dtype))


def _triangle_indices(upper: bool) -> Rule:
    def rule(c: Call) -> Value:
        rows, columns, shift = (c.number(n) for n in ("row", "col", "offset"))
        make = np.triu_indices if upper else np.tril_indices
        return c.e.weight(np.stack(make(rows, shift, columns)).astype(c.dtype.numpy))

    return rule


def _scalar_tensor(c: Call) -> Value:
    return c.as_value(c["s"], c.dtype)


def _meshgrid(c: Call) -> list[Value]:
    tensors = list(c["tensors"])
    swap = c.get("indexing", "ij") == "xy" and len(tensors) > 1
    out = []
    for i, t in enumerate(tensors):
        axis = (1 - i if i < 2 else i) if swap else i
        shape = [1] * len(tensors)
        line = c.e.reshape(t, [*shape[:axis], t.type.elements, *shape[axis + 1 :]])
        out.append(c.e.broadcast(line, c.shape_of(i)))
    return out


_EMPTY = (
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
)
_COPIES = ("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "lift",
           "resolve_conj", "resolve_neg", "alias_copy", "detach_copy", "positive",
           "real")  # fmt: skip
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_RANDOM = ("rand", "randn", "randint", "bernoulli", "rand_like", "randn_like", "randint_like",
           "normal", "uniform", "multinomial", "randperm", "exponential",
           "normal_functional")  # fmt: skip

RULES: dict[str, Rule] = {
    **{name: _filled(_zero) for name in ("zeros", "zeros_like", "new_zeros", *_EMPTY)},
    **{name: _filled(_one) for name in ("ones", "ones_like", "new_ones")},
    **{name: _filled(lambda c: c["fill_value"]) for name in ("full", "full_like", "new_full")},
    **dict.fromkeys(_COPIES, _identity),
    **dict.fromkeys(("to", "_to_copy", "type_as", "_cast_Float", "_cast_Half"), _convert),
    **dict.fromkeys(_DROPOUTS, _dropout),
    **dict.fromkeys(_RANDOM, _random),
    "native_dropout": _native_dropout,
    "arange": _arange,
    "linspace": _linspace,
    "eye": _eye,
    "copy": _copy,
    "one_hot": _one_hot,
    "tril": lambda c: triangle(c, upper=False),
    "triu": lambda c: triangle(c, upper=True),
    "tril_indices": _triangle_indices(upper=False),
    "triu_indices": _triangle_indices(upper=True),
    "scalar_tensor": _scalar_tensor,
    "meshgrid": _meshgrid,
}  # fmt: skip
