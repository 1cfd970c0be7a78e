"""Interpolation to other sizes."""

from __future__ import annotations

import functools
import math

from cuvil.frontends.torch_export.byte_resize import plain_weights, resized_bytes
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.resize_tables import plain
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64, U8
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, mul


def _nearest(exact: bool) -> Rule:
    """upsample_nearest: source index floor(i * in / out), or with half-pixel centres."""

    def rule(c: Call) -> Value:
        scales = _scales(c)
        if scales and not all(s.is_integer() for s in scales):
            return _picked(c, scales, exact)
        mode = "half_pixel" if exact else "asymmetric"
        rounding = "round_prefer_ceil" if exact else "floor"
        return _resize(c, "nearest", mode, rounding, scales)

    return rule


def _picked(c: Call, scales: tuple[float, ...], exact: bool) -> Value:
    """Gathers with indices in f32, which decides where a coordinate is close to a whole number.

    As nearest_idx in torch's ATen/native/UpSample.h; without half-pixel centres it takes outputs
    of the input's size, and of twice that, apart.
    """
    x, shape = c.first, c.shape
    for axis in range(2, x.type.rank):
        size, out = x.type.shape[axis], shape[axis]
        if exact or size != out:
            x = c.e.op("gather", x, _indices(c, size, out, scales[axis], exact), axis=axis)
    return x


def _indices(c: Call, size: Dim, out: Dim, scale: float, exact: bool) -> Value:
    line = c.e.op("iota", shape=(out,), axis=0, dtype=I64)
    place = c.e.cast(line, F32)
    if exact:
        place = c.e.with_scalar("add", place, 0.5)
    place = c.e.op("floor", c.e.with_scalar("mul", place, 1 / scale))
    have = c.as_value(size, I64)
    index = c.e.map("min", c.e.cast(place, I64), c.e.with_scalar("sub", have, 1))
    if exact:
        return index
    for times in (2, 1):
        same = c.e.map("eq", c.as_value(out, I64), c.as_value(mul(size, times), I64))
        whole = c.e.with_scalar("floordiv", line, times) if times > 1 else line
        index = choose(c, c.e.broadcast(same, (out,)), whole, index)
    return index


def _interpolated(mode: str) -> Rule:
    def rule(c: Call) -> Value:
        corners = bool(c.get("align_corners", False))
        if c.first.type.dtype == U8:
            cubic = mode == "cubic"
            late = functools.partial(plain, cubic=cubic)
            return resized_bytes(c, corners, plain_weights(cubic, corners), late)
        scales = _scales(c)
        if scales and mode == "linear" and not corners:
            scales = _without_copies(c, scales)
        return _resize(c, mode, "align_corners" if corners else "half_pixel", "floor", scales)

    return rule


def _without_copies(c: Call, scales: tuple[float, ...]) -> tuple[float, ...]:
    """Torch copies along an axis whose size stays the same, whatever the scale: known sizes get
    the scale 1, others must be so large that the size grows (a size of 1 is right either way)."""
    kept = list(scales)
    for axis, (size, out) in enumerate(zip(c.first.type.shape, c.shape, strict=True)):
        if size == out:
            kept[axis] = 1.0
        elif 1 < scales[axis] <= 1.5 and not isinstance(size, int):
            low = math.ceil(1 / (scales[axis] - 1)) + 1
            origin = f"torch's copying of sizes that a factor of {scales[axis]} leaves as they are"
            c.symbols.assumed.append(Constraint(size, ">=", low, origin))
    return tuple(kept)


def _resize(
    c: Call, mode: str, coordinate: str, rounding: str, scales: tuple[float, ...] | None
) -> Value:
    extra = {"cubic_coeff": -0.75} if mode == "cubic" else {}
    return c.e.op(
        "resize", c.first, sizes=c.shape, mode=mode, coordinate=coordinate, nearest=rounding,
        scales=scales, **extra,
    )  # fmt: skip


def _scales(c: Call) -> tuple[float, ...] | None:
    """Scale factors given by the user, which torch uses instead of the ratio of the sizes."""
    given = c.args.get("scale_factors")
    if given is None:
        names = [n for n in ("scales_d", "scales_h", "scales_w", "scales") if n in c.args]
        given = [c.args[n] for n in names]
    if not given or any(s is None for s in given):
        return None
    if not all(isinstance(s, (int, float)) for s in given):
        raise Refused("scale factors that depend on the sizes")
    return (1.0, 1.0, *(float(s) for s in given))


RULES: dict[str, Rule] = {
    **{f"upsample_nearest{n}d": _nearest(exact=False) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _nearest(exact=True) for n in (1, 2, 3)},
    "upsample_linear1d": _interpolated("linear"),
    "upsample_bilinear2d": _interpolated("linear"),
    "upsample_trilinear3d": _interpolated("linear"),
    "upsample_bicubic2d": _interpolated("cubic"),
}
