"""Reshapes, permutations, broadcasts, concatenation and padding."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_select import repeated_places
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, add, floordiv, mul, product


def _reshape(c: Call) -> Value:
    return c.e.reshape(c.first, c.shape)


def _keeps_ones(c: Call) -> None:
    """Torch traces a squeeze of a dynamic size as if that were not 1; it is required to be so."""
    x = c.first
    if c.metas[0].dim() != x.type.rank - sum(x.type.shape[a] == 1 for a in _squeezed(c)):
        return  # torch knows the size to be 1
    for axis in _squeezed(c):
        if not isinstance(x.type.shape[axis], int):
            why = f"{c.name}: dimension {axis} stays where its size is not 1, as in the trace"
            c.e.context.require(x.type.shape[axis], "!=", 1, why)


def _squeezed(c: Call) -> list[int]:
    """The dimensions that a squeeze drops where they are 1."""
    rank = c.first.type.rank
    axes = c.ints("dim") if "dim" in c.args else range(rank)
    return sorted({a % rank for a in axes}) if rank else []


def _squeeze(c: Call) -> Value:
    _keeps_ones(c)
    return c.e.reshape(c.first, c.shape)


def _reshaped(c: Call) -> Value | list[Value]:
    """atleast_1d and the like, of one tensor or of each of a list."""
    if "tensors" not in c.args:
        return _reshape(c)
    return [c.e.reshape(t, c.shape_of(i)) for i, t in enumerate(c["tensors"])]


def _expand(c: Call) -> Value:
    return c.e.broadcast(c.first, c.shape)


def _broadcast_tensors(c: Call) -> list[Value]:
    return [c.e.broadcast(t, c.shape_of(i)) for i, t in enumerate(c["tensors"])]


def _permute(c: Call) -> Value:
    rank = c.first.type.rank
    return c.e.transpose(c.first, [d % rank for d in c.ints("dims")]) if rank else c.first


def swap(c: Call, x: Value, a: int, b: int) -> Value:
    """Two dimensions exchanged."""
    rank = x.type.rank
    if rank == 0:
        return x
    perm = list(range(rank))
    perm[a % rank], perm[b % rank] = perm[b % rank], perm[a % rank]
    return c.e.transpose(x, perm)


def _transpose(c: Call) -> Value:
    first, second = list(c.args.values())[1:3]
    return swap(c, c.first, first, second)


def _t(c: Call) -> Value:
    return swap(c, c.first, 0, 1) if c.first.type.rank == 2 else c.first


def _reversed(c: Call) -> Value:
    return c.e.transpose(c.first, list(range(c.first.type.rank))[::-1])


def _movedim(c: Call) -> Value:
    rank = c.first.type.rank
    source = [d % rank for d in c.ints("source")]
    target = [d % rank for d in c.ints("destination")]
    perm = [-1] * rank
    for s, t in zip(source, target, strict=True):
        perm[t] = s
    rest = iter(i for i in range(rank) if i not in source)
    return c.e.transpose(c.first, [p if p >= 0 else next(rest) for p in perm])


def _concat(c: Call) -> Value:
    parts = [c.e.cast(t, c.dtype) for t in c["tensors"]]
    # torch lets empty vectors take part in a concatenation of any rank
    parts = [t for t in parts if t.type.rank == c.metas[0].dim()]
    axis = c.get("dim", 0) % max(parts[0].type.rank, 1)
    return parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=axis)


def _stack(c: Call) -> Value:
    parts = [c.e.cast(t, c.dtype) for t in c["tensors"]]
    axis = c.get("dim", 0) % (parts[0].type.rank + 1)
    parts = [c.e.unsqueeze(t, axis) for t in parts]
    return parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=axis)


def tile(c: Call, x: Value, repeats: Sequence[Dim]) -> Value:
    """The tensor repeated along each dimension (leading ones are added)."""
    shape = (1,) * (len(repeats) - x.type.rank) + x.type.shape
    if all(r == 1 for r in repeats):
        return c.e.reshape(x, shape)
    spread: list[Dim] = []
    full: list[Dim] = []
    for d, r in zip(shape, repeats, strict=True):
        spread += [1, d]
        full += [r, d]
    wide = c.e.broadcast(c.e.reshape(x, spread), tuple(full))
    return c.e.reshape(wide, [mul(d, r) for d, r in zip(shape, repeats, strict=True)])


def _repeat(c: Call) -> Value:
    name = "repeats" if "repeats" in c.args else "dims"
    repeats = c.dims(name)
    missing = c.first.type.rank - len(repeats)
    return tile(c, c.first, [1] * max(missing, 0) + repeats)


def _repeat_interleave(c: Call) -> Value:
    """Each element repeated in place, as often as a number or a tensor of counts says."""
    repeats, x = c["repeats"], c.first
    if "self" not in c.args:
        return repeated_places(c, x, c.args.get("output_size"))
    if c.args.get("dim") is None:
        x, axis = c.e.reshape(x, [x.type.elements]), 0
    else:
        axis = c.axis("dim")
    shape = x.type.shape
    if isinstance(repeats, Value):
        line = c.e.broadcast(repeats, (shape[axis],))
        at = repeated_places(c, line, c.args.get("output_size"))
        return c.e.op("gather", x, at, axis=axis, from_end=False)
    wide = c.e.broadcast(
        c.e.unsqueeze(x, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    )
    return c.e.reshape(wide, [*shape[:axis], mul(shape[axis], repeats), *shape[axis + 1 :]])


def _pad_sizes(c: Call, name: str = "pad") -> tuple[list[Dim], list[Dim]]:
    """torch lists pads from the last dimension backwards, low then high."""
    rank = c.first.type.rank
    pads = c.dims(name)
    lo: list[Dim] = [0] * rank
    hi: list[Dim] = [0] * rank
    for i in range(len(pads) // 2):
        lo[rank - 1 - i], hi[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return lo, hi


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padding(c: Call, mode: str, value: float, name: str = "pad") -> Value:
    """Pad (or crop, where negative) by torch's list of pads."""
    lo, hi = _pad_sizes(c, name)
    if all(p == 0 for p in (*lo, *hi)):
        return c.first
    kind = _PAD_MODES[mode]
    if kind == "wrap" and any(isinstance(p, int) and p < 0 for p in (*lo, *hi)):
        return _cropped_first(c, lo, hi)
    fill = float(value) if kind == "constant" else None
    return c.e.op("pad", c.first, lo=tuple(lo), hi=tuple(hi), mode=kind, value=fill)


def _cropped_first(c: Call, lo: list[Dim], hi: list[Dim]) -> Value:
    """Circular padding repeats what negative pads have left of the tensor."""
    if not all(isinstance(p, int) for p in (*lo, *hi)):
        raise Refused("circular padding with negative and symbolic pads")
    low, high = ([int(p) for p in side] for side in (lo, hi))  # type: ignore[call-overload]
    cut = {"lo": tuple(min(p, 0) for p in low), "hi": tuple(min(p, 0) for p in high)}
    x = c.e.op("pad", c.first, **cut, mode="constant", value=0.0)
    grown = {"lo": tuple(max(p, 0) for p in low), "hi": tuple(max(p, 0) for p in high)}
    sizes = zip(x.type.shape, grown["lo"], grown["hi"], strict=True)
    if any(isinstance(d, int) and max(a, b) > d for d, a, b in sizes):
        raise Refused("circular padding wider than what negative pads leave")
    return c.e.op("pad", x, **grown, mode="wrap")


def _pad(c: Call) -> Value:
    return padding(c, c.get("mode", "constant"), c.get("value", 0.0))


def _mode_pad(mode: str) -> Rule:
    return lambda c: padding(c, mode, 0.0, "padding" if "padding" in c.args else "pad")


def _constant_pad(c: Call) -> Value:
    return padding(c, "constant", c.get("value", 0))


def _pixel_shuffle(c: Call) -> Value:
    """[..., C r r, H, W] -> [..., C, H r, W r]"""
    r = c["upscale_factor"]
    *lead, channels, h, w = c.first.type.shape
    k = len(lead)
    x = c.e.reshape(c.first, [*lead, floordiv(channels, r * r), r, r, h, w])
    x = c.e.transpose(x, [*range(k), k, k + 3, k + 1, k + 4, k + 2])
    return c.e.reshape(x, c.shape)


def _pixel_unshuffle(c: Call) -> Value:
    r = c["downscale_factor"]
    for size in c.first.type.shape:
        if not isinstance(size, int):
            why = f"{c.name}: torch leaves a tensor without elements in its own shape"
            c.e.context.require(size, ">=", 1, why)
    *lead, channels, h, w = c.first.type.shape
    k = len(lead)
    x = c.e.reshape(c.first, [*lead, channels, floordiv(h, r), r, floordiv(w, r), r])
    x = c.e.transpose(x, [*range(k), k, k + 2, k + 4, k + 1, k + 3])
    return c.e.reshape(x, c.shape)


def _channel_shuffle(c: Call) -> Value:
    groups = c["groups"]
    n, channels, *rest = c.first.type.shape
    x = c.e.reshape(c.first, [n, groups, floordiv(channels, groups), *rest])
    return c.e.reshape(swap(c, x, 1, 2), c.shape)


def _flip(c: Call) -> Value:
    x = c.first
    for axis in c.axes("dims") if c["dims"] else []:
        x = reverse(c, x, axis)
    return x


def reverse(c: Call, x: Value, axis: int) -> Value:
    """One axis backwards."""
    shape = x.type.shape
    starts = [add(d, -1) if i == axis else 0 for i, d in enumerate(shape)]
    steps = [-1 if i == axis else 1 for i in range(len(shape))]
    return c.e.op("slice", x, start=tuple(starts), size=shape, step=tuple(steps))


def _roll(c: Call) -> Value:
    x, shifts, axes = c.first, c.dims("shifts"), c.ints("dims")
    if not axes:
        flat = c.e.reshape(x, [x.type.elements])
        return c.e.reshape(_rolled(c, flat, 0, shifts[0]), x.type.shape)
    for axis, shift in zip(axes, shifts, strict=True):
        x = _rolled(c, x, axis % x.type.rank, shift)
    return x


def _rolled(c: Call, x: Value, axis: int, shift: Dim) -> Value:
    """The end of the axis comes first: a gather, because the place of the cut is (i - shift) mod n,
    which a slice can't say where n may be smaller than the shift."""
    size = x.type.shape[axis]
    if isinstance(size, int) and isinstance(shift, int):
        cut = -shift % size if size else 0
        if cut == 0:
            return x
        tail, head = c.e.slice(x, axis, cut, size), c.e.slice(x, axis, 0, cut)
        return c.e.op("concat", tail, head, axis=axis)
    line = c.e.op("iota", shape=(size,), axis=0, dtype=I64)
    moved = c.e.map("sub", line, c.as_value(shift, I64))
    return c.e.op("gather", x, c.e.map("mod", moved, c.as_value(size, I64)), axis=axis)


def _rot90(c: Call) -> Value:
    x, (a, b) = c.first, [d % c.first.type.rank for d in c.ints("dims")]
    k = c.get("k", 1) % 4
    if k == 1:
        return swap(c, reverse(c, x, b), a, b)
    if k == 2:
        return reverse(c, reverse(c, x, a), b)
    return reverse(c, swap(c, x, a, b), b) if k == 3 else x


def _resized(c: Call) -> Value:
    """resize_: the elements from the start of memory; those that are new are 0."""
    x, e, shape = c.first, c.e, c.shape
    flat, count, want = e.reshape(x, [x.type.elements]), x.type.elements, product(shape)
    if not isinstance(count, int) or not isinstance(want, int):
        raise Refused("resizing to or from a symbolic size")
    if want > count:
        flat = e.op("pad", flat, lo=(0,), hi=(want - count,), mode="constant", value=0.0)
    return e.reshape(e.slice(flat, 0, 0, want), shape)


def _hstack(c: Call) -> Value:
    parts = [c.e.cast(t, c.dtype) for t in c["tensors"]]
    parts = [c.e.reshape(t, (1,)) if t.type.rank == 0 else t for t in parts]
    axis = 0 if parts[0].type.rank == 1 else 1
    return c.e.op("concat", *parts, axis=axis)


_RESHAPES = ("reshape", "_unsafe_view", "view_as", "reshape_as", "unsqueeze", "flatten",
             "ravel", "view_copy", "unsqueeze_copy", "_reshape_alias",
             "unflatten")  # fmt: skip
RULES: dict[str, Rule] = {
    **dict.fromkeys(_RESHAPES, _reshape),
    "squeeze": _squeeze, "squeeze_copy": _squeeze,
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), _reshaped),
    "resize": _resized, "resize_as": _resized,
    "expand": _expand, "expand_as": _expand, "broadcast_to": _expand, "expand_copy": _expand,
    "broadcast_tensors": _broadcast_tensors,
    "permute": _permute, "permute_copy": _permute,
    "transpose": _transpose, "swapaxes": _transpose, "swapdims": _transpose,
    "transpose_copy": _transpose,
    "t": _t, "t_copy": _t, "numpy_T": _reversed,
    "mT": lambda c: swap(c, c.first, -1, -2), "adjoint": lambda c: swap(c, c.first, -1, -2),
    "matrix_H": lambda c: swap(c, c.first, -1, -2), "mH": lambda c: swap(c, c.first, -1, -2),
    "movedim": _movedim, "moveaxis": _movedim,
    "cat": _concat, "concat": _concat, "concatenate": _concat,
    "stack": _stack, "hstack": _hstack,
    "repeat": _repeat, "tile": _repeat, "repeat_interleave": _repeat_interleave,
    "pad": _pad, "constant_pad_nd": _constant_pad,
    **{f"reflection_pad{n}d": _mode_pad("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _mode_pad("replicate") for n in (1, 2, 3)},
    "_pad_circular": _mode_pad("circular"),
    "pixel_shuffle": _pixel_shuffle, "pixel_unshuffle": _pixel_unshuffle,
    "channel_shuffle": _channel_shuffle, "native_channel_shuffle": _channel_shuffle,
    "flip": _flip, "roll": _roll, "rot90": _rot90,
}  # fmt: skip
