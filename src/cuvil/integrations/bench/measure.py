"""Times calls against each other, fairly: in turns, warmed up, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_TURN = 0.02  # seconds a turn lasts at least, so that caches belong to whose turn it is
_REST = 0.002  # seconds between turns, for another runtime's spinning threads to go to sleep
_WARM_CALLS, _WARM_SECONDS = 3, 0.2


@dataclass(frozen=True)
class Times:
    """Seconds a call over ``calls`` calls."""

    min: float
    median: float
    p90: float
    calls: int

    @staticmethod
    def of(samples: list[float]) -> Times:
        """Raises ValueError for no samples."""
        array = np.array(samples)
        low, middle, high = array.min(), np.median(array), np.percentile(array, 90)
        return Times(float(low), float(middle), float(high), len(samples))


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Times]:
    """Time every call for about ``seconds`` in all, turn by turn.

    A turn's first call pays for the caches that the others used, and is not counted where a turn
    has several.
    """
    turns = {name: _calls_a_turn(call, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    used = dict.fromkeys(calls, 0.0)
    while calls and min(used.values()) < seconds:
        for name, call in calls.items():
            if used[name] >= seconds:
                continue
            sleep(_REST)
            found = [_time(call, clock) for _ in range(turns[name])]
            used[name] += sum(found)
            samples[name] += found[1:] if len(found) > 1 else found
    return {name: Times.of(found) for name, found in samples.items()}


def _time(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def _calls_a_turn(call: Callable[[], Any], clock: Callable[[], float]) -> int:
    """Warm up; how many calls fill a turn."""
    best, total, count = float("inf"), 0.0, 0
    while count < _WARM_CALLS or total < min(_WARM_SECONDS, 50 * best):
        taken = max(_time(call, clock), 1e-9)
        best, total, count = min(best, taken), total + taken, count + 1
    return max(1, int(np.ceil(_TURN / best))) + (1 if best < _TURN else 0)
