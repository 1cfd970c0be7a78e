"""Calls of convolutions, pooling, resize and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from cuvil.ir.types import DTYPES as CUVIL_DTYPES
from tests.ops.values import FLOATS, Case, Rng, case, hostile, plain, tied

# spatial size, kernel, strides, pads_lo, pads_hi, dilations
_WINDOWS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((9,), (3,), (1,), (1,), (1,), (1,)),
    ((20,), (5,), (3,), (0,), (2,), (2,)),
    ((7, 8), (3, 2), (1, 1), (0, 0), (0, 0), (1, 1)),
    ((9, 8), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((5, 11), (1, 4), (2, 1), (0, 2), (0, 1), (1, 2)),
    ((4, 4), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    ((3, 4, 5), (2, 3, 2), (1, 2, 1), (1, 1, 0), (0, 1, 1), (1, 1, 2)),
)
_KEYS = ("strides", "pads_lo", "pads_hi", "dilations")
_GROUPS = ((1, 3, 4), (2, 4, 6), (4, 4, 4), (3, 3, 6))  # groups, C, O


def _image(rng: Rng, n: int, c: int, size: tuple[int, ...], dtype: str, last: bool) -> Any:
    shape = (n, *size, c) if last else (n, c, *size)
    return plain(rng, shape, dtype, 1.0)


def _conv(rng: Rng) -> Iterator[Case]:
    for dtype in (*FLOATS, "int32"):
        for (size, kernel, *rest), (groups, c, o) in product(_WINDOWS, _GROUPS):
            last, bias = bool(rng.integers(2)), bool(rng.integers(2))
            w = plain(rng, (o, c // groups, *kernel), dtype, 0.5)
            extra = [plain(rng, (o,), dtype)] if bias else []
            n = int(rng.choice([1, 2, 2, 0])) if dtype == "float32" else 1
            yield case(
                _image(rng, n, c, size, dtype, last), w, *extra, groups=groups, has_bias=bias,
                channels_last=last, **dict(zip(_KEYS, rest, strict=True)),
            )  # fmt: skip
    x, w = _image(rng, 1, 2, (9, 9), "float32", False), plain(rng, (3, 2, 3, 3), "float32")
    yield case(
        x, w, strides=(1, 1), pads_lo=(-1, 2), pads_hi=(-2, -3), dilations=(1, 1), groups=1,
        has_bias=False,
    )  # fmt: skip
    pixels = rng.integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)
    yield case(
        pixels, rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8), strides=(1, 1),
        pads_lo=(1, 1), pads_hi=(1, 1), dilations=(1, 1), groups=1, has_bias=False,
        out=CUVIL_DTYPES["i32"],
    )  # fmt: skip


def _conv_transpose(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for (size, kernel, *rest), (groups, c, o) in product(_WINDOWS, _GROUPS):
            last, bias = bool(rng.integers(2)), bool(rng.integers(2))
            w = plain(rng, (c, o // groups, *kernel), dtype, 0.5)
            extra = [plain(rng, (o,), dtype)] if bias else []
            room = [max(s, d) for s, d in zip(rest[0], rest[3], strict=True)]
            yield case(
                _image(rng, 2, c, size, dtype, last), w, *extra, groups=groups, has_bias=bias,
                channels_last=last, output_padding=tuple(int(rng.integers(r)) for r in room),
                **dict(zip(_KEYS, rest, strict=True)),
            )  # fmt: skip


def _pool(extra: tuple[dict[str, Any], ...], dtypes: tuple[str, ...], rng: Rng) -> Iterator[Case]:
    # Pads of at most half the kernel, as torch allows them.
    windows = (*_WINDOWS[:4], ((5, 11), (2, 4), (2, 3), (1, 2), (1, 1), (1, 2)), _WINDOWS[5],
               ((4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 1, 0), (0, 1, 1), (1, 1, 1)),
               ((6, 6), (3, 3), (2, 2), (0, 0), (0, 0), (1, 1)),
               ((2, 9), (2, 2), (2, 3), (1, 0), (1, 1), (1, 1)))  # fmt: skip
    for dtype in dtypes:
        for (size, kernel, *rest), more in product(windows, extra):
            last, ceil = bool(rng.integers(2)), bool(rng.integers(2))
            shape = (2, *size, 3) if last else (2, 3, *size)
            for make in (plain, hostile, tied):
                if make is not plain and extra[0]:
                    continue
                yield case(
                    make(rng, shape, dtype), kernel=kernel, ceil_mode=ceil, channels_last=last,
                    **dict(zip(_KEYS, rest, strict=True)), **more,
                )  # fmt: skip


def _resize_sizes() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    yield (1, 2, 4, 6), (1, 2, 8, 12)
    yield (1, 2, 4, 6), (1, 2, 7, 3)
    yield (1, 1, 5, 5), (1, 1, 1, 11)
    yield (2, 3, 1), (2, 3, 4)
    yield (2, 7), (3, 7)


def _resize(rng: Rng) -> Iterator[Case]:
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
             "half_pixel_symmetric")  # fmt: skip
    for (shape, sizes), coordinate in product(_resize_sizes(), modes):
        for dtype in ("float32", "float16", "uint8"):
            for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                yield case(
                    plain(rng, shape, dtype), sizes=sizes, mode="nearest", coordinate=coordinate,
                    nearest=nearest,
                )  # fmt: skip
        for mode, outside, antialias in product(("linear", "cubic"), (False, True), (False, True)):
            yield case(
                plain(rng, shape, "float32"), sizes=sizes, mode=mode, coordinate=coordinate,
                cubic_coeff=-0.5, exclude_outside=outside, antialias=antialias,
            )  # fmt: skip
    for mode in ("nearest", "linear", "cubic"):
        for coordinate in modes:
            yield case(
                plain(rng, (1, 1, 5, 6), "float32"), sizes=(1, 1, 8, 4), mode=mode,
                coordinate=coordinate, nearest="floor", scales=(1.0, 1.0, 1.7, 0.8),
            )  # fmt: skip
            yield case(
                plain(rng, (2, 1, 5, 6), "float32"), np.array((1.0, 1.0, 1.7, 0.8)),
                sizes=(2, 1, 8, 4), mode=mode, coordinate=coordinate, nearest="floor",
            )  # fmt: skip
    yield case(
        plain(rng, (1, 1, 5, 6), "float32"), sizes=(1, 1, 4, 7), mode="linear",
        coordinate="tf_crop_and_resize", extrapolation=9.0,
        roi=(0.0, 0.0, 0.2, -0.3, 1.0, 1.0, 0.7, 1.2),
    )  # fmt: skip
    yield case(
        plain(rng, (0, 2, 3), "float32"), sizes=(0, 2, 5), mode="linear", coordinate="half_pixel"
    )


_STATES = {"lstm": ("has_h0", "has_c0"), "gru": ("has_h0",), "rnn": ("has_h0",)}
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _recurrent(name: str, rng: Rng) -> Iterator[Case]:
    choices: tuple[dict[str, Any], ...] = (
        {"linear_before_reset": False}, {"linear_before_reset": True},
    ) if name == "gru" else ({},)  # fmt: skip
    if name == "lstm":
        choices = ({}, {"input_forget": True}, {"has_peephole": True}, {"clip": 0.4})
    for extra, direction in product(choices, ("forward", "reverse", "bidirectional")):
        for dtype, (t, b, i, h) in (
            ("float32", (5, 3, 4, 6)), ("float64", (1, 1, 1, 1)), ("float16", (3, 2, 5, 17)),
            ("float32", (2, 0, 3, 2)),
        ):  # fmt: skip
            for full in (False, True):
                yield _layer(rng, name, dtype, (t, b, i, h), full, direction, dict(extra))
    functions = {"lstm": ["hard_sigmoid", "relu", "softsign"], "gru": ["sigmoid", "relu"],
                 "rnn": ["relu"]}[name]  # fmt: skip
    more = {"activations": functions, **choices[-1]}
    yield _layer(rng, name, "float32", (4, 2, 3, 5), True, "forward", more)
    each = len(functions)
    turns = ("leaky_relu", "thresholded_relu", "scaled_tanh", "elu", "affine", "hard_sigmoid",
             "softsign", "softplus", "sigmoid", "tanh")  # fmt: skip
    for at, dtype in product(range(len(turns)), ("float32", "float64")):
        named = [turns[(at + k) % len(turns)] for k in range(2 * each)]
        numbers = {"alphas": [0.3 + 0.1 * k for k in range(2 * each)],
                   "betas": [0.5 - 0.1 * k for k in range(2 * each)]}  # fmt: skip
        more = {**choices[-1], "activations": named, **numbers}
        yield _layer(rng, name, dtype, (3, 2, 2, 5), False, "bidirectional", more)


def _layer(
    rng: Rng, name: str, dtype: str, sizes: tuple[int, ...], full: bool, direction: str,
    extra: dict[str, Any],
) -> Case:  # fmt: skip
    """One layer, with all optional operands or none."""
    t, b, i, h = sizes
    d = 2 if direction == "bidirectional" else 1
    rows = _GATES[name] * h
    arrays = [plain(rng, (t, b, i), dtype, 1.0), plain(rng, (d, rows, i), dtype, 0.6),
              plain(rng, (d, rows, h), dtype, 0.6)]  # fmt: skip
    attrs: dict[str, Any] = {"hidden": h, "direction": direction, **extra}
    if full:
        arrays.append(plain(rng, (d, 2 * rows), dtype, 0.5))
        arrays += [plain(rng, (d, b, h), dtype, 1.0) for _ in _STATES[name]]
        arrays.append(rng.integers(1, t + 1, b).astype(np.int32))
        attrs.update(dict.fromkeys(("has_bias", *_STATES[name], "has_seq_lens"), True))
    if extra.get("has_peephole"):
        arrays.append(plain(rng, (d, 3 * h), dtype, 0.5))
    return case(*arrays, **attrs)


_COUNTS = ({"count_include_pad": True}, {"count_include_pad": False})

GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": partial(_pool, ({},), (*FLOATS, "int32", "uint8")),
    "max_pool_indices": partial(_pool, ({},), (*FLOATS, "int32", "uint8")),
    "avg_pool": partial(_pool, _COUNTS, FLOATS),
    "resize": _resize,
    "lstm": partial(_recurrent, "lstm"),
    "gru": partial(_recurrent, "gru"),
    "rnn": partial(_recurrent, "rnn"),
}
