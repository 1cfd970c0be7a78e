"""Decides, while a process runs, which way of a kernel is best in each range of sizes.

A range's calls are looked at in windows. The first gives the range's baseline; once the slow calls
(95th of a hundred) of a later one take WORSE times as long, the range's kernels are measured, each
by all its ways for a few milliseconds, and the fastest run from then on. Nothing is built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cuvil.errors import ArtifactError, CuvilError
from cuvil.passes.knobs import Choice, choice_fault, choice_text
from cuvil.passes.variants import Variant, When, read_variant, when_text
from cuvil.runtime.ways import Taken
from cuvil.sym.expr import Dim, evaluate
from cuvil.sym.parse import parse_dim
from cuvil.tune.store import Place, WinnerStore
from cuvil.tune.table import Found
from cuvil.tune.tuner import FEWEST_RUNS, decide

Array = np.ndarray[Any, Any]
WINDOW = 64
WORSE = 1.5
GAIN = 0.05
"""A way that is not faster by more than this share is not taken."""
SECONDS = 0.005
"""For each kernel that is measured."""
_SLOW = 0.95
_MOST_ROUNDS = 400
_MOST_CHANGES = 256


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel in the entry. ``key`` is the same for equal kernels with equal ways: the
    kernel's own key (passes/tuning.py), a dot, and a digest of the ways; ``ways[0]`` is the kernel
    for all sizes. ``symbols`` are those that it is written over."""

    kernel: str
    key: str
    ways: tuple[Variant, ...]
    symbols: tuple[str, ...]

    def allowed(self, when: When, threads: int) -> list[int]:
        """The ways that may run in a range and differ with so many threads."""
        return [
            number for number, way in enumerate(self.ways)
            if way.when.items() <= when.items()
            and not (threads == 1 and (way.choice or {}).get("serial"))
        ]  # fmt: skip


@dataclass(frozen=True)
class RetunePlan:
    """What a package says of its table: the ranges in the order in which they are asked, the last
    of which is everything, the calls, and an estimate of a whole call over the symbols."""

    ranges: tuple[When, ...]
    calls: tuple[KernelCall, ...]
    cost: Dim
    seconds: float = SECONDS

    @staticmethod
    def read(tree: object) -> RetunePlan:
        """From plain data. Raises ArtifactError where it can't be read."""
        try:
            assert isinstance(tree, Mapping)
            ranges = tuple(read_variant({"when": when}).when for when in tree["ranges"])
            calls = tuple(
                KernelCall(
                    str(c["kernel"]), str(c["key"]), tuple(map(_way, c["ways"])),
                    tuple(map(str, c["symbols"])),
                )
                for c in tree["calls"]
            )  # fmt: skip
            return RetunePlan(ranges, calls, _dim(tree["cost"]), float(tree["seconds"]))
        except (AssertionError, AttributeError, CuvilError, KeyError, TypeError, ValueError) as e:
            raise ArtifactError(f"the package's table of ways can't be read: {e!r}") from None


def _way(tree: Mapping[str, Any]) -> Variant:
    way = read_variant(tree)
    fault = choice_fault(way.choice or {})
    if fault:
        raise ValueError(fault)
    return way


def _dim(text: object) -> Dim:
    if not isinstance(text, (str, int)):
        raise TypeError(f"{text!r} is no size")
    return parse_dim(text)


class Bench(Protocol):
    """Runs kernels alone (cuvil.runtime.ways.Bench)."""

    def measure(self, call: int, ways: Sequence[int], seconds: float, rounds: int) -> Array: ...


class Table(Protocol):
    """What is recorded and chosen (cuvil.runtime.ways.Ways)."""

    threads: int

    def taken(self, span: int, /) -> int: ...
    def latest(self, span: int, count: int, /) -> list[Taken]: ...
    def way(self, span: int, call: int, /) -> int: ...
    def choose(self, span: int, call: int, way: int, /) -> None: ...
    def bench(self, sizes: Mapping[str, int], /) -> Bench | None: ...


@dataclass(frozen=True)
class Change:
    """A kernel that runs by another way in a range since it was measured at ``sizes``; ``seconds``
    are the least of each way."""

    kernel: str
    when: When
    before: str
    after: str
    sizes: Mapping[str, int]
    seconds: Mapping[str, float]


@dataclass
class _Range:
    """``seen`` calls were looked at; ``baseline`` is the first window's slow call, in seconds for a
    unit of estimated cost."""

    seen: int = 0
    baseline: float | None = None


@dataclass
class Retuner:
    """Looks at one artifact's calls. ``store`` keeps what was chosen at ``place`` (None: nothing
    is kept)."""

    plan: RetunePlan
    table: Table
    place: Place
    store: WinnerStore | None = None
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ranges = [_Range() for _ in self.plan.ranges]
        self._costs: dict[tuple[int, ...], float] = {}

    def restore(self) -> int:
        """Take what an earlier process chose; how many calls of kernels that changed."""
        changed = 0
        for span, when in enumerate(self.plan.ranges):
            for number, call in enumerate(self.plan.calls):
                found = self.store.get(call.key, _ends(when), self.place) if self.store else None
                if found is None:
                    continue
                for way in call.allowed(when, self.table.threads):
                    if way_text(call.ways[way]) == found.name:
                        changed += self.table.way(span, number) != way
                        self.table.choose(span, number, way)
        return changed

    def step(self) -> list[Change]:
        """Look at all ranges once, and measure the kernels of those that have become slow."""
        found: list[Change] = []
        for span, state in enumerate(self._ranges):
            taken = self.table.taken(span)
            if taken - state.seen < WINDOW:
                continue
            calls = self.table.latest(span, WINDOW)
            slow = self._slow(calls)
            state.seen = taken
            if state.baseline is None:
                state.baseline = slow
            elif slow > WORSE * state.baseline:
                found += self.tune(span, _usual(calls))
                state.seen, state.baseline = self.table.taken(span), None
        return found

    def tune(self, span: int, sizes: Mapping[str, int]) -> list[Change]:
        """Measure the kernels of a range at these sizes; equal ones once."""
        bench = self.table.bench(sizes)
        found: list[Change] = []
        if bench is None:
            return found
        groups: dict[str, list[int]] = {}
        for number, call in enumerate(self.plan.calls):
            groups.setdefault(call.key, []).append(number)
        for numbers in groups.values():
            found += self._tuned(span, numbers, sizes, bench)
        self.changes = [*self.changes, *found][-_MOST_CHANGES:]
        return found

    def _tuned(
        self, span: int, numbers: Sequence[int], sizes: Mapping[str, int], bench: Bench
    ) -> list[Change]:
        call, when = self.plan.calls[numbers[0]], self.plan.ranges[span]
        now = self.table.way(span, numbers[0])
        ways = [now, *(w for w in call.allowed(when, self.table.threads) if w != now)]
        if len(ways) < 2:
            return []
        times = bench.measure(numbers[0], ways, self.plan.seconds, _MOST_ROUNDS)
        if len(times) < FEWEST_RUNS:
            return []
        best = ways[decide(times, GAIN)]
        texts = [way_text(call.ways[way]) for way in ways]
        least = {t: round(float(s), 9) for t, s in zip(texts, times.min(axis=0), strict=True)}
        name = way_text(call.ways[best])
        if self.store is not None:
            choice: Choice = call.ways[best].choice or {}
            kept = Found(call.key, choice, least, _ends(when), name, call.kernel, len(numbers))
            self.store.put(kept, self.place)
        if best == now:
            return []
        for number in numbers:
            self.table.choose(span, number, best)
        return [Change(call.kernel, when, texts[0], name, dict(sizes), least)]

    def _slow(self, calls: Iterable[Taken]) -> float:
        units = sorted(c.seconds / self._cost(c.sizes) for c in calls)
        return units[min(len(units) - 1, int(_SLOW * len(units)))]

    def _cost(self, sizes: Mapping[str, int]) -> float:
        """The estimate at these sizes, so that calls of different ones can be compared."""
        key = tuple(sizes.values())
        if key not in self._costs:
            if len(self._costs) >= 1 << 12:
                self._costs.clear()
            try:
                self._costs[key] = float(max(1, evaluate(self.plan.cost, sizes)))
            except (CuvilError, ArithmeticError, KeyError):
                self._costs[key] = 1.0
        return self._costs[key]


def way_text(way: Variant) -> str:
    """``default``, ``row_limit=7``, or ``default where batch = 1``"""
    where = when_text(way.when)
    return choice_text(way.choice or {}) + (f" where {where}" if where else "")


def _usual(calls: Sequence[Taken]) -> dict[str, int]:
    """The sizes that most calls had, of several equally frequent ones those of the first."""
    counted = Counter(tuple(call.sizes.items()) for call in calls)
    return dict(counted.most_common(1)[0][0])


def _ends(when: When) -> dict[str, int]:
    """A range as numbers by name, for the store."""
    found = {f"{name} from": low for name, (low, _) in when.items()}
    return found | {f"{n} below": high for n, (_, high) in when.items() if high is not None}
