"""TfIdfVectorizer over numbers: how often n-grams of a pool occur (TfIdfVectorizer-9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.texts import Texts
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64
from cuvil.sym.expr import Dim, add

_MODES = ("TF", "IDF", "TFIDF")


def _tfidf(n: Node) -> Value:
    e, item = n.e, n.inputs[0]
    if isinstance(item, Texts) != bool(n.attrs.get("pool_strings")):
        raise InvalidModelError("TfIdfVectorizer: its pool and its input are of different types")
    x = item.value if isinstance(item, Texts) else n[0]
    flat = x.type.rank < 2
    mode = n.text("mode")
    if mode not in _MODES:
        raise InvalidModelError(f"TfIdfVectorizer: mode {mode!r} is not one of {_MODES}")
    if x.type.rank > 2:
        raise InvalidModelError(f"TfIdfVectorizer takes [C] or [N, C], got {x.type}")
    rows = x.type.shape[0] if x.type.rank == 2 else 1
    length: Dim = x.type.shape[-1] if x.type.rank else 1
    x = e.cast(e.reshape(x, (rows, length)), I64)
    places = n.integers("ngram_indexes")
    counts: list[Value] = []
    order: list[int] = []
    for size, first, pool in _pools(n):
        counts.append(_occurrences(n, x, length, size, pool))
        order += places[first : first + len(pool)]
    width = max(places) + 1
    if not counts:
        return e.broadcast(e.scalar(0, F32), (width,) if flat else (rows, width))
    found = counts[0] if len(counts) == 1 else e.op("concat", *counts, axis=1)
    out = _placed(n, found, order, width)
    out = e.cast(out, F32)
    if mode == "IDF":
        out = e.with_scalar("min", out, 1)
    if mode != "TF" and n.attrs.get("weights"):
        weights = np.asarray(n.attrs["weights"], np.float32)
        if weights.shape != (len(places),):
            raise InvalidModelError(
                f"TfIdfVectorizer: {weights.size} weights for {len(places)} n-grams"
            )
        if len(set(places)) != len(places):
            raise Refused("weighted n-grams share a place of the result")
        # A weight belongs to its n-gram, whatever place of the result that has.
        scale = np.ones(width, np.float32)
        scale[places] = weights
        out = e.map("mul", out, e.weight(scale))
    return e.reshape(out, (width,)) if flat else out


def _pools(n: Node) -> Iterator[tuple[int, int, Sequence[Sequence[int]]]]:
    """(size, number of the first, n-grams) for each size that is asked for."""
    starts = n.integers("ngram_counts")
    texts = n.attrs.get("pool_strings")
    pool = [n.words.number(w) for w in texts] if texts else n.integers("pool_int64s")
    least, most = n.integer("min_gram_length"), n.integer("max_gram_length")
    if len(n.integers("ngram_indexes")) == 0 or starts != sorted(starts):
        raise InvalidModelError("TfIdfVectorizer: its pool is malformed")
    number = 0
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else len(pool)
        size = i + 1
        if end > len(pool) or (end - start) % size:
            raise InvalidModelError(f"TfIdfVectorizer: {end - start} items in n-grams of {size}")
        grams = [pool[at : at + size] for at in range(start, end, size)]
        if grams and least <= size <= most:
            yield size, number, grams
        number += len(grams)
    if number != len(n.integers("ngram_indexes")):
        raise InvalidModelError("TfIdfVectorizer: ngram_indexes does not fit the pool")


def _occurrences(n: Node, x: Value, length: Dim, size: int, pool: Sequence[Sequence[int]]) -> Value:
    """How often each n-gram occurs, [N, n-grams], its items a step of 1 to skips + 1 apart.

    Single items have no step: they are counted once.
    """
    e = n.e
    table = np.asarray(pool, np.int64)
    total: Value | None = None
    rows = x.type.shape[0]
    steps = [1] if size == 1 else list(range(1, n.integer("max_skip_count") + 2))
    for step in steps:
        span = step * (size - 1)
        starts = e.simplify(add(length, -span))
        if isinstance(starts, int) and starts <= 0:
            continue
        if not e.context.facts.nonnegative(starts):
            raise Refused("the row may be shorter than an n-gram", "give that dimension a size")
        same: Value | None = None
        for item in range(size):
            part = e.slice(x, 1, item * step, add(starts, item * step))
            match = e.map("eq", e.unsqueeze(part, 2), e.weight(table[:, item]))
            same = match if same is None else e.op("and", same, match)
        assert same is not None
        count = e.op("reduce_sum", e.cast(same, I64), axes=(1,), keepdims=False)
        total = count if total is None else e.op("add", total, count)
    if total is None:
        return e.broadcast(e.scalar(0, I64), (rows, len(pool)))
    return total


def _placed(n: Node, counts: Value, order: Sequence[int], width: int) -> Value:
    """Columns at their places; columns of one place are added up."""
    e, rows = n.e, counts.type.shape[0]
    if len(set(order)) == len(order):
        source = np.full(width, len(order), np.int64)
        source[list(order)] = np.arange(len(order))
        empty = e.broadcast(e.scalar(0, I64), (rows, 1))
        return e.op("gather", e.op("concat", counts, empty, axis=1), e.weight(source), axis=1)
    zeros = e.broadcast(e.scalar(0, I64), (rows, width))
    index = e.broadcast(e.weight(np.asarray([order], np.int64)), counts.type.shape)
    return e.op("scatter_elements", zeros, index, counts, axis=1, reduction="add")


TABLE: dict[str, Handler] = {"TfIdfVectorizer": _tfidf}
