"""What this machine can do at most: multiplications a second, bytes a second from each cache.

Measured by loops that a library built to be profiled brings along, and kept in the cache folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.runtime.cpu import cpu_name

# Many short repeats: another process takes the core away from some, and not from all.
_REPEATS = 150
_SECONDS = 0.001
_LARGEST = 512 << 20
_WINDOW = 4 << 20  # of the largest buffer, read in one repeat
_BLOCK = 1024
_LEVELS = ("L2", "L3", "DRAM")


@dataclass(frozen=True)
class Ceilings:
    """For ``threads`` threads together: ``flops`` f32 operations a second (multiplies and adds),
    ``pair_flops`` those with bf16 that are added up in f32; by level ("L2", "L3", "DRAM") bytes
    a second in ``read``, bytes of one core's or a shared cache in ``sizes``, which "DRAM" hasn't.
    """

    threads: int
    flops: float
    pair_flops: float
    read: Mapping[str, float]
    sizes: Mapping[str, int]

    def level(self, size: float, shared: bool = False) -> str:
        """Where data of this size lies after it was used; each core has its own L2, of which
        threads that share the data (``shared``) hold a copy each."""
        cores = 1 if shared else self.threads
        if size <= self.sizes["L2"] * cores:
            return "L2"
        return "L3" if size <= self.sizes["L3"] else "DRAM"

    def peak(self, dtype: str) -> float | None:
        """Operations a second in a dtype: half for f64, f32's for f16, which is computed in it,
        None where nothing was measured."""
        rates = {
            "f64": self.flops / 2, "f32": self.flops, "f16": self.flops, "bf16": self.pair_flops
        }
        return rates.get(dtype)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "read": dict(self.read), "sizes": dict(self.sizes)}


def ceilings_of(
    functions: Any, key: str, caches: tuple[int, int], threads: int, cache_dir: Path
) -> Ceilings:
    """The ceilings for code built with ``key`` (the compiler's name of the CPU): those measured
    before, else measured now. ``caches`` are the bytes of L2 and L3."""
    path = cache_dir / "ceilings.json"
    name = f"{cpu_name()} / {key} / {caches} / {threads} threads"
    known = _read(path)
    if name not in known:
        known[name] = measure(functions, caches, threads).as_dict()
        _write(path, known)
    found = known[name]
    read = {level: float(found["read"][level]) for level in _LEVELS}
    sizes = {level: int(found["sizes"][level]) for level in _LEVELS[:-1]}
    return Ceilings(threads, float(found["flops"]), float(found["pair_flops"]), read, sizes)


def measure(functions: Any, caches: tuple[int, int], threads: int) -> Ceilings:
    """Measure with a library's own loops; about half a second."""
    l2 = caches[0] or 512 << 10
    l3 = max(caches[1], 4 * l2)
    sizes = {"L2": l2, "L3": l3}
    flops = _rate(threads, [_multiplier(functions.cuvil_profile_multiply)] * threads)
    pairs = _rate(threads, [_multiplier(functions.cuvil_profile_multiply_pairs)] * threads)
    asked = {"L2": l2 // 2, "L3": min(l3 // 2, 8 * l2), "DRAM": min(max(3 * l3, 1 << 27), _LARGEST)}
    read = {}
    for level, size in asked.items():
        each = size if level == "L2" else size // threads
        far = level == "DRAM"  # one round each: a second one would find it in a cache
        loops = [_reader(functions, each, _WINDOW if far else each) for _ in range(threads)]
        read[level] = _rate(threads, loops, 1 if far else None)
    return Ceilings(threads, flops, max(flops, pairs), read, sizes)


def _multiplier(multiply: Callable[[int], Any]) -> Callable[[int], int]:
    return lambda rounds: int(multiply(rounds))


def _reader(functions: Any, size: int, window: int) -> Callable[[int], int]:
    """Reads the next ``window`` bytes of ``size`` that many times over."""
    window = min(window, size) // _BLOCK * _BLOCK
    data = np.ones(size // 4, np.int32)  # written, so that its pages are there
    last = (size - window) // _BLOCK * _BLOCK
    at = 0

    def read(rounds: int) -> int:
        nonlocal at
        address = ctypes.c_void_p(data.ctypes.data + at)
        functions.cuvil_profile_read(address, window, rounds)
        at = 0 if at + window > last else at + window
        return window * rounds

    return read


def _rate(threads: int, loops: list[Callable[[int], int]], rounds: int | None = None) -> float:
    """The most work a second that all loops did together, of many repeats."""
    rounds = rounds or _enough_rounds(loops[0])
    if threads == 1:
        return max(_timed(loops[0], rounds) for _ in range(_REPEATS))
    return max(_together(loops, rounds) for _ in range(_REPEATS))


def _enough_rounds(loop: Callable[[int], int]) -> int:
    rounds = 1
    while True:
        start = time.perf_counter()
        loop(rounds)
        taken = time.perf_counter() - start
        if taken >= _SECONDS:
            return rounds
        rounds = max(2 * rounds, int(rounds * _SECONDS / max(taken, 1e-6)))


def _together(loops: list[Callable[[int], int]], rounds: int) -> float:
    gate = threading.Barrier(len(loops))
    rates: list[float] = []

    def one(loop: Callable[[int], int]) -> None:
        gate.wait()
        rates.append(_timed(loop, rounds))

    workers = [threading.Thread(target=one, args=(loop,)) for loop in loops]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)


def _timed(loop: Callable[[int], int], rounds: int) -> float:
    start = time.perf_counter()
    work = loop(rounds)
    return work / (time.perf_counter() - start)


def _read(path: Path) -> dict[str, Any]:
    """What was measured before; nothing where the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: entry
            for name, entry in found.items()
            if float(entry["flops"]) > 0
            and float(entry["pair_flops"]) > 0
            and all(float(entry["read"][level]) > 0 for level in _LEVELS)
            and all(int(entry["sizes"][level]) > 0 for level in _LEVELS[:-1])
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(path: Path, known: Mapping[str, Any]) -> None:
    """Keep it where that is possible."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        made.replace(path)
