"""Measures ways to run a model's kernels, the largest first, until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.passes.knobs import choice_text
from cuvil.target.base import Target
from cuvil.tune.kernels import Tunable, bench_module, calls_of, tunable_kernels
from cuvil.tune.store import Place, WinnerStore
from cuvil.tune.table import Found, TuningTable

Array = np.ndarray[Any, Any]
# Builds a module of bench_module; the result runs it for about so many seconds and gives the
# seconds of each call, [runs, calls].
Measure = Callable[[Module], Callable[[float], Array]]
Step = Callable[[str], AbstractContextManager[None]]

GAIN = 0.03
"""A way that is not faster by more than this share is not taken."""
FEWEST_RUNS = 5
_MOST_WAYS = 64
_MOST_BYTES = 256 << 20  # of operands and results; transformed weights come on top
_SECONDS_A_WAY = 0.15  # to build one, before it is known


def decide(times: Array, gain: float = GAIN) -> int:
    """The column of the fastest way; 0, the way as computed, unless another is faster by more than
    the share ``gain``, by its least time and in most runs beside it.

    ``times`` are seconds, [runs, ways], of a way that a run has twice the lesser; the ways of a
    run were measured in turns.
    """
    least = times.min(axis=0)
    usual = np.median(times / np.maximum(times[:, :1], 1e-12), axis=0)
    allowed = (least < (1 - gain) * least[0]) & (usual < 1 - gain)
    allowed[0] = True
    return int(np.argmin(np.where(allowed, least, np.inf)))


class Tuner:
    """Tunes modules at one ``place``. ``clock`` gives seconds; ``step`` is told what is measured.

    Winners in ``store`` are taken without measuring (None: there is no store).
    """

    def __init__(
        self,
        target: Target,
        place: Place,
        measure: Measure,
        store: WinnerStore | None = None,
        clock: Callable[[], float] = time.perf_counter,
        step: Step = lambda text: nullcontext(),
    ) -> None:
        self.target = target
        self.place = place
        self.measure = measure
        self.store = store
        self.clock = clock
        self.step = step
        self._seconds_a_way = _SECONDS_A_WAY

    def run(self, module: Module, sizes: Mapping[str, int], seconds: float) -> TuningTable:
        """What is best for the kernels of a module at stage "fused", its symbols at ``sizes``.

        Building and measuring take about ``seconds``; what did not fit is left as computed, and
        is not in the table.
        """
        end = self.clock() + seconds
        kernels = tunable_kernels(module, sizes, self.target, self.place.threads > 1)
        known = {k.key: self._known(k) for k in kernels}
        found = {key: entry for key, entry in known.items() if entry is not None}
        left = [k for k in kernels if k.key not in found]
        while left and (remaining := end - self.clock()) > 0:
            batch = self._batch(left, remaining)
            left = left[len(batch) :]
            for entry in self._measured(batch, end, bool(left)):
                found[entry.kernel] = entry
                if self.store is not None:
                    self.store.put(entry, self.place)
        place = self.place
        ordered = tuple(found[k.key] for k in kernels if k.key in found)
        return TuningTable(place.cpu, place.target, place.threads, ordered)

    def _known(self, kernel: Tunable) -> Found | None:
        found = self.store.get(kernel.key, kernel.sizes, self.place) if self.store else None
        if found is None or found.choice not in kernel.ways:
            return None
        return replace(found, name=kernel.name, where=kernel.where, count=kernel.count)

    def _batch(self, kernels: Sequence[Tunable], remaining: float) -> list[Tunable]:
        """The next kernels, as many as half of the time that is left builds."""
        room = min(_MOST_WAYS, int(remaining / 2 / self._seconds_a_way))
        size, batch = 0, list[Tunable]()
        for kernel in kernels:
            room -= len(kernel.ways)
            size += kernel.bytes
            if batch and (room < 0 or size > _MOST_BYTES):
                break
            batch.append(kernel)
        return batch

    def _measured(self, batch: list[Tunable], end: float, more: bool) -> Iterator[Found]:
        ways = sum(len(kernel.ways) for kernel in batch)
        others = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
        with self.step(f"tune {batch[0].name}{others}, {ways} ways"):
            start = self.clock()
            run = self.measure(bench_module(batch))
            built = self.clock()
            self._seconds_a_way = max((built - start) / ways, 1e-3)
            remaining = max(0.0, end - built)
            # As long as it took to build where others wait, else all that is left.
            times = run(min(remaining, built - start) if more else remaining)
        calls = calls_of(batch)
        for number, kernel in enumerate(batch):
            ways = range(len(kernel.ways))
            columns = [[i for i, call in enumerate(calls) if call == (number, w)] for w in ways]
            yield _found(kernel, np.stack([times[:, c].min(axis=1) for c in columns], axis=1))


def _found(kernel: Tunable, times: Array) -> Found:
    best = decide(times) if len(times) >= FEWEST_RUNS else 0
    least = times.min(axis=0)
    seconds = {
        choice_text(way): round(float(t), 9) for way, t in zip(kernel.ways, least, strict=True)
    }
    return Found(
        kernel.key, kernel.ways[best], seconds, kernel.sizes, kernel.name, kernel.where,
        kernel.count,
    )  # fmt: skip
