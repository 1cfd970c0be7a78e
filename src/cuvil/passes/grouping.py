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
from cuvil.ops.registry import registry

MAP, REDUCE, CONTRACTION, ALONE = "map", "reduce", "contraction", "alone"

# Maps this cheap are recomputed by each reader rather than stored, when only movements read them.
_CHEAP = ("neg", "cast", "not", "abs", "add", "sub", "mul", "eq", "lt", "le", "gt", "ge", "and")


@dataclass(eq=False)
class Group:
    """Ops that become one kernel. ``domain`` is the space it loops over, reduced dims included."""

    index: int
    kind: str
    domain: Shape
    axes: tuple[int, ...] = ()
    ops: list[Op] = field(default_factory=list)


def fusion_class(op: Op) -> str:
    """The op's fusion class; what is no operator of the table stands alone."""
    definition = registry().get(op.name)
    return definition.fusion if definition is not None else "control"


def has_epilogue(op: Op) -> bool:
    """Whether maps can run on finished tiles of this contraction."""
    return op.short != "attention"


class Grouping:
    """Groups of one block. ``of`` maps id(op) to its group."""

    def __init__(self, block: Block, enable: bool = True) -> None:
        self.block = block
        self.enable = enable
        self.groups: list[Group] = []
        self.of: dict[int, Group] = {}
        self._ancestors: list[int] = []
        self._bases: dict[int, tuple[Op, ...]] = {}
        self._floats: dict[int, bool] = {}
        self._memory: dict[int, bool] = {}
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
        if op.short not in _CHEAP or len(users) != 1 or len(op.result.uses) != 1:
            return False
        if _read_as_view(op):
            return False
        wide = [v for v in op.operands if self._bases_of(v) or v.op is None]
        return len(wide) <= 1 and fusion_class(users[0]) == "movement" and users[0].short in (
            "concat", "slice", "transpose", "pad",
        )  # fmt: skip

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
        for value in _all_operands(op):
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
            for value in _all_operands(op):
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
            self._new(op, CONTRACTION, op.type.shape)
        else:
            self._new(op, ALONE, ())

    def _visit_map(self, op: Op) -> None:
        candidates = [] if not self.enable else self._direct_groups(op)
        candidates = [g for g in candidates if self._may_join(op, g)]
        if not candidates:
            self._new(op, MAP, op.type.shape)
            return
        best = max(candidates, key=lambda g: (g.kind == CONTRACTION, g.index))
        self._add(best, op)
        for other in candidates:
            if other is not best:
                self._merge(other, best)

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

    def _may_join(self, op: Op, group: Group) -> bool:
        if group.kind == CONTRACTION and not has_epilogue(group.ops[0]):
            return False
        shape = op.type.shape
        if shape != group.domain and not (
            group.kind == REDUCE and shape == reduced_shape(group.domain, group.axes)
        ):
            return False
        if not all(self._reads_in_place(value, group) for value in op.operands):
            return False
        bit = 1 << group.index
        return not any(
            p is not group and self._ancestors[p.index] & bit for p in self._producers(op)
        )

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
        if group is not None and group.kind in (MAP, REDUCE) and group.domain == domain:
            same = group.kind == MAP or group.axes == axes
            if same and (group.kind == REDUCE or self._becomes_reduce(group, axes)):
                group.kind, group.axes = REDUCE, axes
                self._add(group, op)
                return
        self._new(op, REDUCE, domain, axes)

    def _becomes_reduce(self, group: Group, axes: tuple[int, ...]) -> bool:
        """A map group may take a reduction when that does not cost it its parallel loops: it is
        small, or the reduction is over its last dimension."""
        return bool(axes) and max(axes) == len(group.domain) - 1

    def _merge(self, a: Group, b: Group) -> None:
        """Move the ops of ``a`` into ``b`` if both loop alike and no third group lies between."""
        if a.kind == CONTRACTION or (a.kind == REDUCE and b.kind != REDUCE):
            return
        if a.domain != b.domain or (a.kind == REDUCE and a.axes != b.axes):
            return
        bit_a, bit_b = 1 << a.index, 1 << b.index
        for g in self.groups:
            if g is a or g is b:
                continue
            up = self._ancestors[g.index]
            if up & bit_a and self._ancestors[b.index] >> g.index & 1:
                return
            if up & bit_b and self._ancestors[a.index] >> g.index & 1:
                return
        if not all(self._reads_in_place(v, a) for op in b.ops for v in op.operands):
            return
        if not all(self._reads_in_place(v, b) for op in a.ops for v in op.operands):
            return
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


def _all_operands(op: Op) -> list[Value]:
    """Operands of the op and, for ops with regions, of everything inside."""
    values = list(op.operands)
    for region in op.regions:
        for inner in region.ops:
            values += _all_operands(inner)
    return values


def _axes(op: Op) -> tuple[int, ...]:
    rank = op.operands[0].type.rank
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return tuple(sorted(a % rank for a in axes))


def reduced_shape(domain: Shape, axes: tuple[int, ...]) -> Shape:
    """The domain with its reduced dimensions of size 1."""
    return tuple(1 if i in axes else d for i, d in enumerate(domain))
