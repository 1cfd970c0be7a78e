"""Rearranging: transpose, slice, split, join, pad, gather and blocks to depth."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.run_time import Cut, cut_everywhere, halves, pads_of_axes
from cuvil.frontends.onnx.run_time import pads as run_time_pads
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, Expr, add, floordiv, mul

_FAR = 10**9


def _transpose(n: Node) -> Value:
    rank = n[0].type.rank
    return n.e.transpose(n[0], n.integers("perm", list(range(rank))[::-1]))


def _concat(n: Node) -> Value:
    values = n.values()
    rank = values[0].type.rank
    axis = n.axis("axis", 1 if n.version < 4 else None, rank)
    return values[0] if len(values) == 1 else n.e.op("concat", *values, axis=axis)


def _slice(n: Node) -> Value:
    x = n[0]
    starts: list[Dim | None]
    ends: list[Dim | None]
    steps: list[Dim | None]
    if n.version < 10:
        starts, ends = list(n.integers("starts")), list(n.integers("ends"))
        axes = n.integers("axes", list(range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts, ends = n.some(1, "the start"), n.some(2, "the end")
        if n.has(3) and None in n.some(3, "the axes"):
            return cut_everywhere(n)
        axes = n.static(3, "the axes") if n.has(3) else list(range(len(starts)))
        steps = n.some(4, "the steps") if n.has(4) else [1] * len(starts)
    for i, (axis, start, end, step) in enumerate(zip(axes, starts, ends, steps, strict=True)):
        if step == 0:
            raise InvalidModelError("Slice: a step of 0")
        axis = n.count(axis, x.type.rank)
        size = x.type.shape[axis]
        if start is not None and end is not None and isinstance(step, int):
            x = n.e.slice(x, axis, _end(n, start, size), _end(n, end, size), step)
        else:
            x = _cut(n, x, axis, i, start, step)
    return x


def _cut(n: Node, x: Value, axis: int, i: int, start: Dim | None, step: Dim | None) -> Value:
    """One axis of a slice (number ``i`` of those asked for) that depends on data."""
    cut = Cut(n, x, axis)
    first, last = (n.e.slice(n.vector(k), 0, i, i + 1) for k in (1, 2))
    if isinstance(step, int) and step > 0:
        return cut.forward(first, last, step, 0 if start == 0 else None)
    by = n.e.slice(n.vector(4), 0, i, i + 1)
    return cut.any_way(first, last, by)


def _end(n: Node, end: Dim, size: Dim) -> Dim:
    """An end of a slice as Emitter.slice takes it: a symbolic one must have a known sign."""
    if isinstance(end, int):
        if end >= _FAR and isinstance(size, Expr):
            n.e.context.require(size, "<=", end, "Slice: its end stands for the end of the tensor")
            return size
        return end
    facts = n.e.context.facts
    if facts.less(end, 0):
        return n.e.simplify(add(size, end))
    if not facts.nonnegative(end):
        n.e.context.require(end, ">=", 0, "Slice: an end that counts from the front")
    return end


def _split(n: Node) -> list[Value]:
    x = n[0]
    axis = n.axis("axis", 0, x.type.rank)
    sizes = split_sizes(n, x.type.shape[axis])
    out: list[Value] = []
    at: Dim = 0
    for size in sizes:
        end = n.e.simplify(add(at, size))
        out.append(part(n, x, axis, at, size))
        at = end
    return out


def part(n: Node, x: Value, axis: int, at: Dim, size: Dim) -> Value:
    """``size`` elements along an axis from ``at``, both within range."""
    if at == 0 and size == x.type.shape[axis]:
        return x
    start: list[Dim] = [0] * x.type.rank
    start[axis] = at
    shape = list(x.type.shape)
    shape[axis] = size
    return n.e.op("slice", x, start=tuple(start), size=tuple(shape), step=(1,) * x.type.rank)


def split_sizes(n: Node, size: Dim) -> list[Dim]:
    """Sizes asked for, or equal ones (the last may be smaller since Split-18)."""
    asked: list[Dim] | None = None
    if n.version < 13 and "split" in n.attrs:
        asked = list(n.integers("split"))
    elif n.has(1):
        asked = n.sizes(1, "the sizes of the parts")
    if asked is not None:
        total: Dim = 0
        for part_size in asked:
            total = add(total, part_size)
        n.e.context.require(total, "==", size, "Split: the sizes of the parts make up the whole")
        return asked
    count = n.integer("num_outputs", len(n.outputs))
    if isinstance(size, int):
        chunk = -(-size // count)
        if size % count and n.version < 18:
            raise InvalidModelError(f"Split: {size} elements in {count} equal parts")
        return [max(min(chunk, size - i * chunk), 0) for i in range(count)]
    equal = n.e.simplify(floordiv(size, count))
    n.e.context.require(mul(equal, count), "==", size, f"Split: {count} equal parts")
    return [equal] * count


def _pad(n: Node) -> Value:
    x = n[0]
    rank = x.type.rank
    value: float = 0.0
    fill: Value | None = None
    axes = list(range(rank))
    if n.version < 11:
        pads: list[Dim] = list(n.integers("paddings" if n.version < 2 else "pads"))
        value = n.number("value", 0.0)
    else:
        found = n.some(1, "the padding")
        given, valid = n.vector(1), None
        if n.has(3) and None in n.some(3, "the axes"):
            (given, valid), found = pads_of_axes(n), [None] * 2 * rank
        elif n.has(3):
            axes = [n.count(a, rank) for a in n.static(3, "the axes")]
        if None in found:
            pads = run_time_pads(n, found, given, valid)
        else:
            pads = n.dims(1, "the padding")
        if n.has(2) and n[2].type.elements != 0:
            constant = n.knowledge.array(n[2])
            value = constant.reshape(-1)[0].item() if constant is not None else 0.0
            fill = n.e.reshape(n[2], ()) if constant is None else None
    if len(pads) != 2 * len(axes):
        raise InvalidModelError(f"Pad: {len(pads)} pads for {len(axes)} axes")
    lo: list[Dim] = [0] * rank
    hi: list[Dim] = [0] * rank
    for i, axis in enumerate(axes):
        lo[axis], hi[axis] = pads[i], pads[i + len(axes)]
    mode = n.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise InvalidModelError(f"Pad: mode {mode!r} is unknown")
    if all(p == 0 for p in pads):
        return x
    if mode != "constant":
        x, lo, hi = _cropped(n, x, lo, hi)
    number = float(value) if mode == "constant" and value else None
    out = n.e.op("pad", x, lo=tuple(lo), hi=tuple(hi), mode=mode, value=number)
    if fill is None or mode != "constant":
        return out
    inside = n.e.broadcast(n.e.scalar(True, BOOL), x.type.shape)
    inside = n.e.op("pad", inside, lo=tuple(lo), hi=tuple(hi), mode=mode)
    return n.e.map("select", inside, out, fill)


def _cropped(
    n: Node, x: Value, lo: list[Dim], hi: list[Dim]
) -> tuple[Value, list[Dim], list[Dim]]:
    """What negative pads leave, and the others: it is that which is repeated beyond its ends."""
    for axis, (left, right) in enumerate(zip(lo, hi, strict=True)):
        cut = [-p if isinstance(p, int) and p < 0 else 0 for p in (left, right)]
        if any(cut):
            size = add(x.type.shape[axis], -sum(cut))
            n.e.context.require(size, ">=", 0, f"Pad: axis {axis} after cropping")
            x = part(n, x, axis, cut[0], n.e.simplify(size))
    return x, *([0 if isinstance(p, int) and p < 0 else p for p in pads] for pads in (lo, hi))


def _gather(n: Node) -> Value:
    axis = n.axis("axis", 0, n[0].type.rank)
    size = n[0].type.shape[axis]
    picked = n.knowledge.array(n[1]) if isinstance(size, Expr) else None
    if picked is not None and picked.size:
        least, largest = int(picked.min()), int(picked.max())
        what = f"Gather: index {largest if largest >= -least else least}"
        n.e.context.require(size, ">=", max(largest + 1, -least), what)
    return n.e.op("gather", n[0], n[1], axis=axis)


def _gather_elements(n: Node) -> Value:
    return n.e.op("gather_elements", n[0], n[1], axis=n.axis("axis", 0, n[0].type.rank))


def _gather_nd(n: Node) -> Value:
    last = n[1].type.shape[-1:]
    if any(isinstance(depth, Expr) for depth in last):
        raise Refused(
            f"the last dimension of the indices is symbolic ({last[0]}), and it decides how many "
            "dimensions the result has",
            "give that dimension a size, in the model or in input_spec",
        )
    return n.e.op("gather_nd", n[0], n[1], batch_dims=n.integer("batch_dims", 0) or None)


def _image(n: Node) -> tuple[Dim, Dim, Dim, Dim]:
    if n[0].type.rank != 4:
        raise InvalidModelError(f"{n.op} needs [N, C, H, W], got {n[0].type}")
    a, b, c, d = n[0].type.shape
    return a, b, c, d


def _depth_to_space(n: Node) -> Value:
    batch, c, h, w = _image(n)
    k = n.integer("blocksize")
    n.e.context.require(mul(floordiv(c, k * k), k * k), "==", c, "DepthToSpace: channels")
    c = floordiv(c, k * k)
    if n.text("mode", "DCR") == "DCR":
        x = n.e.transpose(n.e.reshape(n[0], (batch, k, k, c, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = n.e.transpose(n.e.reshape(n[0], (batch, c, k, k, h, w)), (0, 1, 4, 2, 5, 3))
    return n.e.reshape(x, (batch, c, mul(h, k), mul(w, k)))


def _space_to_depth(n: Node) -> Value:
    batch, c, h, w = _image(n)
    k = n.integer("blocksize")
    for d in (h, w):
        n.e.context.require(mul(floordiv(d, k), k), "==", d, "SpaceToDepth: the blocks fit")
    h, w = (n.e.simplify(floordiv(d, k)) for d in (h, w))
    x = n.e.reshape(n[0], (batch, c, h, k, w, k))
    perm = (0, 3, 5, 1, 2, 4) if n.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return n.e.reshape(n.e.transpose(x, perm), (batch, mul(c, k * k), h, w))


def _reverse_sequence(n: Node) -> Value:
    """Element t of a row of length l comes from l - 1 - t where t < l (ReverseSequence-10)."""
    x, e = n[0], n.e
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise InvalidModelError("ReverseSequence: its axes must be 0 and 1")
    shape = x.type.shape
    step = e.op("iota", shape=shape[:2], axis=time, dtype=I64)
    length = e.unsqueeze(e.cast(n[1], I64), time)
    back = e.map("sub", e.with_scalar("sub", length, 1), step)
    source = e.map("select", e.map("lt", step, length), back, step)
    source = e.reshape(source, (*shape[:2], *[1] * (len(shape) - 2)))
    return e.op("gather_elements", x, e.broadcast(source, shape), axis=time)


def _center_crop_pad(n: Node) -> Value:
    x = n[0]
    rank = x.type.rank
    axes = [n.count(a, rank) for a in n.integers("axes", list(range(rank)))]
    lo: list[Dim] = [0] * rank
    hi: list[Dim] = [0] * rank
    for axis, want in zip(axes, n.sizes(1, "the shape"), strict=True):
        lo[axis], hi[axis] = halves(add(want, mul(x.type.shape[axis], -1)))
    return n.e.op("pad", x, lo=tuple(lo), hi=tuple(hi))


TABLE: dict[str, Handler] = {
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "ReverseSequence": _reverse_sequence,
    "CenterCropPad": _center_crop_pad,
}
