"""Times calls against each other, fairly: in turns, warmed up, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

_TURN = 0.02  # seconds a turn lasts at least, so that caches belong to whose turn it is
_REST = 0.01  # seconds; systems count the time of threads that run in steps of up to 4 ms
_MOST_RESTS = 20
_ASLEEP = 0.1  # of a core, at most, where a process's threads sleep
_WARM_CALLS, _WARM_SECONDS = 3, 0.2
_ENOUGH = 2.0  # seconds after which the slow are warm

Clock = Callable[[], float]
Turn = Callable[[int], list[float]]  # makes so many calls; the seconds each took


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


def timed(call: Callable[[], Any], clock: Clock = time.perf_counter) -> Turn:
    """A turn that calls something in this process."""
    return lambda count: [_time(call, clock) for _ in range(count)]


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    seconds: float,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Times]:
    """Time every call for about ``seconds`` in all, turn by turn; see :func:`in_turns`."""
    turns = {name: timed(call, clock) for name, call in calls.items()}
    return in_turns(turns, seconds, _raise, sleep)


def settle(
    sleep: Callable[[float], None] = time.sleep, used: Clock = time.process_time
) -> None:
    """Wait until this process's threads sleep. Those of some runtimes spin for 40 ms after a call,
    on a core that whoever is next has counted on."""
    for _ in range(_MOST_RESTS):
        before = used()
        sleep(_REST)
        if used() - before < _ASLEEP * _REST:
            return


def in_turns(
    turns: Mapping[str, Turn],
    seconds: float,
    lost: Callable[[str, Exception], None],
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Times]:
    """Give each its turns until it has had about ``seconds`` in all, each when the others' threads
    sleep.

    A turn's first call pays for the caches that the others used, and is not counted where a turn
    has several. Whoever raises is out: ``lost`` is told its name and the error.
    """
    counts: dict[str, int] = {}
    samples: dict[str, list[float]] = {}
    used: dict[str, float] = {}
    for name, turn in turns.items():
        with _out(name, lost):
            counts[name] = _calls_a_turn(turn)
            samples[name], used[name] = [], 0.0
    while waiting := [name for name in samples if used[name] < seconds]:
        for name in waiting:
            settle(sleep)
            with _out(name, lost, samples):
                found = turns[name](counts[name])
                used[name] += sum(found)
                samples[name] += found[1:] if len(found) > 1 else found
    return {name: Times.of(found) for name, found in samples.items()}


@contextmanager
def _out(
    name: str, lost: Callable[[str, Exception], None], samples: dict[str, list[float]] | None = None
) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if samples is not None:
            del samples[name]
        lost(name, error)


def _raise(name: str, error: Exception) -> None:
    raise error


def _time(call: Callable[[], Any], clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


def _calls_a_turn(turn: Turn) -> int:
    """Warm up; how many calls fill a turn."""
    best, total, count = float("inf"), 0.0, 0
    while total < _ENOUGH and (count < _WARM_CALLS or total < min(_WARM_SECONDS, 50 * best)):
        taken = max(turn(1)[0], 1e-9)
        best, total, count = min(best, taken), total + taken, count + 1
    return max(1, int(np.ceil(_TURN / best))) + (1 if best < _TURN else 0)
