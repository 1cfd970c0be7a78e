"""Calls of sources and movements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cuvil.ir.core import Weight
from cuvil.ir.types import DTYPES as CUVIL_DTYPES
from tests.ops.values import DTYPES, SHAPES, Case, Rng, case, hostile, plain


def _constant(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for shape in SHAPES:
            yield case(value=Weight(hostile(rng, shape, dtype)))


def _dims(rng: Rng) -> Iterator[Case]:
    yield case(values=())
    yield case(values=(3, 0, -1, 1 << 40))
    yield case(values=(7,), scalar=True)


def _iota(rng: Rng) -> Iterator[Case]:
    for shape in SHAPES[1:]:
        for axis in range(len(shape)):
            for name in ("i64", "i32", "f32", "u8"):
                yield case(shape=shape, axis=axis, dtype=CUVIL_DTYPES[name])
    yield case(shape=(300,), axis=0, dtype=CUVIL_DTYPES["u8"])


def _reshape(rng: Rng) -> Iterator[Case]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), (1, 1)), ((1,), ()), ((6, 7), (42,)), ((2, 3, 4), (4, 6)), ((0, 3), (2, 0)),
        ((2, 3, 4, 5), (2, 1, 3, 4, 5, 1)),
    ]  # fmt: skip
    for source, target in pairs:
        for dtype in ("float32", "float16", "int64", "bool"):
            yield case(hostile(rng, source, dtype), shape=target)


def _transpose(rng: Rng) -> Iterator[Case]:
    for shape in SHAPES:
        for dtype in ("float32", "float16", "uint8"):
            perm = tuple(int(p) for p in rng.permutation(len(shape)))
            yield case(hostile(rng, shape, dtype), perm=perm)
    yield case(hostile(rng, (37, 65), "float32"), perm=(1, 0))


def _broadcast(rng: Rng) -> Iterator[Case]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()), ((), (2, 3)), ((1,), (0,)), ((5,), (4, 5)), ((3, 1), (2, 3, 7)),
        ((1, 3, 1), (2, 3, 67)), ((2, 1, 1, 3), (5, 2, 2, 2, 3)), ((0, 1), (0, 4)),
    ]  # fmt: skip
    for source, target in pairs:
        for dtype in ("float32", "int64", "bool"):
            yield case(hostile(rng, source, dtype), shape=target)


def _slice(rng: Rng) -> Iterator[Case]:
    yield case(np.float32(3), start=(), size=(), step=())
    for shape in SHAPES[1:]:
        for dtype in ("float32", "float16", "int64"):
            start, size, step = [], [], []
            for d in shape:
                s = int(rng.integers(0, max(d, 1)))
                stride = int(rng.choice([1, 1, 2, 3, -1, -2]))
                room = (d - s + stride - 1) // stride if stride > 0 else s // -stride + 1
                start.append(s)
                size.append(int(rng.integers(0, room + 1)) if d else 0)
                step.append(stride)
            yield case(
                hostile(rng, shape, dtype), start=tuple(start), size=tuple(size), step=tuple(step)
            )
    yield case(plain(rng, (67,), "float32"), start=(66,), size=(34,), step=(-2,))


def _concat(rng: Rng) -> Iterator[Case]:
    for dtype in ("float32", "int32", "bool"):
        yield case(hostile(rng, (3,), dtype), axis=0)
        yield case(hostile(rng, (3,), dtype), hostile(rng, (0,), dtype), axis=-1)
        parts = [hostile(rng, (2, n, 5), dtype) for n in (1, 33, 2, 0)]
        yield case(*parts, axis=1)
        yield case(hostile(rng, (0, 4), dtype), hostile(rng, (0, 3), dtype), axis=1)


def _pad(rng: Rng) -> Iterator[Case]:
    for dtype in ("float32", "float16", "int64", "bool"):
        x = hostile(rng, (2, 5, 7), dtype)
        yield case(x, lo=(0, 1, 2), hi=(1, 0, 3), value=1.0)
        yield case(x, lo=(0, -2, 3), hi=(0, 1, -4))
        for mode in ("reflect", "edge", "wrap"):
            yield case(x, lo=(0, 2, 3), hi=(0, 4, 1), mode=mode)
            yield case(x, lo=(0, 0, 8), hi=(0, -1, 20), mode=mode)
            yield case(hostile(rng, (1,), dtype), lo=(2,), hi=(1,), mode=mode)
    yield case(np.float32(2), lo=(), hi=())
    yield case(np.zeros((0, 2), np.float32), lo=(1, 0), hi=(2, 0), value=float("-inf"))


def _index(rng: Rng, shape: tuple[int, ...], size: int, dtype: str = "int64") -> np.ndarray:
    low = 0 if dtype.startswith("u") else -size
    return np.asarray(rng.integers(low, size, shape)).astype(dtype)


def _gather(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for axis in (0, 1, -1):
            x = hostile(rng, (4, 6, 7), dtype)
            yield case(x, _index(rng, (3,), x.shape[axis], "int32"), axis=axis)
            yield case(x, _index(rng, (), x.shape[axis]), axis=axis)
            yield case(x, _index(rng, (2, 0), x.shape[axis]), axis=axis)
            yield case(x, _index(rng, (2, 5), x.shape[axis], "uint8"), axis=axis)


def _gather_elements(rng: Rng) -> Iterator[Case]:
    for dtype in ("float32", "int64", "bool"):
        x = hostile(rng, (4, 6, 7), dtype)
        for axis, shape in ((0, (9, 6, 7)), (1, (4, 3, 5)), (-1, (2, 6, 20)), (2, (0, 6, 2))):
            yield case(x, _index(rng, shape, x.shape[axis]), axis=axis)
        yield case(hostile(rng, (5,), dtype), _index(rng, (8,), 5, "int32"), axis=0)


def _gather_nd(rng: Rng) -> Iterator[Case]:
    for dtype in ("float32", "int64"):
        x = hostile(rng, (3, 4, 5), dtype)
        for depth in (1, 2, 3):
            columns = [_index(rng, (2, 6), x.shape[i]) for i in range(depth)]
            yield case(x, np.stack(columns, axis=-1))
        yield case(x, _index(rng, (3, 6, 1), 4), batch_dims=1)
        yield case(x, _index(rng, (3, 4, 1), 5, "int32"), batch_dims=2)
        yield case(x, _index(rng, (3, 0, 2), 4), batch_dims=1)


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "constant": _constant,
    "dims": _dims,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
}
