"""Which runner runs a target's artifacts."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.runners.base import Runner
from cuvil.target.base import Target

# By kind of target, and for libraries by architecture.
RUNNERS: Mapping[tuple[str, str], Runner] = {}


def find_runner(target: Target) -> Runner | None:
    """The runner for a target's artifacts on a machine that can't load them; None without one."""
    return RUNNERS.get((target.kind, target.arch))
