"""Machines for which LLVM IR text is written instead of a library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cuvil.target.base import Target

PREFIX = "llvm"


def as_llvm(target: Target) -> Target:
    """The same machine, as text: ``llvm-x86_64_v3``, or just ``llvm`` for this machine."""
    name = PREFIX if target.name == "native" else f"{PREFIX}-{target.name}"
    return replace(target, name=name, kind=PREFIX)


def llvm_targets(machines: Iterable[Target]) -> tuple[Target, ...]:
    """A target of text for each machine that libraries are built for, but for those with variants:
    a text is for one CPU."""
    return tuple(
        as_llvm(target) for target in machines if target.kind == "library" and not target.variants
    )
