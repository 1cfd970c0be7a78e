"""The targets that can be built for by name, on any machine."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.errors import TargetError
from cuvil.target.arm import ARM_TARGETS
from cuvil.target.base import Target
from cuvil.target.native import native_target
from cuvil.target.x86 import X86_TARGETS

TARGETS: Mapping[str, Target] = {t.name: t for t in (*X86_TARGETS, *ARM_TARGETS)}


def target_names() -> tuple[str, ...]:
    """Every name that :func:`find_target` takes."""
    return ("native", *TARGETS)


def find_target(name: str) -> Target:
    """The target of that name; "native" is this machine. Raises TargetError for an unknown one."""
    if name == "native":
        return native_target()
    if name not in TARGETS:
        raise TargetError(
            f"there is no target {name!r}", hint=f"choose one of {', '.join(target_names())}"
        )
    return TARGETS[name]
