"""Calls of cast and bitcast: every element type to every other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cuvil.ir.types import DTYPES, F8E8M0, F32, NARROW_FLOATS, DType
from cuvil.ops.cast import ROUND_MODES
from tests.ops.values import SHAPES, Array, Case, Rng, case, hostile, specials

_WIDE = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
_WIDE += ("int8", "int16", "uint16", "uint32", "uint64")


def codes(dtype: DType) -> Array:
    """Every byte as an element of a narrow type."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def _integer_edges(dtype: str) -> Array:
    """Floats at and around the ends of the integer dtypes."""
    ends = [s * 2.0**b + d for b in (7, 8, 31, 32, 63, 64) for s in (-1, 1) for d in (-1, 0, 1)]
    with np.errstate(over="ignore"):
        return np.array([*ends, -0.9, 0.9, 7.5, -8.5, 15.9], np.float64).astype(dtype)


def rounding_edges(dtype: DType, source: str = "float32") -> Array:
    """Every value of a narrow float, every middle between two, and the neighbours of these; and
    what lies beyond the ends."""
    values = np.unique(codes(dtype).astype(np.float64))
    values = values[np.isfinite(values)]
    top = values[-1]
    near = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    far = [top * 17 / 16, top * 1.07, top * 1.25, top * 1.5, top * 2, top * 1e6, values[-1] / 1e30]
    with np.errstate(all="ignore"):
        plain = np.concatenate([near, far, np.negative(far)]).astype(source)
        around = [np.nextafter(plain, plain.dtype.type(end)) for end in (-np.inf, np.inf)]
    wild = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], source)
    return np.concatenate([plain, *around, wild])


def _values(rng: Rng, source: str) -> Array:
    found = [hostile(rng, (33,), source), specials(source)]
    return np.concatenate([*found, _integer_edges(source)] if source[0] == "f" else found)


def _cast(rng: Rng) -> Iterator[Case]:
    for target in DTYPES.values():
        for source in _WIDE:
            yield case(_values(rng, source), dtype=target)
        yield case(_values(rng, "float32").astype(DTYPES["bf16"].numpy), dtype=target)
    for shape in SHAPES:
        yield case(hostile(rng, shape, "float32"), dtype=DTYPES["i32"])
    yield from _narrow(rng)


def _narrow(rng: Rng) -> Iterator[Case]:
    narrow = [d for d in DTYPES.values() if d.is_narrow]
    for source in narrow:
        for target in (DTYPES[n] for n in ("f64", "f32", "f16", "bf16", "i64", "u8", "bool")):
            yield case(codes(source), dtype=target)
        for target in narrow:
            yield case(codes(source), dtype=target)
    for target in sorted(NARROW_FLOATS, key=str):
        modes = ROUND_MODES if target == F8E8M0 else ROUND_MODES[:1]
        for saturate in (True, False):
            for mode in modes:
                edges = rounding_edges(target)
                yield case(edges, dtype=target, saturate=saturate, round_mode=mode)
        yield case(rounding_edges(target, "float64"), dtype=target)
        with np.errstate(all="ignore"):
            yield case(rounding_edges(target, "float16"), dtype=target, saturate=False)
    yield case(codes(F8E8M0).reshape(16, 1, 16), dtype=F32)


def _bitcast(rng: Rng) -> Iterator[Case]:
    for source in DTYPES.values():
        raw = rng.integers(0, 256, 24 * source.size).astype(np.uint8)
        array = (raw & 1).view(bool) if source.kind == "b" else raw.view(source.numpy)
        for target in DTYPES.values():
            if target.bits == source.bits:
                yield case(array.reshape(2, 3, 4), dtype=target)
    yield case(np.float32(1.5), dtype=DTYPES["u32"])
    yield case(np.zeros((0, 2), np.int16), dtype=DTYPES["bf16"])


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {"cast": _cast, "bitcast": _bitcast}
