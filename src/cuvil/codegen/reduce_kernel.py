"""Kernels of reductions, with everything before and after them.

The kept dimensions are the outer loops. For each kept point the reduced dimensions are walked once
for each *stage*: a reduction belongs to the stage after those that its operand depends on. Sums go
into lanes (independent accumulators, combined pairwise), so that the order of additions is fixed by
the source and not by the compiler. Where the last dimension is kept, a block of it forms the lanes
("columns"); where it is reduced, the lanes run along it ("rows").
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cuvil.analysis.index_map import LOCAL, Index, offset_of
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names, merge_loops
from cuvil.codegen.reduce_nest import COLUMN_LANES, Body, Nest
from cuvil.codegen.reduction_rules import adds_floats
from cuvil.codegen.scalar import Point, Provider, Writer
from cuvil.ir.core import Op, Value
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, mul, product, symbol
from cuvil.sym.facts import Facts


def reduce_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op of kind "reduce"."""
    return Reduction(op, facts).build()


@dataclass
class _Plan:
    """The reductions by stage, and what is stored: full-domain outputs and reduced ones."""

    stages: list[list[Op]] = field(default_factory=list)
    full: list[tuple[Value, Value, str]] = field(default_factory=list)
    reduced: list[tuple[Value, Value, str]] = field(default_factory=list)


class Reduction:
    """The kernel of one fused op; another language has writers and nests of its own."""

    def __init__(self, op: Op, facts: Facts) -> None:
        self.op = op
        self.domain = op.attrs["domain"]
        self.axes: tuple[int, ...] = op.attrs["axes"]
        self.kernel = Kernel(op.attrs["name"])
        self.base_facts = facts
        wide = [i for i, d in enumerate(self.domain) if d != 1]
        self.kept = [i for i in wide if i not in self.axes]
        self.folded = [i for i in wide if i in self.axes]
        self.rows = not self.kept or (bool(self.folded) and self.folded[-1] > self.kept[-1])
        self.levels: dict[int, int] = {}
        self.plan = self._plan()
        self._stash: dict[int, tuple[Value, str]] = {}

    def _plan(self) -> _Plan:
        plan = _Plan()
        block = self.op.regions[0]
        for number, (inside, result) in enumerate(
            zip(block.terminator.operands, self.op.results, strict=True)
        ):
            name = self.kernel.buffer(result, f"out{number}", out=True)
            is_full = inside.type.shape == self.domain and not self._is_reduced(inside)
            (plan.full if is_full else plan.reduced).append((inside, result, name))
        levels = self.levels
        for op in block.ops:
            level = max((levels.get(id(v), 0) for v in op.operands), default=0)
            if is_reduction(op):
                while len(plan.stages) <= level:
                    plan.stages.append([])
                plan.stages[level].append(op)
                level += 1
            for r in op.results:
                levels[id(r)] = level
        return plan

    def _is_reduced(self, value: Value) -> bool:
        """Whether a value of a domain whose reduced dims are all 1 comes after the reductions."""
        return not self.folded and value.op is not None and any(
            is_reduction(o) for o in _ancestry(value.op)
        )

    def _index(self) -> tuple[Index, Index]:
        full = tuple(0 if d == 1 else symbol(f"{LOCAL}i{a}") for a, d in enumerate(self.domain))
        reduced = tuple(0 if a in self.axes else i for a, i in enumerate(full))
        return full, reduced

    def _loops(self, axes: list[int]) -> list[Loop]:
        return [Loop(f"i{a}", self.domain[a]) for a in axes]

    def writer(self, rename: dict[str, Dim]) -> Writer:
        """A writer that knows the loops; ``rename`` has those that vanish."""
        loops = self._loops(self.kept + self.folded)
        facts = loop_facts(self.base_facts, loops)
        return Writer(self.kernel, facts, loop_names(loops), rename)

    def nest(self, writer: Writer, kept: list[Loop], folded: list[Loop]) -> Nest:
        """The loops around the reductions."""
        return Nest(writer, kept, folded, self.rows)

    def build(self) -> Kernel:
        """Write the range function and its launch."""
        if any(d == 0 for d in self.op.results[0].type.shape):
            return self.kernel
        writer, lines, items, work = self.written()
        self.kernel.body = (
            "void range(void* context, int64_t begin, int64_t end, int32_t) {\n@UNPACK@\n"
            + "\n".join(lines) + "\n}\n"
        )  # fmt: skip
        grain = f"cuvil::grain({writer.text(mul(work, max(1, len(lines) // 8)))})"
        self.kernel.launch = (
            f"  cuvil::parallel_for(rc.pool, {writer.text(items)}, {grain}, range, (void*)&k);\n"
        )
        return self.kernel

    def written(self) -> tuple[Writer, list[str], Dim, Dim]:
        """The lines, how many items the outermost loop has, and the work of each."""
        dry = self.writer({})
        self._emit(dry, self._loops(self.kept), self._loops(self.folded))
        kept, rename_kept = merge_loops(self._loops(self.kept), dry.accesses)
        folded, rename_folded = merge_loops(self._loops(self.folded), dry.accesses)
        writer = self.writer({**rename_kept, **rename_folded})
        return writer, *self._emit(writer, kept, folded)

    def _emit(
        self, writer: Writer, kept: list[Loop], folded: list[Loop]
    ) -> tuple[list[str], Dim, Dim]:
        self._stash = {}
        nest = self.nest(writer, kept, folded)
        head, items = nest.head()
        point = Point(writer, nest.indent)
        full, reduced = self._index()
        for number, stage in enumerate(self.plan.stages):
            self._stage(nest, point, stage, number, full, reduced)
        for inside, result, name in self.plan.reduced:
            nest.each_lane(point, _storing(inside, result, name, reduced))
        if self.plan.full:
            def store_full(p: Point) -> None:
                for inside, result, name in self.plan.full:
                    p.store(result, name, full, p.element(inside, full))

            nest.walk(point, store_full)
        work = product(x.extent for x in folded)
        if not self.rows:
            work = mul(work, COLUMN_LANES)
        return [*head, *point.lines, *nest.closing()], items, work

    def _stage(
        self, nest: Nest, point: Point, stage: list[Op], number: int, full: Index, reduced: Index
    ) -> None:
        writer = nest.writer
        names, parts = {}, {}
        for op in stage:
            acc = writer.fresh("acc")
            names[id(op)] = acc
            long = nest.in_blocks and adds_floats(op)
            nest.accumulate(point, op, acc, parts=long)
            if long:
                parts[id(op)] = (op, acc)

        def body(p: Point) -> None:
            for op in stage:
                element = p.element(op.operands[0], full)
                position = nest.position_text(op, self.domain)
                acc = names[id(op)] + ("_part" if id(op) in parts else "")
                for line in nest.taken(op, acc, element, position):
                    p.line(line)
            self._stash_outputs(p, number, full)

        nest.walk(point, body, lanes=True, parts=list(parts.values()))
        for op in stage:
            count = product(self.domain[a] for a in self.axes)
            nest.collapse(point, op, names[id(op)], writer.text(count))
            writer.bound[id(op.results[0])] = nest.result_provider(op, names[id(op)])
        if self.rows:
            self._settle_reduced(point, number + 1, reduced)

    def _settle_reduced(self, point: Point, level: int, reduced: Index) -> None:
        """Compute what follows from finished reductions once for each kept point."""
        shape = tuple(1 if a in self.axes else d for a, d in enumerate(self.domain))
        for op in self.op.regions[0].ops:
            if not is_reduction(op) and len(op.results) == 1 and op.type.shape == shape:
                known = self.levels.get(id(op.results[0]), 0)
                if 0 < known <= level and registry()[op.name].fusion == "map":
                    point.element(op.results[0], reduced)

    def _stash_outputs(self, p: Point, number: int, full: Index) -> None:
        """Keep an expensive element that a later stage needs in the output it leads to."""
        writer = p.writer
        for inside, result, name in self.plan.full:
            if id(result) in self._stash:
                continue
            source = _expensive_source(inside, p, full)
            if source is None or source.type.dtype != result.type.dtype:
                continue
            p.store(result, name, full, p.element(source, full))
            self._stash[id(result)] = (source, name)
            writer.bound[id(source)] = _stashed(source, result, name, writer)
            return


def _storing(inside: Value, result: Value, name: str, index: Index) -> Body:
    """Stores one element of an output."""

    def store(point: Point) -> None:
        point.store(result, name, index, point.element(inside, index))

    return store


def _stashed(source: Value, result: Value, name: str, writer: Writer) -> Provider:
    """Later stages read the element back from the output buffer."""
    def provide(point: Point, index: Index) -> str:
        offset = writer.facts.simplify(offset_of(index, result.type.shape))
        text = f"{name}[{writer.offset(offset, result.type.dtype.size)}]"
        return point.set(source.type.dtype.cxx, text)

    return provide


def _expensive_source(value: Value, point: Point, full: Index) -> Value | None:
    """A transcendental operand of ``value`` already computed at this point, seen through maps."""
    op = value.op
    while op is not None and registry()[op.name].fusion == "map":
        for operand in op.operands:
            inner = operand.op
            if inner is None or registry()[inner.name].fusion != "map":
                continue
            if registry()[inner.name].tolerance == "close" and inner.short != "rsqrt":
                if point._lookup((id(operand), full)) is not None:
                    return operand
        op = op.operands[0].op
    return None


def is_reduction(op: Op) -> bool:
    """Whether the op is of fusion class "reduce"."""
    definition = registry().get(op.name)
    return definition is not None and definition.fusion == "reduce"


def _ancestry(op: Op) -> list[Op]:
    seen: dict[int, Op] = {}
    work = [op]
    while work:
        current = work.pop()
        if id(current) in seen:
            continue
        seen[id(current)] = current
        work += [v.op for v in current.operands if v.op is not None]
    return list(seen.values())
