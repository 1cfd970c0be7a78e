"""Branches and loops as ops, whatever frontend they come from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from cuvil.frontends.emitter import Emitter
from cuvil.ir.control import STEP, requirements
from cuvil.ir.core import Value
from cuvil.ir.late import binders
from cuvil.ir.regions import Region
from cuvil.ir.types import TensorType
from cuvil.sym.expr import Dim, symbols_of

Body = Callable[[], list[Value]]
Place = tuple[int, int]  # a result, and an axis of it


def filled(e: Emitter, body: Body) -> tuple[Region, list[Value]]:
    """A closed region with what ``body`` emits, and what it yields."""
    with e.region() as region:
        values = body()
        e.close(values)
    return region, values


def joined(
    e: Emitter, flag: Value, bodies: Sequence[Body], made: Sequence[tuple[Region, list[Value]]]
) -> list[Value]:
    """The results of an ``scf.if`` of two branches whose results have the same dtypes and ranks.

    ``made`` are both as :func:`filled` gives them. Where sizes agree only under what holds in a
    branch, a result has those of the other branch; where they don't agree, it has sizes that are
    found at run time.
    """
    (region_a, a), (region_b, b) = made
    types: list[TensorType] = []
    apart: list[Place] = []
    for i, (x, y) in enumerate(zip([v.type for v in a], [v.type for v in b], strict=True)):
        if e.same_type(x, y, requirements(region_a.block)):
            types.append(y)
        elif e.same_type(x, y, requirements(region_b.block)):
            types.append(x)
        else:
            types.append(x)
            pairs = zip(x.shape, y.shape, strict=True)
            apart += [(i, axis) for axis, (p, q) in enumerate(pairs) if p != q]
    if not apart:
        return e.branch(flag, [region_a, region_b], types)
    sizes = _sizes(e, flag, bodies, apart)
    regions = [filled(e, functools.partial(_sized, e, body, sizes))[0] for body in bodies]
    for (i, axis), size in sizes.items():
        shape = types[i].shape
        types[i] = types[i].with_shape((*shape[:axis], size, *shape[axis + 1 :]))
    return e.branch(flag, regions, types)


def _sized(e: Emitter, body: Body, sizes: dict[Place, Dim]) -> list[Value]:
    """What a branch gives, whose sizes are known by the names of ``sizes`` from here on."""
    values = body()
    for (i, axis), size in sizes.items():
        have = values[i].type.shape[axis]
        e.context.require(have, "==", size, "the size that the branch gives")
    return values


def _sizes(
    e: Emitter, flag: Value, bodies: Sequence[Body], places: Sequence[Place]
) -> dict[Place, Dim]:
    """Late symbols for sizes: each branch once more, as far as its sizes need it."""
    regions = [filled(e, functools.partial(_measured, e, body, places))[0] for body in bodies]
    found = [e.reshape(v, (1,)) for v in e.branch(flag, regions, [STEP] * len(places))]
    together = found[0] if len(found) == 1 else e.op("concat", *found, axis=0)
    names = [f"branch_{i}_{axis}" for i, axis in places]
    return dict(zip(places, e.bind(together, names, "the size that a branch gives"), strict=True))


def _measured(e: Emitter, body: Body, places: Sequence[Place]) -> list[Value]:
    values = body()
    return [e.dims([values[i].type.shape[axis]], scalar=True) for i, axis in places]


def stacked(e: Emitter, rows: Sequence[Value], trips: Dim) -> list[TensorType] | None:
    """The types of the stacks of ``rows``, inside the loop's region before it is closed. None where
    a row's size is found anew in each trip, and nothing says that it is always the same."""
    late = binders(e.block).keys()
    known = {
        str(a): b
        for c in e.context.constraints if c.relation == "=="
        for a, b in ((c.left, c.right), (c.right, c.left))
        if str(a) in late and not symbols_of(b) & late
    }  # fmt: skip
    types = [v.type.substitute(known) for v in rows]
    if any(type.symbols() & late for type in types):
        return None
    return [type.with_shape((trips, *type.shape)) for type in types]
