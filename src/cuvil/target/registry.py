"""The targets that can be built for by name, on any machine."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.errors import TargetError
from cuvil.target.base import Target
from cuvil.target.features import X86_V2, X86_V3, X86_V4
from cuvil.target.native import native_target

_X86 = "x86_64-linux-gnu"
_ARM = "aarch64-linux-gnu"

TARGETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        Target("x86_64_v2", _X86, "x86_64_v2", "x86_64", 16, 4, 8, cpu_features=X86_V2),
        Target("x86_64_v3", _X86, "x86_64_v3", "x86_64", 32, 6, 16, cpu_features=X86_V3),
        Target(
            "x86_64_v4", _X86, "x86_64_v4-prefer_256_bit", "x86_64", 64, 14, 32,
            l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=16 << 20, cpu_features=X86_V4,
        ),
        Target("aarch64", _ARM, "generic", "generic", 16, 8, 8, cpu_features=("asimd",)),
    )
}  # fmt: skip


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
