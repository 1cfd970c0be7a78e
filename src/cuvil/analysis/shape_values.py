"""The values of integer tensors that are known as expressions over symbols.

Models compute shapes with tensors: Shape, Gather, Concat, then Reshape. This analysis follows
such a chain and gives the elements as dims (int or expression), or None where the value depends
on data. Small tensors only; results are kept with the analysis object, not with the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from cuvil.ir.core import Op, Value
from cuvil.ops.numeric import concrete
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, Expr, add, evaluate, floordiv, maximum, minimum, mod, mul
from cuvil.sym.facts import Facts

Elements = np.ndarray[Any, np.dtype[np.object_]]
LIMIT = 4096


class _Undecided(ArithmeticError):
    """The sign of an expression decides, and isn't known."""


def _truncating(facts: Facts, a: Dim, b: Dim) -> Dim:
    """Division towards zero; x / 0 is 0, as the operator has it."""
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b) if b else 0
        return quotient if (a < 0) == (b < 0) else -quotient
    if facts.nonnegative(a) and facts.positive(b):
        return floordiv(a, b)
    raise _Undecided


def _remainder(facts: Facts, a: Dim, b: Dim) -> Dim:
    """The remainder with the sign of the dividend; x % 0 is 0."""
    if isinstance(a, int) and isinstance(b, int):
        rest = abs(a) % abs(b) if b else 0
        return rest if a >= 0 else -rest
    if facts.nonnegative(a) and facts.positive(b):
        return mod(a, b)
    raise _Undecided


def _flooring(function: Callable[[Dim, Dim], Dim]) -> Callable[[Facts, Dim, Dim], Dim]:
    def apply(facts: Facts, a: Dim, b: Dim) -> Dim:
        if isinstance(b, int):
            if b == 0:
                return 0
            if b > 0 or isinstance(a, int):
                return function(a, b)
        elif facts.positive(b):
            return function(a, b)
        raise _Undecided

    return apply


_ARITHMETIC: Mapping[str, Callable[..., Dim]] = {
    "add": lambda facts, a, b: add(a, b),
    "sub": lambda facts, a, b: add(a, mul(b, -1)),
    "mul": lambda facts, a, b: mul(a, b),
    "div": _truncating,
    "floordiv": _flooring(floordiv),
    "mod": _flooring(mod),
    "fmod": _remainder,
    "max": lambda facts, a, b: maximum(a, b),
    "min": lambda facts, a, b: minimum(a, b),
    "neg": lambda facts, a: mul(a, -1),
}
_MOVEMENT = ("reshape", "transpose", "broadcast", "slice", "concat", "gather")
_REDUCE: Mapping[str, tuple[Callable[[Dim, Dim], Dim], Dim]] = {
    "reduce_sum": (add, 0),
    "reduce_prod": (mul, 1),
}
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "select")
_READ = frozenset((*_ARITHMETIC, *_MOVEMENT, *_REDUCE, *_COMPARE, "cast"))


class ShapeValues:
    """Answers ``of(value)``; ``facts`` decides comparisons between expressions."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts or Facts()
        self._cache: dict[int, tuple[Value, Elements | None]] = {}

    def of(self, value: Value) -> Elements | None:
        """The elements as an object array of the value's shape, or None if they aren't known."""
        found = self.partial(value)
        return None if found is None or any(d is None for d in found.reshape(-1)) else found

    def partial(self, value: Value) -> Elements | None:
        """As ``of``, with None for single elements that aren't known; None if none is."""
        work = [value]
        while work:  # operands first: a chain may be longer than calls may be deep
            last = work[-1]
            if id(last) in self._cache:
                work.pop()
                continue
            missing = [v for v in _whole_operands(last) if id(v) not in self._cache]
            work += missing
            if not missing:
                self._cache[id(last)] = (last, self._compute(last))
        return self._cache[id(value)][1]

    def ints(self, value: Value) -> list[int] | None:
        """The elements if all are plain integers."""
        found = self.of(value)
        if found is None or any(isinstance(d, Expr) for d in found.reshape(-1)):
            return None
        return [int(d) for d in found.reshape(-1)]

    def _compute(self, value: Value) -> Elements | None:
        op = value.op
        if op is None or not _may_be_known(value):
            return None
        if op.short == "constant":
            return _objects(op.attrs["value"].array)
        if op.short == "dims":
            values = np.empty(len(op.attrs["values"]), dtype=object)
            values[:] = op.attrs["values"]
            return values.reshape(value.type.shape)
        if op.short == "iota":
            axis = op.attrs["axis"]
            return _objects(np.indices(concrete(value.type))[axis])
        if op.short == "cast" and op.operands[0].type.dtype.kind in "iub":
            return self.partial(op.operands[0])
        return self._derived(op, value)

    def _derived(self, op: Op, value: Value) -> Elements | None:
        kind = op.short
        if kind not in _ARITHMETIC and kind not in _MOVEMENT and kind not in _REDUCE:
            return self._compare(op) if kind in _COMPARE else None
        inputs: list[Elements] = []
        for operand in op.operands:
            found = self.partial(operand)
            if found is None and kind == "concat" and operand.type.is_static:
                found = np.full(concrete(operand.type), None, dtype=object)
            if found is None:
                return None
            inputs.append(found)
        if kind in _ARITHMETIC:
            return self._elementwise(_ARITHMETIC[kind], inputs)
        if kind in _REDUCE:
            return _reduce(_REDUCE[kind], inputs[0], op, value)
        if kind == "gather":
            if any(d is None or isinstance(d, Expr) for d in inputs[1].reshape(-1)):
                return None
            inputs[1] = inputs[1].astype(np.int64)
        out = registry()[op.name].reference(inputs, op.attrs, [value.type])[0]
        return _known(np.asarray(out, dtype=object).reshape(value.type.shape))

    def _elementwise(self, function: Callable[..., Dim], inputs: list[Elements]) -> Elements | None:
        out = np.empty(inputs[0].shape, dtype=object)
        flat = out.reshape(-1)
        for i, items in enumerate(zip(*(x.reshape(-1) for x in inputs), strict=True)):
            if all(item is not None for item in items):
                with suppress(_Undecided):
                    flat[i] = self.facts.simplify(function(self.facts, *items))
        return _known(out)

    def _compare(self, op: Op) -> Elements | None:
        inputs = [self.of(v) for v in op.operands]
        if any(x is None for x in inputs):
            return None
        if op.short == "select":
            pick, a, b = inputs
            assert pick is not None and a is not None and b is not None
            if any(isinstance(d, Expr) for d in pick.reshape(-1)):
                return None
            return np.where(pick.astype(bool), a, b)
        a, b = inputs
        assert a is not None and b is not None
        answers = [self._decide(op.short, x, y) for x, y in zip(a.reshape(-1), b.reshape(-1))]
        if any(x is None for x in answers):
            return None
        out = np.empty(a.shape, dtype=object)
        out.reshape(-1)[:] = answers
        return out

    def _decide(self, relation: str, a: Dim, b: Dim) -> bool | None:
        if relation in ("gt", "le"):
            answer = self._decide("lt", b, a)
            return answer if relation == "gt" or answer is None else not answer
        if relation == "ge":
            answer = self._decide("lt", a, b)
            return None if answer is None else not answer
        if relation == "ne":
            answer = self._decide("eq", a, b)
            return None if answer is None else not answer
        difference = add(a, mul(b, -1))
        if isinstance(difference, int):
            return difference == 0 if relation == "eq" else difference < 0
        less, more = self.facts.less(a, b), self.facts.less(b, a)
        if relation == "eq":
            return False if less or more else None
        return True if less else False if more or a == b else None


def _may_be_known(value: Value) -> bool:
    """Whether its type is that of few whole numbers."""
    dtype = value.type.dtype
    if dtype.is_float or (dtype.is_integer and dtype.size < 4):
        return False  # sizes wrap in narrow integers
    return value.type.is_static and evaluate(value.type.elements, {}) <= LIMIT


def _whole_operands(value: Value) -> list[Value]:
    """What the elements of ``value`` may be made of."""
    op = value.op
    if op is None or not _may_be_known(value) or op.short not in _READ:
        return []
    return list(op.operands)


def _known(elements: Elements) -> Elements | None:
    """None in place of elements of which none is known."""
    flat = elements.reshape(-1)
    return None if flat.size and all(d is None for d in flat) else elements


def _objects(array: np.ndarray[Any, Any]) -> Elements:
    out = np.empty(array.shape, dtype=object)
    out.reshape(-1)[:] = [int(x) for x in array.reshape(-1)]
    return out


def _reduce(
    rule: tuple[Callable[[Dim, Dim], Dim], Dim], items: Elements, op: Op, value: Value
) -> Elements | None:
    function, seed = rule
    axes = tuple(a % items.ndim for a in op.attrs["axes"])
    kept = [i for i in range(items.ndim) if i not in axes]
    moved = items.transpose([*kept, *axes]).reshape([items.shape[i] for i in kept] + [-1])
    out = np.empty(moved.shape[:-1], dtype=object)
    for index in np.ndindex(*out.shape):
        if all(d is not None for d in moved[index]):
            out[index] = reduce(function, moved[index], seed)
    return _known(out.reshape(value.type.shape))
