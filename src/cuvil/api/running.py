"""How this machine runs what is built for a target: in this process, in a runner, or not."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from cuvil.runners.base import Runner
from cuvil.runners.registry import find_runner
from cuvil.runtime.cpu import cpu_flags
from cuvil.runtime.loader import machine_fault
from cuvil.target.base import Target


@dataclass(frozen=True)
class Running:
    """``elsewhere`` says why this process can't load a target's code, None if it can; ``runner``
    runs what it can't load, where there is one."""

    elsewhere: str | None
    runner: Runner | None = None

    @property
    def fault(self) -> str | None:
        """Why nothing here runs it; None if something does."""
        return self.elsewhere if self.runner is None else self.runner.missing()

    @property
    def where(self) -> str:
        """What runs it here, or would: "in process", the runner's name, or nothing."""
        if self.elsewhere is None:
            return "in process"
        return "" if self.runner is None else self.runner.name


def running_of(target: Target) -> Running:
    """How this machine runs a target's artifacts."""
    elsewhere = _cannot_load(target)
    return Running(elsewhere, None if elsewhere is None else find_runner(target))


def _cannot_load(target: Target) -> str | None:
    if target.kind != "library":
        return f"{target.name} is not loaded into a process"
    fault = machine_fault(
        target.triple, target.cpu_features, platform.system(), platform.machine(), cpu_flags()
    )
    return None if fault is None else fault[0]
