"""Einstein sums as transposes, matrix products and reductions."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, product

Labels = list[str]


def einsum(e: Emitter, equation: str, operands: Sequence[Value]) -> Value:
    """numpy.einsum's explicit and implicit forms, with ``...`` (Einsum-12); left to right."""
    inputs, output = _parse(equation, [v.type.rank for v in operands])
    terms = [_diagonals(e, v, labels) for v, labels in zip(operands, inputs, strict=True)]
    value, labels = terms[0]
    for i, (other, other_labels) in enumerate(terms[1:], 1):
        later = {x for _, rest in terms[i + 1 :] for x in rest} | set(output)
        value, labels = _pair(e, value, labels, other, other_labels, later)
    value, labels = _summed(e, value, labels, set(output))
    if sorted(labels) != sorted(output):
        raise InvalidModelError(f"Einsum: {equation!r} names a result dimension no operand has")
    return e.transpose(value, [labels.index(x) for x in output])


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        raise InvalidModelError(
            f"Einsum: {equation!r} has {len(texts)} terms for {len(ranks)} inputs"
        )
    dots = max(
        (r - len(t.replace("...", "")) for t, r in zip(texts, ranks, strict=True) if "..." in t),
        default=0,
    )
    inputs = []
    for text, rank in zip(texts, ranks, strict=True):
        count = rank - len(text.replace("...", "")) if "..." in text else 0
        labels = _labels(text, [f".{i}" for i in range(dots - count, dots)])
        if count < 0 or len(labels) != rank:
            raise InvalidModelError(f"Einsum: {text!r} does not fit rank {rank}")
        inputs.append(labels)
    if arrow:
        return inputs, _labels(right, [f".{i}" for i in range(dots)])
    every = [x for labels in inputs for x in labels]
    once = sorted(x for x in set(every) if every.count(x) == 1 and not x.startswith("."))
    return inputs, [f".{i}" for i in range(dots)] + once


def _labels(text: str, dots: Labels) -> Labels:
    before, found, after = text.partition("...")
    letters = before + after
    if not all(c.isascii() and c.isalpha() for c in letters):
        raise InvalidModelError(f"Einsum: {text!r} is not made of letters and '...'")
    return [*before, *(dots if found else []), *after]


def _diagonals(e: Emitter, value: Value, labels: Labels) -> tuple[Value, Labels]:
    """Keep the diagonal of dims with one label: elsewhere zero, then summed away."""
    while len(set(labels)) < len(labels):
        label = next(x for x in labels if labels.count(x) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        shape = value.type.shape
        e.context.require(shape[i], "==", shape[j], f"Einsum: dimension {label}")
        same = e.op(
            "eq",
            e.op("iota", shape=shape, axis=i, dtype=I64),
            e.op("iota", shape=shape, axis=j, dtype=I64),
        )
        kept = e.map("select", same, value, e.scalar(0, value.type.dtype))
        value = e.op("reduce_sum", kept, axes=(j,), keepdims=False)
        labels = labels[:j] + labels[j + 1 :]
    return value, labels


def _summed(e: Emitter, value: Value, labels: Labels, keep: set[str]) -> tuple[Value, Labels]:
    axes = tuple(i for i, x in enumerate(labels) if x not in keep)
    if not axes:
        return value, labels
    out = e.op("reduce_sum", value, axes=axes, keepdims=False)
    return out, [x for x in labels if x in keep]


def _pair(
    e: Emitter, a: Value, a_labels: Labels, b: Value, b_labels: Labels, later: set[str]
) -> tuple[Value, Labels]:
    """Contract two operands: batch dims stay, shared dims that nobody needs are summed."""
    a, a_labels = _summed(e, a, a_labels, later | set(b_labels))
    b, b_labels = _summed(e, b, b_labels, later | set(a_labels))
    a, b = _dots_broadcast(e, a, a_labels, b, b_labels)
    batch = [x for x in a_labels if x in b_labels and x in later]
    inner = [x for x in a_labels if x in b_labels and x not in later]
    rows = [x for x in a_labels if x not in b_labels]
    columns = [x for x in b_labels if x not in a_labels]
    a_size = dict(zip(a_labels, a.type.shape, strict=True))
    b_size = dict(zip(b_labels, b.type.shape, strict=True))
    for x in (*batch, *inner):
        e.context.require(a_size[x], "==", b_size[x], f"Einsum: dimension {x}")

    def sizes(table: dict[str, Dim], names: Labels) -> list[Dim]:
        return [table[x] for x in names]

    lead = sizes(a_size, batch)
    left = e.transpose(a, [a_labels.index(x) for x in (*batch, *rows, *inner)])
    left = e.reshape(left, [*lead, product(sizes(a_size, rows)), product(sizes(a_size, inner))])
    right = e.transpose(b, [b_labels.index(x) for x in (*batch, *inner, *columns)])
    right = e.reshape(
        right, [*lead, product(sizes(a_size, inner)), product(sizes(b_size, columns))]
    )
    out = e.op("matmul", left, right)
    shape = [*lead, *sizes(a_size, rows), *sizes(b_size, columns)]
    return e.reshape(out, shape), [*batch, *rows, *columns]


def _dots_broadcast(
    e: Emitter, a: Value, a_labels: Labels, b: Value, b_labels: Labels
) -> tuple[Value, Value]:
    """A dim of size 1 in one operand takes the other's size (also NumPy's rule for letters)."""
    a_shape, b_shape = list(a.type.shape), list(b.type.shape)
    for i, x in enumerate(a_labels):
        if x in b_labels:
            j = b_labels.index(x)
            if a_shape[i] == 1:
                a_shape[i] = b_shape[j]
            elif b_shape[j] == 1:
                b_shape[j] = a_shape[i]
    return e.broadcast(a, tuple(a_shape)), e.broadcast(b, tuple(b_shape))
