"""Runs the calls of one operator through Cuvil, many in one program, and says how each ended."""

from __future__ import annotations

import collections
import math
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import cuvil
from cuvil.errors import CuvilError, UnsupportedOpError, VerificationError
from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.weights import to_numpy
from cuvil.reference.interpreter import run_module
from tools.opinfo.judge import difference
from tools.opinfo.samples import Sample, outside, samples, why_skipped

Array = np.ndarray[Any, Any]
TOGETHER = 24  # calls in one program


class OutOfTime(BaseException):
    """The operator's time is over; no handler of ordinary errors may catch it."""


@dataclass
class Verdict:
    """How an operator's calls ended. ``status``: right (all of them), refused (the rest right),
    wrong, fault (an error that isn't a refusal), slow, or skipped (nothing to compare)."""

    status: str = "skipped"
    counts: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, kind: str, reason: str = "") -> None:
        """Count one call."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self.reasons.setdefault(kind, [])
        if reason and reason not in kept and len(kept) < 12:
            kept.append(reason)

    def settle(self) -> None:
        """The status from what was counted."""
        order = ("fault", "wrong", "slow", "refused", "right", "skipped")
        self.status = next((k for k in order if self.counts.get(k)), "skipped")
        self.reasons = {k: v for k, v in self.reasons.items() if v}


class _Calls(torch.nn.Module):
    """Several calls as one program. The first input is there for calls that have none."""

    def __init__(self, calls: Sequence[Sample]) -> None:
        super().__init__()
        self.calls = list(calls)

    def forward(self, anchor: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        rest = iter(tensors)
        for call in self.calls:
            outputs += call.run([next(rest) for _ in call.tensors])
        return tuple(outputs)


@dataclass(frozen=True)
class _Way:
    native: bool
    patience: int | None


@dataclass
class _Tried:
    sample: Sample
    expected: list[torch.Tensor]


def judge_operator(
    info: Any, name: str, *, native: bool = False, seconds: float = 60, most: int | None = None,
    patience: int | None = None, form: str = "function", more: bool = False,
) -> Verdict:  # fmt: skip
    """Run all calls of an operator; what is not done after ``seconds`` counts as slow, and what
    stands in a program with refused calls isn't tried alone after ``patience`` refusals."""
    verdict, start = Verdict(), time.perf_counter()
    reason = outside(name)
    if reason:
        verdict.add("skipped", reason)
    else:
        try:
            with _time_limit(seconds):
                _judge_samples(samples(info, most, form, more), verdict, _Way(native, patience))
        except OutOfTime:
            verdict.add("slow", f"not done after {seconds:g} s")
    verdict.seconds = round(time.perf_counter() - start, 2)
    verdict.settle()
    return verdict


def _judge_samples(calls: Iterable[Sample], verdict: Verdict, way: _Way) -> None:
    groups: dict[str, list[_Tried]] = collections.defaultdict(list)
    for sample in calls:
        reason = why_skipped(sample)
        if not reason:
            try:
                with torch.no_grad():
                    expected = sample.run([t.clone() for t in sample.tensors])
                reason = _why_incomparable(expected)
            except Exception as error:  # torch itself refuses the call
                reason = f"torch refuses it: {str(error)[:100]}"
        if reason:
            verdict.add("skipped", reason)
        else:
            groups[sample.dtype].append(_Tried(sample, expected))
    for tried in groups.values():
        for at in range(0, len(tried), TOGETHER):
            _judge_group(tried[at : at + TOGETHER], verdict, way)


def _why_incomparable(expected: Sequence[torch.Tensor]) -> str:
    if not expected:
        return "gives no tensor"
    odd = [t.layout for t in expected if t.layout != torch.strided]
    return f"gives tensors of layout {odd[0]}" if odd else ""


def _judge_group(group: Sequence[_Tried], verdict: Verdict, way: _Way) -> None:
    """All together; where that fails, each half for itself."""
    try:
        outputs = _outputs(group, way.native)
    except Exception as error:
        kind, reason = _classified(error)
        if len(group) == 1:
            verdict.add(kind, f"{group[0].sample}: {reason}")
        elif kind == "refused" and verdict.counts.get("refused", 0) >= (way.patience or math.inf):
            verdict.counts["refused"] += len(group)
        else:
            half = len(group) // 2
            _judge_group(group[:half], verdict, way)
            _judge_group(group[half:], verdict, way)
        return
    for tried in group:
        mine = [outputs.pop(0) for _ in tried.expected]
        problem = difference(tried.sample, tried.expected, mine)
        verdict.add("wrong" if problem else "right", f"{tried.sample}: {problem}" * bool(problem))


def _classified(error: Exception) -> tuple[str, str]:
    text = f"{type(error).__name__}: {str(error)[:600]}"
    if isinstance(error, UnsupportedOpError):
        text = "; ".join(dict.fromkeys(f"{n.op} {n.dtype}: {n.reason}" for n in error.nodes))
    if isinstance(error, VerificationError):
        return "wrong", text
    refusal = isinstance(error, CuvilError) and "fault of Cuvil" not in str(error)
    return ("refused" if refusal else "fault"), text


def _outputs(group: Sequence[_Tried], native: bool) -> list[Array]:
    """The outputs of all calls, flat: by the reference interpreter, or by a built artifact."""
    model = _Calls([t.sample for t in group])
    inputs = [torch.zeros(1), *(t for tried in group for t in tried.sample.tensors)]
    if not native:
        module = capture_torch(model, tuple(inputs))
        names = module.main.input_names
        return run_module(module, {n: to_numpy(t) for n, t in zip(names, inputs, strict=True)})
    compiled = cuvil.compile(model, example_inputs=tuple(inputs), verify=False, threads=1)
    found = compiled.run({i.name: t for i, t in zip(compiled.inputs, inputs, strict=True)})
    return [to_numpy(found[o.name]) for o in compiled.outputs]


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(signal_number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    # Again each second, because what is raised inside a destructor is lost.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
