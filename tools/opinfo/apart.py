"""Judges an operator in a forked child, so that what goes wrong there ends with it.

An operator stopped in the middle of tracing leaves torch's tables of decompositions half changed,
and a fault of native code takes its process along; neither may touch the next operator's verdict.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from tools.opinfo.run import Verdict, judge_operator

_GRACE = 1.5  # times an operator's seconds: then a child that doesn't stop by itself is killed


def judge_apart(info: Any, name: str, *, seconds: float = 60, **options: Any) -> Verdict:
    """``judge_operator`` with these options, in a child. One that is killed after its time gives
    slow, one that ends without a verdict fault."""
    judge = partial(judge_operator, info, name, seconds=seconds, **options)
    return verdict_of_child(judge, seconds)


def verdict_of_child(judge: Callable[[], Verdict], seconds: float) -> Verdict:
    """What ``judge`` returns in a forked child, which lives for ``seconds`` and half as much."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=_send, args=(judge, there), daemon=True)
    child.start()
    there.close()
    try:
        if here.poll(_GRACE * seconds):
            verdict: Verdict = here.recv()
        else:
            verdict = _ended("slow", f"killed after {_GRACE * seconds:g} s", _GRACE * seconds)
    except EOFError:
        child.join()
        verdict = _ended("fault", f"its process ended with {child.exitcode}")
    finally:
        child.kill()
        child.join()
        here.close()
    return verdict


def _send(judge: Callable[[], Verdict], there: Connection) -> None:
    there.send(judge())


def _ended(status: str, reason: str, seconds: float = 0.0) -> Verdict:
    return Verdict(status, {status: 1}, {status: [reason]}, seconds)
