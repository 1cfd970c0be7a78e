"""Measures at a compilation which versions of kernels gain something, range by range."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.errors import InputError
from cuvil.ir.signature import Signature
from cuvil.passes.knobs import choice_fault
from cuvil.passes.variants import Variant, When, read_variant
from cuvil.tune.retuner import GAIN, Bench, KernelCall, RetunePlan, Table, way_text
from cuvil.tune.tuner import FEWEST_RUNS, decide
from cuvil.verify.inputs import sizes_inside

Array = np.ndarray[Any, Any]
SECONDS = 10.0
"""For all kernels in all ranges, where no other number was asked for."""
_EACH = 0.1  # seconds for a kernel in a range
_MOST_ROUNDS = 2000
_USUAL = 64
_TABLE_HINT = "give the `variants` of an artifact whose versions were chosen by measuring"


@dataclass(frozen=True)
class Measured:
    """A kernel in a range: the version that is worth having (None: that for all sizes is as good),
    and the least seconds of each way at ``sizes``."""

    kernel: str
    key: str
    when: When
    version: Variant | None
    sizes: Mapping[str, int]
    seconds: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        chosen = None if self.version is None else self.version.as_dict()
        when = {name: list(span) for name, span in self.when.items()}
        return {"kernel": self.kernel, "key": self.key, "when": when, "chosen": chosen,
                "sizes": dict(self.sizes), "seconds": dict(self.seconds)}  # fmt: skip

    @staticmethod
    def read(tree: Any) -> Measured:
        """What :meth:`as_dict` wrote. Raises InputError for anything else."""
        try:
            when = read_variant({"when": tree["when"]}).when
            version = None if tree["chosen"] is None else read_variant(tree["chosen"])
            sizes = {str(name): int(size) for name, size in tree["sizes"].items()}
            seconds = {str(way): float(taken) for way, taken in tree["seconds"].items()}
            found = Measured(str(tree["kernel"]), str(tree["key"]), when, version, sizes, seconds)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(
                f"a table of variants has the entry {tree!r}, which can't be read", hint=_TABLE_HINT
            ) from None
        fault = "" if version is None else choice_fault(version.choice or {})
        if fault:
            raise InputError(f"the table of variants, at {found.kernel}: {fault}", hint=_TABLE_HINT)
        return found


def chosen_versions(found: Sequence[Measured]) -> dict[str, tuple[Variant, ...]]:
    """The versions that are worth having, by kernel key."""
    chosen: dict[str, tuple[Variant, ...]] = {}
    for entry in found:
        key = entry.key.partition(".")[0]
        if entry.version is not None:
            chosen[key] = (*chosen.get(key, ()), entry.version)
    return chosen


def typical_sizes(
    plan: RetunePlan, signature: Signature, known: Mapping[str, int]
) -> list[dict[str, int] | None]:
    """Sizes that stand for each range: about the middle of its ends, or twice its beginning; other
    symbols as ``known``. None for a range that no sizes are in."""
    found = []
    for number, when in enumerate(plan.ranges):
        earlier = [Variant(other) for other in plan.ranges[:number]]
        near = {symbol.name: known.get(symbol.name, _USUAL) for symbol in signature.early}
        near |= {name: _middle(*span) for name, span in when.items()}

        def alone(sizes: Mapping[str, int], earlier: Sequence[Variant] = earlier) -> bool:
            return not any(other.holds(sizes) for other in earlier)

        found.append(sizes_inside(signature, when, alone, near))
    return found


def _middle(low: int, high: int | None) -> int:
    return 2 * max(low, 1) if high is None else round(math.sqrt(max(low, 1) * max(high - 1, 1)))


def measure_versions(
    plan: RetunePlan,
    table: Table,
    sizes: Sequence[Mapping[str, int] | None],
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Measured]:
    """Measure every kernel in every range by all ways that it has there, for about so many seconds
    in all; what did not fit keeps the version for all sizes."""
    end = clock() + seconds
    found: dict[tuple[str, str], Measured] = {}
    distinct = {call.key: number for number, call in reversed(list(enumerate(plan.calls)))}
    for when, at in zip(plan.ranges, sizes, strict=True):
        bench = None if at is None else table.bench(at)
        if at is None or bench is None:
            continue
        for number in sorted(distinct.values()):
            call = plan.calls[number]
            own = {name: span for name, span in when.items() if name in call.symbols}
            place = (call.key, repr(sorted(own.items())))
            left = min(_EACH, end - clock())
            if own and left > 0 and place not in found:
                made = _measured(call, number, own, at, bench, table.threads, left)
                if made is not None:
                    found[place] = made
    return list(found.values())


def _measured(
    call: KernelCall, number: int, when: When, sizes: Mapping[str, int], bench: Bench,
    threads: int, seconds: float,
) -> Measured | None:  # fmt: skip
    ways = call.allowed(when, threads)
    if len(ways) < 2:
        return None
    times: Array = bench.measure(number, ways, seconds, _MOST_ROUNDS)
    if len(times) < FEWEST_RUNS:
        return None
    best = call.ways[ways[decide(times, GAIN)]]
    least = {
        way_text(call.ways[way]): round(float(s), 9)
        for way, s in zip(ways, times.min(axis=0), strict=True)
    }
    version = None
    if best.when or best.choice:
        version = Variant(best.when or when, best.choice or None)
    return Measured(call.kernel, call.key, when, version, dict(sizes), least)
