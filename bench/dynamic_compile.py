"""What of a compilation goes to expressions, constraints and the solver."""

from __future__ import annotations

import functools
import gc
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import cuvil
from bench.bars import Bar
from bench.dynamic_models import Case

SHARE_LIMIT = 10.0  # %
FOLDERS = (str(Path(cuvil.__file__).parent / "sym"), "/z3/")
_INTERVAL = 0.001


class Sampler:
    """Looks at what runs each millisecond of processor time, and gives what passed since the look
    before to ``inside`` if it is in one of the folders."""

    def __init__(self) -> None:
        self.inside = 0.0
        self.last = time.thread_time()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        passed, self.last = now - self.last, now
        while frame is not None:
            if any(folder in frame.f_code.co_filename for folder in FOLDERS):
                self.inside += passed
                return
            frame = frame.f_back


def share_of(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of processor time inside the folders, and of all, with that of compilers."""
    gc.collect()
    gc.freeze()  # what was there before is not this work's to look through
    before, sampler = _spent(), Sampler()
    old = signal.signal(signal.SIGPROF, sampler)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        gc.unfreeze()
    return sampler.inside, _spent() - before


def _spent() -> float:
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def compile_bars(name: str, case: Case, rounds: int = 3) -> Iterator[Bar]:
    """Compilations with nothing in the cache, and with all objects in it."""
    model = case.model()
    how: dict[str, Any] = {"cache": False, "verify": False}
    if not case.onnx:
        how |= {"example_inputs": dict(case.inputs(case.fixed[0])), "dynamic_dims": case.dynamic}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, CUVIL_CACHE_DIR=folder),
    ):
        for kind, count in (("cold", 1), ("warm", rounds)):
            inside, spent = share_of(functools.partial(_compile, model, how, count))
            yield Bar(
                f"{name}: constraints in a {kind} compilation of {spent / count:.2f} s",
                100 * inside / spent, SHARE_LIMIT, "%",
            )  # fmt: skip


def _compile(model: Any, how: dict[str, Any], count: int) -> None:
    for _ in range(count):
        cuvil.compile(model, **how)
