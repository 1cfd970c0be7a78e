"""Fusion: groups of ops become ``cuvil.fused`` ops, one kernel each.

In: canonical IR. Out: a block of constants, ``fused`` ops, kernels that stand alone, and reshapes
of materialised values (which are free). A ``fused`` op's region is ordinary IR over its operands;
it holds the movements and small constants that it reads through.
"""

from __future__ import annotations

from collections.abc import Callable

from cuvil.analysis.contraction_views import has_kernel, operand_fits
from cuvil.analysis.index_map import VIEW_OPS
from cuvil.ir.core import Block, Op, Value
from cuvil.passes.chains import chain_rows
from cuvil.passes.depth import cut_deep_reads, fusion_class
from cuvil.passes.grouping import ALONE, Group, Grouping
from cuvil.rewrite.driver import remove_dead
from cuvil.rewrite.rewriter import Rewriter

_NAME_PARTS = 4


def fuse(rewriter: Rewriter, enable: bool = True, chains: bool = True) -> None:
    """Rewrite the body into fused ops; ``chains`` allows several convolutions in one."""
    body = rewriter.function.body
    cut_deep_reads(rewriter, body)
    _copy_awkward_operands(rewriter, body, enable)
    grouping = Grouping(body, enable)
    if enable and chains:
        chain_rows(rewriter, grouping)
    fuser = _Fuser(rewriter, grouping, body.terminator)
    for group in grouping.ordered():
        fuser.emit(group)
    fuser.finish()
    remove_dead(body, rewriter)


def _copy_awkward_operands(rewriter: Rewriter, body: Block, enable: bool) -> None:
    """Put a ``materialize`` behind operands that a kernel can't read through their movements."""
    floats = Grouping(Block(), enable).floats
    for op in body.ops:
        kind = fusion_class(op)
        if kind == "contraction" and has_kernel(op):
            facts = rewriter.context.facts
            for index, value in enumerate(op.operands):
                if not operand_fits(op, index, facts) or _is_never_stored(_base(value), floats):
                    _materialize(rewriter, op, index, value)
        elif kind in ("kernel", "control") and op is not body.last:
            for index, value in enumerate(op.operands):
                if not _lies_in_memory(value):
                    _materialize(rewriter, op, index, value)


def _lies_in_memory(value: Value) -> bool:
    """An input, a constant, a kernel's result, or a reshape of one."""
    op = value.op
    while op is not None and op.short == "reshape":
        value = op.operands[0]
        op = value.op
    if op is None or op.short == "constant":
        return True
    return fusion_class(op) not in ("movement", "source") and not _computed_from_index(value)


def _is_never_stored(value: Value, floats: Callable[[Op], bool]) -> bool:
    """Each reader computes it anew. A constant is stored where a contraction reads it."""
    op = value.op
    return op is not None and op.short != "constant" and floats(op)


def _base(value: Value) -> Value:
    while value.op is not None and value.op.short in VIEW_OPS:
        value = value.op.operands[0]
    return value


def _computed_from_index(value: Value) -> bool:
    """Made from iota, dims and single numbers alone: such values are never stored by themselves."""
    seen: set[int] = set()
    work = [value]
    while work:
        op = work.pop().op
        if op is None:
            return False
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.short == "constant":
            if op.attrs["value"].array.size != 1:
                return False
        elif fusion_class(op) != "source":
            if fusion_class(op) not in ("map", "movement") or op.short == "materialize":
                return False
            work += op.operands
    return True


def _materialize(rewriter: Rewriter, op: Op, index: int, value: Value) -> None:
    if rewriter.begin("materialize-operand", op, required=True):
        rewriter.set_operand(op, index, rewriter.value("materialize", [value]))


class _Fuser:
    def __init__(self, rewriter: Rewriter, grouping: Grouping, end: Op) -> None:
        self.rewriter = rewriter
        self.grouping = grouping
        self.end = end
        self._settled: set[int] = set()

    def emit(self, group: Group) -> None:
        """Create the fused op of a group before the end of the block."""
        if group.kind == ALONE:
            op = group.ops[0]
            if op is not self.end:
                self._settle_operands(op)
                self.rewriter.move_before(op, self.end)
                self._note_stops(group, op)
            return
        members = {id(op) for op in group.ops}
        outputs = [
            r for op in group.ops for r in op.results
            if any(not self.grouping.inside(user, members) for user in r.users)
        ]  # fmt: skip
        if not outputs:
            return
        self.fused(group, outputs)

    def fused(self, group: Group, outputs: list[Value]) -> None:
        """Build the region and replace the outputs."""
        first = group.ops[0]
        block = Block()
        region = _Region(self.rewriter, self.grouping, group, block)
        results = [region.value(v) for v in outputs]
        self.rewriter.at_end(block, first.loc)
        self.rewriter.op("cuvil.yield", results, result_types=())
        self.rewriter.at(self.end)
        made = self.rewriter.op(
            "cuvil.fused",
            region.operands,
            {"kind": group.kind, "name": _name(group.ops), **_extent(group)},
            regions=[block],
            result_types=[v.type for v in outputs],
            loc=first.loc,
        )
        self.rewriter.trace.fire("fuse", made)
        self._note_stops(group, made)
        for old, new in zip(outputs, made.results, strict=True):
            self.rewriter.replace_value(old, new)

    def _note_stops(self, group: Group, made: Op) -> None:
        if self.rewriter.trace.detailed:
            for place, read, reason in self.grouping.stops(group):
                self.rewriter.trace.stop("fuse", made, place, read, reason)

    def _settle_operands(self, op: Op) -> None:
        for value in op.operands:
            if value.op is not None and self.grouping.floats(value.op):
                self._settle(value)

    def _settle(self, value: Value) -> None:
        """Let a reshape of a materialised value, or a constant, stand before the end."""
        op = value.op
        assert op is not None
        if id(op) in self._settled:
            return
        self._settled.add(id(op))
        for operand in op.operands:
            if operand.op is not None and self.grouping.floats(operand.op):
                self._settle(operand)
        if op.short != "constant":
            self.rewriter.move_before(op, self.end)

    def finish(self) -> None:
        """Materialise what the function returns, where that is not a kernel's result already."""
        for index, value in enumerate(self.end.operands):
            if self._stands(value):
                self._settle_operands_of_return(value)
                continue
            group = Group(-1, "map", value.type.shape, (), [])
            block = Block()
            region = _Region(self.rewriter, self.grouping, group, block)
            result = region.value(value)
            self.rewriter.at_end(block, value.op.loc if value.op else self.end.loc)
            self.rewriter.op("cuvil.yield", [result], result_types=())
            self.rewriter.at(self.end)
            made = self.rewriter.op(
                "cuvil.fused",
                region.operands,
                {"kind": "map", "name": "copy", "domain": value.type.shape},
                regions=[block],
                result_types=[value.type],
            )
            self.rewriter.set_operand(self.end, index, made.result)

    def _stands(self, value: Value) -> bool:
        op = value.op
        if op is None or op.short == "constant":
            return False
        if op.short == "reshape":
            return self._stands(op.operands[0])
        return not self.grouping.floats(op)

    def _settle_operands_of_return(self, value: Value) -> None:
        if value.op is not None and value.op.short == "reshape":
            self._settle(value)


def _extent(group: Group) -> dict[str, object]:
    extent: dict[str, object] = {"domain": group.domain}
    if group.kind == "reduce":
        extent["axes"] = group.axes
    return extent


def _name(ops: list[Op]) -> str:
    """A readable name of the ops: the contraction or reductions first named, repeats dropped."""
    names: list[str] = []
    for op in ops:
        short = op.short.removeprefix("reduce_")
        if short not in names and short != "materialize":
            names.append(short)
    if not names:
        return "copy"
    return "_".join(names[:_NAME_PARTS])


class _Region:
    """Clones the ops of a group, and the floats they read, into a block."""

    def __init__(self, rewriter: Rewriter, grouping: Grouping, group: Group, block: Block) -> None:
        self.rewriter = rewriter
        self.grouping = grouping
        self.members = {id(op) for op in group.ops}
        self._stored = {
            id(_base(v).op)
            for op in group.ops
            if fusion_class(op) == "contraction"
            for v in op.operands
        }
        self.block = block
        self.operands: list[Value] = []
        self._map: dict[int, Value] = {}

    def value(self, value: Value) -> Value:
        """The value inside the region that stands for ``value``."""
        work = [value]
        while work:
            outer = work[-1]
            op = outer.op
            if id(outer) in self._map:
                work.pop()
            elif op is None or not self._clones(op):
                self._map[id(outer)] = self.rewriter.add_arg(self.block, outer.type, outer.name)
                self.operands.append(outer)
            else:
                missing = [v for v in op.operands if id(v) not in self._map]
                work += reversed(missing)
                if not missing:
                    self._clone(op)
        return self._map[id(value)]

    def _clones(self, op: Op) -> bool:
        if id(op) in self.members:
            return True
        if op.short == "constant":
            return bool(op.attrs["value"].array.size == 1) and id(op) not in self._stored
        return self.grouping.floats(op)

    def _clone(self, op: Op) -> None:
        """The op once more inside, where its operands are already."""
        operands = [self._map[id(v)] for v in op.operands]
        self.rewriter.at_end(self.block, op.loc)
        if op.short == "materialize":
            made = operands
        else:
            made = self.rewriter.op(
                op.name, operands, op.attrs, result_types=[r.type for r in op.results], loc=op.loc
            ).results
        for old, new in zip(op.results, made, strict=True):
            self._map[id(old)] = new
