"""Which way a program went: branch directions and numbers of trips, counted by the program itself.

A copy of the captured module returns, beside its outputs, how often each branch went either way,
how often each loop made no trip, one, or many, and what each loop carried at its end. The reference
interpreter and an artifact of this copy are asked for the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import ValueMap, clone_op
from cuvil.ir.control import FOR, IF, STEP, WHILE, Loop, is_control
from cuvil.ir.core import Block, Module, Op, Value, walk
from cuvil.ir.late import late_symbols
from cuvil.ir.regions import Region
from cuvil.ir.types import I64, TensorType
from cuvil.sym.facts import Facts
from cuvil.verify.path_report import PathReport, PathSite
from cuvil.verify.report import Array, compare

BRANCHES = ("then", "else")
TRIPS = ("no trip", "one trip", "many trips")


@dataclass(frozen=True)
class Site:
    """A branch or loop of the captured module, with its possible ``ways`` and the names of the
    outputs that count them, and of those that have what a loop carried at its end."""

    op: Op
    ways: Mapping[str, str]
    states: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.op.name

    @property
    def place(self) -> str:
        return str(self.op.loc)


@dataclass(frozen=True)
class Counted:
    """The copy that counts, and its sites, outer before inner."""

    module: Module
    sites: tuple[Site, ...]


def counted(module: Module) -> Counted:
    """The copy of a captured module that counts where it goes."""
    return _Counting(module).run()


def compare_paths(
    sites: Sequence[Site],
    names: Sequence[str],
    runs: Sequence[tuple[Sequence[Array], Sequence[Array]]],
) -> PathReport:
    """Judge runs of the copy: pairs of what reference and artifact returned, by ``names``."""
    found = []
    for site in sites:
        seen = PathSite(site.kind, site.place, dict.fromkeys(site.ways, 0))
        for reference, artifact in runs:
            expected, given = dict(zip(names, reference)), dict(zip(names, artifact))
            for way, output in site.ways.items():
                seen.ways[way] += int(expected[output])
                if int(expected[output]) != int(given[output]) and way not in seen.different:
                    seen.different.append(way)
            for output in site.states:
                (error,) = compare([output], [expected[output]], [given[output]], 0.0, 0.0)
                seen.divergence = max(seen.divergence, error.scaled)
        found.append(seen)
    return PathReport(tuple(found), len(runs))


@dataclass
class _Trace:
    """What a block has counted: by the site's number, a scalar for each way and a tensor for each
    state. Sums over trips are taken of the former, the last is kept of the latter."""

    counts: dict[tuple[int, str], Value] = field(default_factory=dict)
    states: dict[tuple[int, int], Value] = field(default_factory=dict)

    def values(self) -> list[Value]:
        return [*self.counts.values(), *self.states.values()]


class _Counting:
    """Writes the copy, op by op. ``values`` maps old values to those of the copy."""

    def __init__(self, module: Module) -> None:
        self.module = module
        main = module.main
        self.e = Emitter(dict(main.symbols))
        self.e.context.constraints.extend(main.constraints)
        self.facts = Facts(main.symbols)
        self.late = set(late_symbols(main))
        self.values: ValueMap = {}
        self.numbers = {id(op): i for i, op in enumerate(o for o in main.walk() if is_control(o))}

    def run(self) -> Counted:
        main, e = self.module.main, self.e
        for name, value in zip(main.input_names, main.inputs, strict=True):
            self.values[value] = e.input(name, value.type)
        outputs, trace = self._block(main.body)
        names = list(main.output_names)
        ways: dict[int, dict[str, str]] = {}
        states: dict[int, list[str]] = {}
        for number, way in trace.counts:
            names.append(f"count.{number}.{way.replace(' ', '_')}")
            ways.setdefault(number, {})[way] = names[-1]
        for number, place in trace.states:
            names.append(f"state.{number}.{place}")
            states.setdefault(number, []).append(names[-1])
        made = e.finish([*outputs, *trace.values()], names, name=f"{self.module.name}_paths")
        ops = [op for op in main.walk() if id(op) in self.numbers]
        sites = tuple(
            Site(op, ways.get(i, {}), tuple(states.get(i, ()))) for i, op in enumerate(ops)
        )
        return Counted(made, sites)

    def _block(self, block: Block) -> tuple[list[Value], _Trace]:
        """The copy of a block's ops where the emitter stands: what it returns, and its trace."""
        trace = _Trace()
        for op in block.ops:
            self.e.loc = op.loc
            if op is block.terminator:
                return [self.values[v] for v in op.operands], trace
            if op.name == IF:
                self._branch(op, trace)
            elif is_control(op):
                self._loop(op, trace)
            else:
                operands = [self.e.here(self.values[v]) for v in op.operands]
                self.e.builder.insert(clone_op(op, self.values, operands=operands))
        raise ValueError("a block without an end")

    def _branch(self, op: Op, trace: _Trace) -> None:
        e, number = self.e, self.numbers[id(op)]
        condition = self.values[op.operands[0]]
        inner = self._sides(op)
        regions: list[Region] = []
        for block in op.regions:
            with e.region() as region:
                for argument, outer in zip(block.args, op.operands[1:], strict=True):
                    self.values[argument] = self.values[outer]
                results, found = self._block(block)
                mine = {**found.counts, **found.states}
                e.close([*results, *(mine.get(k) or self._zero(t) for k, t in inner.items())])
            regions.append(region)
        types = [*(v.type for v in op.results), *inner.values()]
        made = e.branch(condition, regions, types)
        self.values.update(zip(op.results, made[: len(op.results)], strict=True))
        for key, value in zip(inner, made[len(op.results) :], strict=True):
            self._note(trace, key, value)
        yes = e.cast(condition, I64)
        for way, count in zip(BRANCHES, (yes, e.op("sub", self._number(1), yes)), strict=True):
            trace.counts[number, way] = count

    def _loop(self, op: Op, trace: _Trace) -> None:
        e, loop, number = self.e, Loop(op), self.numbers[id(op)]
        inner = self._sides(op)
        extra = {"trips": STEP, **inner} if loop.conditional else dict(inner)
        lead = [self.values[v] for v in op.operands[:2]] if loop.conditional else []
        inits = [*(self.values[v] for v in loop.inits), *map(self._zero, extra.values())]
        with e.region([STEP, *(v.type for v in inits)]) as region:
            own = list(region.own)
            self.values.update(zip(loop.body.args[: 1 + loop.carried], own))
            for argument, outer in zip(loop.captured_args, loop.captures, strict=True):
                self.values[argument] = self.values[outer]
            results, found = self._block(loop.body)
            first = int(loop.conditional)
            carried, rows = results[: first + loop.carried], results[first + loop.carried :]
            mine = {**found.counts, **found.states}
            for (key, _), before in zip(extra.items(), own[1 + loop.carried :], strict=True):
                step = self._number(1) if key == "trips" else mine[key]
                summed = key == "trips" or key in found.counts
                carried.append(e.op("add", before, step) if summed else step)
            e.close([*carried, *rows])
        types = [*(v.type for v in inits), *(v.type for v in loop.stacks)]
        attrs = {} if loop.conditional else {"trips": loop.trips}
        made = e.loop(op.name, lead, inits, region, types, **attrs)
        at = loop.carried + len(extra)
        self.values.update(zip(op.results, [*made[: loop.carried], *made[at:]], strict=True))
        extras = dict(zip(extra, made[loop.carried : at], strict=True))
        trips = extras.pop("trips") if loop.conditional else e.dims([loop.trips], scalar=True)
        for key, value in extras.items():
            self._note(trace, key, value)
        for way, relation, border in zip(TRIPS, ("eq", "eq", "gt"), (0, 1, 1), strict=True):
            if self._possible(loop, way):
                truth = e.op(relation, trips, self._number(border))
                trace.counts[number, way] = e.cast(truth, I64)
        for place in self._kept(loop):
            trace.states[number, place] = made[place]

    def _sides(self, op: Op) -> dict[Any, TensorType]:
        """What the regions of an op count and keep, known before they are copied."""
        found: dict[Any, TensorType] = {}
        states: dict[Any, TensorType] = {}
        for region in op.regions:
            for inner in (x for x in walk(region) if is_control(x)):
                number = self.numbers[id(inner)]
                loop = None if inner.name == IF else Loop(inner)
                ways = BRANCHES if loop is None else TRIPS
                for way in ways:
                    if loop is None or self._possible(loop, way):
                        found[number, way] = STEP
                for place in self._kept(loop) if loop is not None else ():
                    states[number, place] = loop.results[place].type if loop else STEP
        return {**found, **states}

    def _kept(self, loop: Loop) -> list[int]:
        """The carried values whose sizes are known outside, and that have numbers to compare."""
        return [
            i for i, v in enumerate(loop.results)
            if not v.type.symbols() & self.late and not v.type.dtype.is_narrow
        ]  # fmt: skip

    def _possible(self, loop: Loop, way: str) -> bool:
        if loop.op.name == WHILE:
            return True
        assert loop.op.name == FOR
        low, high = self.facts.bounds(loop.trips)
        least, most = {TRIPS[0]: (0, 0), TRIPS[1]: (1, 1), TRIPS[2]: (2, None)}[way]
        return (high is None or high >= least) and (most is None or low <= most)

    def _note(self, trace: _Trace, key: Any, value: Value) -> None:
        kind: dict[Any, Value] = trace.counts if isinstance(key[1], str) else trace.states
        kind[key] = value

    def _number(self, number: int) -> Value:
        return self.e.scalar(number, I64)

    def _zero(self, type: TensorType) -> Value:
        return self.e.broadcast(self.e.scalar(0, type.dtype), type.shape)
