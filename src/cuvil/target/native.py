"""The machine this process runs on, described as a target."""

from __future__ import annotations

import platform
from pathlib import Path

from cuvil.errors import TargetError
from cuvil.target.arm import ARM_EXTRAS, ARM_KERNEL
from cuvil.target.base import Target
from cuvil.target.features import (
    ARM_FEATURES,
    X86_V2,
    X86_V3,
    X86_V3_EXTRAS,
    X86_V4,
    X86_V4_EXTRAS,
    llvm_suffix,
)
from cuvil.target.x86 import X86_KERNEL

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_CACHES = (32 << 10, 512 << 10, 8 << 20)


def native_target() -> Target:
    """This machine. Raises TargetError where it is none that code can be built for."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux":
        raise TargetError(
            f"target 'native' is not available on {system}",
            hint="build for a Linux target by name, such as target='x86_64_v3'",
        )
    return describe(machine, _read(_CPUINFO), cache_sizes(_CACHES))


def describe(machine: str, cpuinfo: str, caches: tuple[int, int, int]) -> Target:
    """The target for a machine name, the text of its /proc/cpuinfo and its cache sizes."""
    features = cpu_flags(cpuinfo)
    l1, l2, l3 = caches
    if machine in ("x86_64", "AMD64"):
        mcpu, names, vec, mr, nr = _x86(features)
        return Target(
            "native", "x86_64-linux-gnu", mcpu, "x86_64", vec, mr, nr, l1, l2, l3, names,
            min_kernel=X86_KERNEL,
        )  # fmt: skip
    if machine in ("aarch64", "arm64"):
        extra = tuple(n for n in ARM_EXTRAS if n in features)
        mcpu = f"generic{llvm_suffix(extra, ARM_FEATURES)}"
        return Target(
            "native", "aarch64-linux-gnu", mcpu, "generic", 16, 6, 16, l1, l2, l3,
            ("asimd", *extra), signed_bytes=True, min_kernel=ARM_KERNEL,
        )  # fmt: skip
    raise TargetError(f"no code can be built for a {machine} machine yet")


def _x86(features: frozenset[str]) -> tuple[str, tuple[str, ...], int, int, int]:
    """(mcpu, features used, vector bytes, mr, nr) of the highest level the machine has."""
    if features.issuperset(X86_V4):
        extras = tuple(n for n in X86_V4_EXTRAS if n in features)
        mcpu = f"x86_64_v4{llvm_suffix(extras)}-prefer_256_bit"
        return mcpu, X86_V4 + extras, 64, 14, 32
    if features.issuperset(X86_V3):
        extras = tuple(n for n in X86_V3_EXTRAS if n in features)
        return f"x86_64_v3{llvm_suffix(extras)}", X86_V3 + extras, 32, 6, 16
    if features.issuperset(X86_V2):
        return "x86_64_v2", X86_V2, 16, 4, 8
    return "x86_64", (), 16, 4, 8


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The feature names of the first CPU in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def cache_sizes(folder: Path) -> tuple[int, int, int]:
    """Bytes of the first CPU's level 1 data, level 2 and level 3 cache; usual ones if unknown."""
    sizes = list(_DEFAULT_CACHES)
    for entry in sorted(folder.glob("index*")):
        level = _read(entry / "level").strip()
        size = _read(entry / "size").strip()
        kind = _read(entry / "type").strip()
        scale = {"K": 10, "M": 20}.get(size[-1:])
        if kind == "Instruction" or level not in ("1", "2", "3") or scale is None:
            continue
        if size[:-1].isdigit():
            sizes[int(level) - 1] = int(size[:-1]) << scale
    return sizes[0], sizes[1], sizes[2]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
