"""Which ops share a kernel: the decision part of fusion.

Ops are visited in order. A contraction or a reduction opens a group; a map joins the group of an
operand when both run over the same domain, or opens one. Sources and movements belong to no group:
every kernel that reads through them has its own copy, as index arithmetic. Groups form an acyclic
graph; ``_ancestors`` holds its transitive closure as bit masks. What mentions a late symbol depends
on the op that binds it as on an operand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cuvil.analysis.index_map import VIEW_OPS
from cuvil.ir.core import Block, Op, Value
from cuvil.ir.late import binders, needed
from cuvil.ir.types import Shape
from cuvil.passes.depth import CHEAP, FULL, fusion_class, is_full, moved_only
from cuvil.passes.matching import (
    all_operands,
    widens_bytes,
    widens_for_reduction,
    widens_halves,
)

MAP, REDUCE, CONTRACTION, ALONE = "map", "reduce", "contraction", "alone"


@dataclass(eq=False)
class Group:
    """Ops that become one kernel. ``domain`` is the space it loops over, reduced dims included."""

    index: int
    kind: str
    domain: Shape
    axes: tuple[int, ...] = ()
    ops: list[Op] = field(default_factory=list)


class Grouping:
    """Groups of one block. ``of`` maps id(op) to its group; ``refusals`` has, by id(op), an op of
    each group that it reads and did not join, and why not."""

    def __init__(self, block: Block, enable: bool = True) -> None:
        self.block = block
        self.enable = enable
        self.groups: list[Group] = []
        self.of: dict[int, Group] = {}
        self.refusals: dict[int, list[tuple[Op, str]]] = {}
        self._ancestors: list[int] = []
        self._bases: dict[int, tuple[Op, ...]] = {}
        self._floats: dict[int, bool] = {}
        self._memory: dict[int, bool] = {}
        self._apart = "it is read through a movement" if enable else "fusion is off"
        self._late = binders(block)
        self._waits: dict[int, dict[int, Op]] = {}
        for op in block.ops:
            self._visit(op)

    def floats(self, op: Op) -> bool:
        """Whether ``op`` is index arithmetic or so cheap that each reader repeats it."""
        known = self._floats.get(id(op))
        if known is None:
            known = self._decide_float(op)
            self._floats[id(op)] = known
        return known

    def _decide_float(self, op: Op) -> bool:
        kind = fusion_class(op)
        if kind in ("source", "movement"):
            return True
        if kind != "map" or op.short == "materialize" or not self.enable:
            return False
        if not any(self._bases_of(v) for v in op.operands) and not self._reads_memory(op):
            return True
        users = op.result.users
        if widens_halves(op) and all(fusion_class(u) in (MAP, REDUCE) for u in users):
            return True
        if op.short not in CHEAP or len(users) != 1 or len(op.result.uses) != 1:
            return False
        if _read_as_view(op):
            return False
        wide = [v for v in op.operands if self._bases_of(v) or v.op is None]
        if len(wide) > 1:
            return False
        return moved_only(op) or widens_for_reduction(op, CHEAP)

    def _reads_memory(self, op: Op) -> bool:
        """Whether an input of the function or a large constant is read by ``op``."""
        known = self._memory.get(id(op))
        if known is None:
            known = any(self._is_memory(value.op) for value in op.operands)
            self._memory[id(op)] = known
        return known

    def _is_memory(self, source: Op | None) -> bool:
        if source is None:
            return True
        if source.short == "constant":
            return bool(source.attrs["value"].array.size > 1)
        return self._reads_memory(source)

    def _bases_of(self, value: Value) -> tuple[Op, ...]:
        """The grouped ops whose results are read when ``value`` is read."""
        op = value.op
        if op is None:
            return ()
        if not self.floats(op):
            return (op,)
        cached = self._bases.get(id(op))
        if cached is None:
            found: dict[int, Op] = {}
            for operand in op.operands:
                for base in self._bases_of(operand):
                    found[id(base)] = base
            cached = tuple(found.values())
            self._bases[id(op)] = cached
        return cached

    def _new(self, op: Op, kind: str, domain: Shape, axes: tuple[int, ...] = ()) -> Group:
        group = Group(len(self.groups), kind, domain, axes)
        self.groups.append(group)
        self._ancestors.append(0)
        self._add(group, op)
        return group

    def _producers(self, op: Op) -> Iterable[Group]:
        for value in all_operands(op):
            for base in self._bases_of(value):
                group = self.of.get(id(base))
                if group is not None:
                    yield group
        for binder in self._binders_of(op).values():
            yield self.of[id(binder)]

    def _binders_of(self, op: Op) -> dict[int, Op]:
        """Who binds the late symbols that ``op`` mentions, or the floats that it reads through."""
        if not self._late:
            return {}
        known = self._waits.get(id(op))
        if known is None:
            known = {id(b): b for b in needed(op, self._late)}
            for value in all_operands(op):
                source = value.op
                if source is not None and source.block is self.block and self.floats(source):
                    known = {**known, **self._binders_of(source)}
            self._waits[id(op)] = known
        return known

    def _add(self, group: Group, op: Op) -> None:
        group.ops.append(op)
        self.of[id(op)] = group
        mask = self._ancestors[group.index]
        for producer in self._producers(op):
            if producer is not group:
                mask |= self._ancestors[producer.index] | (1 << producer.index)
        if mask != self._ancestors[group.index]:
            self._raise_ancestors(group, mask)

    def _raise_ancestors(self, group: Group, mask: int) -> None:
        self._ancestors[group.index] = mask
        bit = 1 << group.index
        for i, known in enumerate(self._ancestors):
            if known & bit:
                self._ancestors[i] = known | mask

    def _visit(self, op: Op) -> None:
        if self.floats(op):
            return
        kind = fusion_class(op)
        if kind == "map":
            self._visit_map(op)
        elif kind == "reduce":
            self._visit_reduce(op)
        elif kind == "contraction":
            self._note_all(op, "a contraction reads its operands from memory")
            self._new(op, CONTRACTION, op.type.shape)
        else:
            if op is not self.block.last:
                self._note_all(op, f"{op.short} is a kernel of its own")
            self._new(op, ALONE, ())

    def _note(self, op: Op, group: Group, reason: str) -> None:
        self.refusals.setdefault(id(op), []).append((group.ops[0], reason))

    def _note_all(self, op: Op, reason: str, but: Iterable[Group] = ()) -> None:
        """The same for every group that ``op`` reads, ``but`` for those."""
        told = {group.index for group in but}
        for group in self._producers(op):
            if group.index not in told:
                told.add(group.index)
                alone = group.kind == ALONE
                words = f"{group.ops[0].short} is a kernel of its own" if alone else reason
                self._note(op, group, words)

    def stops(self, group: Group) -> list[tuple[Op, Op, str]]:
        """Where fusion stopped before a group: its op, an op of the group that this one reads, and
        the reason, once for each such group."""
        found: dict[int, tuple[Op, Op, str]] = {}
        for op in group.ops:
            for other, reason in self.refusals.get(id(op), ()):
                final = self.of[id(other)]
                if final is not group:
                    found.setdefault(final.index, (op, other, reason))
        return list(found.values())

    def _visit_map(self, op: Op) -> None:
        direct = [] if not self.enable else self._direct_groups(op)
        self._note_all(op, self._apart, direct)
        candidates = []
        for group in direct:
            reason = self._why_not_join(op, group)
            if reason is None:
                candidates.append(group)
            else:
                self._note(op, group, reason)
        if not candidates:
            self._new(op, MAP, op.type.shape)
            return
        best = max(candidates, key=lambda g: (g.kind == CONTRACTION, g.index))
        self._add(best, op)
        for other in candidates:
            if other is not best:
                reason = self._merge(other, best)
                if reason is not None:
                    self._note(op, other, reason)

    def _direct_groups(self, op: Op) -> list[Group]:
        """Groups one of whose results is an operand, directly or broadcast from a reduction."""
        found: dict[int, Group] = {}
        for value in op.operands:
            source = value.op
            if source is not None and source.short == "broadcast":
                inner = source.operands[0].op
                group = self.of.get(id(inner)) if inner is not None else None
                if group is not None and group.kind == REDUCE:
                    found[group.index] = group
                continue
            group = self.of.get(id(source)) if source is not None else None
            if group is not None and group.kind != ALONE:
                found[group.index] = group
        return list(found.values())

    def _why_not_join(self, op: Op, group: Group) -> str | None:
        """Why a map can't run in the loops of a group; None if it can."""
        if is_full(group.ops, [op]):
            return FULL
        if group.ops[0].short == "attention":
            return f"{group.ops[0].short} has no place for maps after it"
        if group.kind == CONTRACTION and widens_bytes(op):
            return "the bytes that it widens are stored, which are fewer"
        shape = op.type.shape
        if shape != group.domain and not (
            group.kind == REDUCE and shape == reduced_shape(group.domain, group.axes)
        ):
            return f"it loops over {_extents(shape)}, that kernel over {_extents(group.domain)}"
        if not all(self._reads_in_place(value, group) for value in op.operands):
            return "it reads elements away from where that kernel makes them"
        bit = 1 << group.index
        if any(p is not group and self._ancestors[p.index] & bit for p in self._producers(op)):
            return "a third kernel lies between them"
        return None

    def _reads_in_place(self, value: Value, group: Group) -> bool:
        """Elements of the group are read at the place where they are made, or not at all."""
        source = value.op
        if source is None or self.of.get(id(source)) is group:
            return True
        if source.short == "broadcast" and group.kind == REDUCE:
            inner = source.operands[0]
            if inner.op is not None and self.of.get(id(inner.op)) is group:
                reduced = reduced_shape(group.domain, group.axes)
                return inner.type.shape == reduced and value.type.shape == group.domain
        return not any(self.of.get(id(base)) is group for base in self._bases_of(value))

    def _visit_reduce(self, op: Op) -> None:
        source = op.operands[0].op
        domain = op.operands[0].type.shape
        axes = _axes(op)
        group = self.of.get(id(source)) if source is not None and self.enable else None
        reason = None if group is None else self._why_not_reduce(op, group, domain, axes)
        if group is not None and reason is None:
            group.kind, group.axes = REDUCE, axes
            self._add(group, op)
            return
        if group is not None and reason is not None:
            self._note(op, group, reason)
        self._note_all(op, self._apart, [] if group is None else [group])
        self._new(op, REDUCE, domain, axes)

    def _why_not_reduce(
        self, op: Op, group: Group, domain: Shape, axes: tuple[int, ...]
    ) -> str | None:
        """Why a reduction can't run in the loops of a group; None if it can."""
        if group.kind == ALONE:
            return f"{group.ops[0].short} is a kernel of its own"
        if is_full(group.ops, [op]):
            return FULL
        if group.kind == CONTRACTION:
            return "a contraction's finished tiles take maps, and no reduction"
        if group.domain != domain:
            return f"it loops over {_extents(domain)}, that kernel over {_extents(group.domain)}"
        if group.kind == REDUCE and group.axes != axes:
            return f"it reduces the axes {list(axes)}, that kernel {list(group.axes)}"
        if group.kind == MAP and not self._becomes_reduce(group, axes):
            return "reducing other axes than the last would cost that kernel its parallel loops"
        return None

    def _becomes_reduce(self, group: Group, axes: tuple[int, ...]) -> bool:
        """A map group may take a reduction when that does not cost it its parallel loops: it is
        small, or the reduction is over its last dimension."""
        return bool(axes) and max(axes) == len(group.domain) - 1

    def _merge(self, a: Group, b: Group) -> str | None:
        """Move the ops of ``a`` into ``b`` if both loop alike and no third group lies between;
        else the reason why not."""
        if is_full(a.ops, b.ops):
            return FULL
        if a.kind == CONTRACTION or (a.kind == REDUCE and b.kind != REDUCE):
            return f"a {a.kind} can't be taken into the {b.kind} that it joined"
        if a.domain != b.domain or (a.kind == REDUCE and a.axes != b.axes):
            return f"it loops over {_extents(a.domain)}, that kernel over {_extents(b.domain)}"
        bit_a, bit_b = 1 << a.index, 1 << b.index
        for g in self.groups:
            if g is a or g is b:
                continue
            up = self._ancestors[g.index]
            if up & bit_a and self._ancestors[b.index] >> g.index & 1:
                return "a third kernel lies between them"
            if up & bit_b and self._ancestors[a.index] >> g.index & 1:
                return "a third kernel lies between them"
        if not all(self._reads_in_place(v, a) for op in b.ops for v in op.operands):
            return "it reads elements away from where that kernel makes them"
        if not all(self._reads_in_place(v, b) for op in a.ops for v in op.operands):
            return "it reads elements away from where that kernel makes them"
        for op in a.ops:
            self.of[id(op)] = b
        b.ops = [*a.ops, *b.ops]
        mask = (self._ancestors[a.index] | self._ancestors[b.index]) & ~(bit_a | bit_b)
        a.ops = []
        for i, known in enumerate(self._ancestors):
            if known & bit_a:
                self._ancestors[i] = (known & ~bit_a) | bit_b
        self._ancestors[b.index] &= ~bit_b
        self._raise_ancestors(b, mask)
        return None

    def inside(self, user: Op, members: set[int]) -> bool:
        """Whether ``user`` is a member (by id), or a float that only members read."""
        if id(user) in members or not self.floats(user):
            return id(user) in members
        return all(self.inside(u, members) for r in user.results for u in r.users)

    def join(self, first: Group, second: Group) -> None:
        """Move the ops of ``first``, which only ``second`` reads, into ``second``."""
        for op in first.ops:
            self.of[id(op)] = second
        second.ops = [*first.ops, *second.ops]
        first.ops = []

    def ordered(self) -> list[Group]:
        """Non-empty groups so that producers come first; ties by the place of their first op."""
        live = [g for g in self.groups if g.ops]
        place = {id(op): i for i, op in enumerate(self.block.ops)}
        for group in live:
            group.ops.sort(key=lambda op: place[id(op)])
        return sorted(
            live, key=lambda g: (bin(self._ancestors[g.index]).count("1"), place[id(g.ops[0])])
        )


def _read_as_view(op: Op) -> bool:
    """Whether a contraction reads the result in place, so that it must lie in memory."""
    return any(
        fusion_class(user) == "contraction" or (user.short in VIEW_OPS and _read_as_view(user))
        for user in op.result.users
    )


def _extents(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _axes(op: Op) -> tuple[int, ...]:
    rank = op.operands[0].type.rank
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return tuple(sorted(a % rank for a in axes))


def reduced_shape(domain: Shape, axes: tuple[int, ...]) -> Shape:
    """The domain with its reduced dimensions of size 1."""
    return tuple(1 if i in axes else d for i, d in enumerate(domain))
