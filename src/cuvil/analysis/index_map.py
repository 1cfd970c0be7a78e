"""Index maps: which element of the operand a movement reads for a given element of its result.

An index is a tuple of dims over loop symbols. ``pull`` takes an index of the result to the index
of the operand; ``trace_view`` follows a chain of movements down to the value that lies in memory
and says whether the whole chain is one strided view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cuvil.ir.core import Op, Value
from cuvil.ir.types import Shape
from cuvil.sym.expr import Dim, Expr, add, mul, symbol, symbols_of, total
from cuvil.sym.facts import Facts

Index = tuple[Dim, ...]

# Begins the name of every symbol made here and in codegen; no symbol of a model begins so.
LOCAL = "%"

VIEW_OPS = ("reshape", "transpose", "broadcast", "slice")


def row_major(shape: Sequence[Dim]) -> Index:
    """Element strides of a contiguous row-major tensor."""
    strides: list[Dim] = []
    size: Dim = 1
    for d in reversed(shape):
        strides.append(size)
        size = mul(size, d)
    return tuple(reversed(strides))


def offset_of(index: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    """The linear element offset of an index in a contiguous tensor."""
    return total(mul(i, stride) for i, stride in zip(index, row_major(shape), strict=True))


def delinearize(offset: Dim, shape: Sequence[Dim], facts: Facts) -> Index:
    """The index whose linear offset in ``shape`` is ``offset``."""
    strides = row_major(shape)
    out: list[Dim] = []
    for axis, (d, stride) in enumerate(zip(shape, strides, strict=True)):
        if d == 1:
            out.append(0)
            continue
        if stride == 0:
            out.append(0)
            continue
        part = facts.floordiv(offset, stride) if stride != 1 else offset
        outermost = all(x == 1 for x in shape[:axis])
        if not outermost and d != 0:
            part = facts.mod(part, d)
        out.append(part)
    return tuple(out)


def _pull_reshape(op: Op, index: Index, facts: Facts) -> Index:
    source, target = op.operands[0].type.shape, op.type.shape
    matched = _pull_matching_dims(index, source, target, facts)
    if matched is not None:
        return matched
    offset = facts.simplify(offset_of(index, target))
    return delinearize(offset, source, facts)


def _pull_matching_dims(
    index: Index, source: Shape, target: Shape, facts: Facts
) -> Index | None:
    """Handle equal leading and trailing dims without linearising them."""
    head = 0
    while head < min(len(source), len(target)) and source[head] == target[head]:
        head += 1
    tail = 0
    while tail < min(len(source), len(target)) - head and source[-1 - tail] == target[-1 - tail]:
        tail += 1
    if head == 0 and tail == 0:
        return None
    middle_source = source[head : len(source) - tail]
    middle_target = target[head : len(target) - tail]
    middle_index = index[head : len(index) - tail]
    offset = facts.simplify(offset_of(middle_index, middle_target))
    middle = delinearize(offset, middle_source, facts)
    return (*index[:head], *middle, *index[len(index) - tail :])


def _pull_transpose(op: Op, index: Index, facts: Facts) -> Index:
    out: list[Dim] = [0] * len(index)
    for at, p in enumerate(op.attrs["perm"]):
        out[p] = index[at]
    return tuple(out)


def _pull_broadcast(op: Op, index: Index, facts: Facts) -> Index:
    source = op.operands[0].type.shape
    tail = index[len(index) - len(source) :]
    return tuple(0 if d == 1 else i for i, d in zip(tail, source, strict=True))


def _pull_slice(op: Op, index: Index, facts: Facts) -> Index:
    return tuple(
        add(start, mul(i, step))
        for i, start, step in zip(index, op.attrs["start"], op.attrs["step"], strict=True)
    )


_PULL: Mapping[str, Callable[[Op, Index, Facts], Index]] = {
    "reshape": _pull_reshape,
    "transpose": _pull_transpose,
    "broadcast": _pull_broadcast,
    "slice": _pull_slice,
}


def pull(op: Op, index: Index, facts: Facts) -> Index:
    """The index of the operand that a view op reads for ``index`` of its result."""
    return _PULL[op.short](op, index, facts)


@dataclass(frozen=True)
class View:
    """``base`` (contiguous in memory) read at ``offset + sum(index * strides)``, in elements."""

    base: Value
    offset: Dim
    strides: Index
    shape: Shape


def trace_view(
    value: Value, facts: Facts, stop: Callable[[Value], bool] | None = None
) -> View | None:
    """The strided view that ``value`` is of the first value that isn't made by a view op.

    ``stop`` may end the walk earlier. None when the chain is not one affine map.
    """
    shape = value.type.shape
    if value.op is None or value.op.short not in VIEW_OPS or (stop is not None and stop(value)):
        strides = zip(shape, row_major(shape), strict=True)
        return View(value, 0, tuple(0 if d == 1 else stride for d, stride in strides), shape)
    names = [f"{LOCAL}d{i}" for i in range(len(shape))]
    index: Index = tuple(symbol(n) if d != 1 else 0 for n, d in zip(names, shape, strict=True))
    loops = {n: (0, add(d, -1)) for n, d in zip(names, shape, strict=True)}
    local = facts.with_loops(loops)
    while value.op is not None and value.op.short in VIEW_OPS:
        if stop is not None and stop(value):
            break
        index = pull(value.op, index, local)
        value = value.op.operands[0]
    offset = local.simplify(offset_of(index, value.type.shape))
    split = affine(offset, names)
    if split is None:
        return None
    constant, slopes = split
    return View(value, constant, slopes, shape)


def affine(offset: Dim, names: Sequence[str]) -> tuple[Dim, Index] | None:
    """(constant part, slope of each name), or None where ``offset`` is not affine in them."""
    slopes: dict[str, Dim] = dict.fromkeys(names, 0)
    constant: Dim = 0
    if isinstance(offset, int):
        return offset, (0,) * len(names)
    for monomial, coefficient in offset.terms:
        found = None
        rest: Dim = coefficient
        for atom, power in monomial:
            if atom.kind == "symbol" and atom.name in slopes:
                if found is not None or power != 1:
                    return None
                found = atom.name
                continue
            if atom.kind != "symbol" and any(symbols_of(a) & slopes.keys() for a in atom.args):
                return None
            for _ in range(power):
                rest = mul(rest, Expr(((((atom, 1),), 1),)))
        if found is None:
            constant = add(constant, rest)
        else:
            slopes[found] = add(slopes[found], rest)
    return constant, tuple(slopes[n] for n in names)


def merge_dims(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[Dim, Dim] | None:
    """(size, stride) of dims walked as one, or None where they aren't evenly spaced."""
    size: Dim = 1
    stride: Dim | None = None
    for d, s in zip(reversed(shape), reversed(strides), strict=True):
        if d == 1:
            continue
        if stride is None:
            stride, size = s, d
        elif s == mul(stride, size):
            size = mul(size, d)
        else:
            return None
    return size, (0 if stride is None else stride)
