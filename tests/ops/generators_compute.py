"""Calls of reductions, normalisations, products, attention, and operators over order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from cuvil.ir.types import DTYPES as CUVIL_DTYPES
from tests.ops.values import (
    DTYPES,
    FLOATS,
    INTEGERS,
    SHAPES,
    Case,
    Rng,
    case,
    hostile,
    plain,
    tied,
    unusual,
)

Maker = Callable[[Rng, tuple[int, ...], str], np.ndarray[Any, Any]]


def _axes(rank: int) -> list[tuple[int, ...]]:
    some: list[tuple[int, ...]] = [tuple(range(rank))]
    if rank >= 1:
        some += [(rank - 1,), (0,), ()]
    if rank >= 3:
        some += [(0, rank - 1), (1, -1)]
    return some


def _reduce(make: Maker, dtypes: tuple[str, ...], empty: bool, rng: Rng) -> Iterator[Case]:
    for dtype in dtypes:
        shapes = (*SHAPES, (3, 700), (130, 5)) if dtype == "float32" else SHAPES[:1] + SHAPES[4:9]
        for shape in shapes:
            for axes in _axes(len(shape)):
                if empty or all(shape[a] for a in axes):
                    keep = bool(rng.integers(2))
                    yield case(make(rng, shape, dtype), axes=axes, keepdims=keep)
        yield case(unusual(rng, (4, 9), dtype), axes=(1,), keepdims=False)


def _near_one(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    x = plain(rng, shape, dtype, 0.1)
    return (x + 1).astype(dtype) if x.dtype.kind == "f" else x


def _arg(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for shape in SHAPES:
            for axis in range(-1, len(shape)):
                if not shape or shape[axis]:
                    keep, last = bool(rng.integers(2)), bool(rng.integers(2))
                    yield case(tied(rng, shape, dtype), axis=axis, keepdims=keep, last=last)


def _axis(extra: dict[str, Any], rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in SHAPES[1:]:
            for axis in (0, -1, len(shape) // 2):
                yield case(plain(rng, shape, dtype), axis=axis, **extra)
        yield case(plain(rng, (3, 700), dtype, 10.0), axis=1, **extra)
        yield case(unusual(rng, (4, 9), dtype), axis=1, **extra)
        rows = np.zeros((3, 5), dtype)
        rows[0], rows[1, 2] = -np.inf, -np.inf
        yield case(rows, axis=1, **extra)


def _lp(rng: Rng) -> Iterator[Case]:
    yield from _axis({"p": 1}, rng)
    yield from _axis({"p": 2}, rng)


def _tail(affine: tuple[str, ...], rng: Rng) -> Iterator[Case]:
    """layer_norm and rms_norm: every choice of weight and bias."""
    for dtype, flags in product(FLOATS, product((False, True), repeat=len(affine))):
        for shape, axis in (((7,), 0), ((2, 3, 67), -1), ((4, 3, 5), 1), ((0, 4), 1), ((2, 1), 1)):
            tail = shape[axis:] if axis else shape
            arrays = [plain(rng, tail, dtype) for flag in flags if flag]
            attrs = dict(zip(affine, flags, strict=True))
            yield case(plain(rng, shape, dtype), *arrays, axes_from=axis, eps=1e-5, **attrs)
        yield case(
            unusual(rng, (3, 5), dtype), *arrays[:0], axes_from=1, eps=1e-3,
            **dict.fromkeys(affine, False),
        )  # fmt: skip


_CHANNELS: tuple[tuple[int, ...], ...] = ((2, 6), (1, 6, 5), (2, 6, 3, 7), (1, 6, 2, 3, 2), (0, 6))


def _batch_norm(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in _CHANNELS:
            weight, bias, mean = (plain(rng, (6,), dtype) for _ in range(3))
            var = np.abs(plain(rng, (6,), dtype))
            yield case(plain(rng, shape, dtype), weight, bias, mean, var, eps=1e-5)


def _channel_norm(extra: tuple[dict[str, Any], ...], rng: Rng) -> Iterator[Case]:
    for dtype, weight, bias in product(FLOATS, (False, True), (False, True)):
        for shape, more in product(_CHANNELS, extra):
            arrays = [plain(rng, (6,), dtype) for flag in (weight, bias) if flag]
            yield case(
                plain(rng, shape, dtype), *arrays, eps=1e-5, has_weight=weight, has_bias=bias,
                **more,
            )  # fmt: skip


def _lrn(rng: Rng) -> Iterator[Case]:
    for dtype, size in product(FLOATS, (1, 2, 3, 5, 20)):
        for shape in ((2, 7, 3, 4), (6, 5, 1, 2)):
            yield case(plain(rng, shape, dtype), size=size, alpha=0.3, beta=0.75, bias=1.5)


def _matmul(rng: Rng) -> Iterator[Case]:
    sizes = ((1, 1, 1), (3, 5, 7), (2, 0, 3), (0, 4, 2), (3, 4, 0), (17, 33, 65))
    batches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((), ()), ((2,), ()), ((), (3,)), ((2, 3), (2, 3)), ((0,), (0,)), ((1, 2, 1, 2), ()),
    )  # fmt: skip
    for dtype in (*FLOATS, *INTEGERS):
        for m, n, k in sizes if dtype == "float32" else sizes[1:3]:
            for left, right in batches:
                ta, tb = bool(rng.integers(2)), bool(rng.integers(2))
                a = plain(rng, (*left, *((k, m) if ta else (m, k))), dtype)
                b = plain(rng, (*right, *((n, k) if tb else (k, n))), dtype)
                yield case(a, b, trans_a=ta, trans_b=tb)
        if dtype in INTEGERS:
            yield case(hostile(rng, (5, 9), dtype), hostile(rng, (9, 4), dtype))
    yield case(unusual(rng, (5, 9), "float32"), unusual(rng, (9, 4), "float32"))
    left = rng.integers(0, 256, (5, 300)).astype(np.uint8)
    right = rng.integers(-128, 128, (300, 6)).astype(np.int8)
    yield case(left, right, out=CUVIL_DTYPES["i32"])
    yield case(right.T, right, out=CUVIL_DTYPES["i32"])


def _attention(rng: Rng) -> Iterator[Case]:
    shapes = ((2, 4, 4, 5, 7, 8, 3), (1, 6, 2, 9, 9, 16, 16), (1, 1, 1, 1, 33, 4, 4),
              (2, 2, 2, 3, 0, 4, 2), (1, 2, 1, 0, 3, 4, 2))  # fmt: skip
    for dtype, (b, h, hk, s, t, d, dv) in product(FLOATS, shapes):
        q = plain(rng, (b, h, s, d), dtype, 1.0)
        k, v = plain(rng, (b, hk, t, d), dtype, 1.0), plain(rng, (b, hk, t, dv), dtype, 1.0)
        yield case(q, k, v, scale=d**-0.5, causal=False, has_mask=False)
        yield case(q, k, v, scale=0.3, causal=True, has_mask=False)
        offset = {"causal_offset": t - s}
        yield case(q, k, v, scale=0.3, causal=True, has_mask=False, **offset)
        for mask_shape in ((s, t), (b, 1, 1, t), (1, h, s, 1)):
            keep = np.asarray(rng.random(mask_shape) < 0.6)
            yield case(q, k, v, keep, scale=0.5, causal=False, has_mask=True)
            added = plain(rng, mask_shape, dtype)
            added = np.where(rng.random(mask_shape) < 0.2, -np.inf, added).astype(dtype)
            yield case(q, k, v, added, scale=0.5, causal=bool(rng.integers(2)), has_mask=True)
        if q.size and k.size:
            yield from _nan_rows(rng, q, k, v)


def _nan_rows(rng: Rng, *qkv: np.ndarray[Any, Any]) -> Iterator[Case]:
    """Rows that a mask hides whole, NaN and infinite scores; a value that is no number."""
    q, k, v = (x.copy() for x in qkv)
    added = np.zeros((q.shape[2], k.shape[2]), q.dtype)
    added[0] = -np.inf
    base = {"scale": 0.5, "causal": False, "has_mask": True, "nan_rows": True}
    yield case(q, k, v, added, **base)
    q[-1, -1, -1, 0] = np.nan
    added[q.shape[2] // 2, 0] = np.inf
    yield case(q, k, v, added, **base, zero_nan_rows=True)
    v[0, 0, -1, 0] = np.inf
    yield case(q, k, v, added, **base, zero_nan_rows=True)


def _matmul_blocks(rng: Rng) -> Iterator[Case]:
    """All widths, blocks that end past K, few rows and many, with and without zero points."""
    for dtype, bits in product(FLOATS, (2, 4, 8)):
        for lead, n, inner, size in (((3,), 5, 70, 32), ((2, 9), 40, 16, 16), ((1,), 33, 24, 16),
                                     ((2, 2), 7, 64, 64), ((0,), 3, 9, 16)):  # fmt: skip
            blocks = -(-inner // size)
            codes = rng.integers(0, 256, (n, blocks, size * bits // 8)).astype(np.uint8)
            scales, zeros = (plain(rng, (n, blocks), "float32") for _ in range(2))
            base = {"bits": bits, "size": size, "inner": inner}
            x = plain(rng, (*lead, inner), dtype, 1.0)
            yield case(x, codes, scales, zeros, **base)
            yield case(x, codes, scales, **base, zero=float(1 << (bits - 1)))
        x = unusual(rng, (3, inner), dtype)
        yield case(x, codes[:, :, :], scales, **base, zero=0.0)


def _cumsum(rng: Rng) -> Iterator[Case]:
    for dtype in (*FLOATS, *INTEGERS):
        for shape in SHAPES[1:]:
            exclusive, reverse = bool(rng.integers(2)), bool(rng.integers(2))
            axis = int(rng.integers(-1, len(shape)))
            x = plain(rng, shape, dtype)
            yield case(x, axis=axis, exclusive=exclusive, reverse=reverse)
        yield case(unusual(rng, (4, 9), dtype), axis=1)


def _scan(make: Maker, dtypes: tuple[str, ...], rng: Rng) -> Iterator[Case]:
    for dtype in dtypes:
        for shape in SHAPES[1:]:
            yield case(make(rng, shape, dtype), axis=int(rng.integers(-1, len(shape))))
        for shape in ((3, 70, 2), (4, 300), (1, 1, 9)):
            yield case(make(rng, shape, dtype), axis=1)
        yield case(unusual(rng, (4, 9), dtype), axis=1)


def _cumprod(rng: Rng) -> Iterator[Case]:
    for made in _cumsum(rng):
        x = made.arrays[0]
        yield case(x if x.dtype.kind != "f" else (x / 8 + 1).astype(x.dtype), **made.attrs)


def _topk(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for shape in SHAPES[1:]:
            axis = int(rng.integers(-1, len(shape)))
            for k in {0, shape[axis] // 2, shape[axis]}:
                largest, ordered = bool(rng.integers(2)), bool(rng.integers(2))
                yield case(tied(rng, shape, dtype), k=k, axis=axis, largest=largest, sorted=ordered)


def _reductions(dtype: str) -> tuple[str, ...]:
    return ("none", "max", "min") if dtype == "bool" else ("none", "add", "mul", "max", "min")


def _scatter_elements(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for reduction in _reductions(dtype):
            x = plain(rng, (4, 6, 7), dtype)
            for axis, shape in ((0, (9, 6, 7)), (1, (4, 3, 5)), (-1, (2, 6, 20)), (2, (0, 6, 2))):
                n = x.shape[axis]
                index = rng.integers(-n, n, shape)
                yield case(x, index, plain(rng, shape, dtype), axis=axis, reduction=reduction)
    yield case(np.zeros(3, np.float32), np.array([1, 1]), np.array([5, 6], np.float32), axis=0)


def _scatter_nd(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for reduction in _reductions(dtype):
            x = plain(rng, (3, 4, 5), dtype)
            for depth in (1, 2, 3):
                columns = [rng.integers(-x.shape[i], x.shape[i], (2, 6)) for i in range(depth)]
                updates = plain(rng, (2, 6, *x.shape[depth:]), dtype)
                yield case(x, np.stack(columns, axis=-1), updates, reduction=reduction)
    yield case(np.ones((3, 2), np.float32), np.zeros((0, 1), np.int64), np.ones((0, 2), np.float32))


_NUMBERS = (*FLOATS, *INTEGERS)

GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "reduce_sum": partial(_reduce, plain, _NUMBERS, True),
    "reduce_mean": partial(_reduce, plain, FLOATS, True),
    "reduce_prod": partial(_reduce, _near_one, _NUMBERS, True),
    "reduce_max": partial(_reduce, hostile, DTYPES, False),
    "reduce_min": partial(_reduce, hostile, DTYPES, False),
    "reduce_any": partial(_reduce, plain, ("bool",), True),
    "reduce_all": partial(_reduce, plain, ("bool",), True),
    "argmax": _arg,
    "argmin": _arg,
    "softmax": partial(_axis, {}),
    "log_softmax": partial(_axis, {}),
    "lp_norm": _lp,
    "layer_norm": partial(_tail, ("has_weight", "has_bias")),
    "rms_norm": partial(_tail, ("has_weight",)),
    "batch_norm": _batch_norm,
    "group_norm": partial(_channel_norm, ({"groups": 1}, {"groups": 3}, {"groups": 6})),
    "instance_norm": partial(_channel_norm, ({},)),
    "lrn": _lrn,
    "matmul": _matmul,
    "attention": _attention,
    "matmul_blocks": _matmul_blocks,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "cummax": partial(_scan, tied, DTYPES),
    "cummin": partial(_scan, tied, DTYPES),
    "logcumsumexp": partial(_scan, hostile, FLOATS),
    "topk": _topk,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
}
