"""What this process may use: CPU features and cores."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def cpu_flags() -> frozenset[str]:
    """Feature names of the first CPU, as /proc/cpuinfo has them; empty where there is none."""
    for line in _read(_CPUINFO, 1 << 16).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def cpu_name() -> str:
    """What the first CPU is called, with its model numbers; "" where that isn't known."""
    wanted = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part")
    found: dict[str, str] = {}
    for line in _read(_CPUINFO, 1 << 16).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in wanted:
            found.setdefault(key.strip(), value.strip())
    return " ".join(found[key] for key in wanted if key in found)


def usable_threads() -> int:
    """Physical cores of this process' affinity mask, within its cgroup's CPU quota; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cpus: Iterable[int] = os.sched_getaffinity(0)
    else:
        cpus = range(os.cpu_count() or 1)
    quota = cgroup_quota(_OWN_CGROUP, _CGROUP)
    cores = _physical_cores(cpus)
    return max(1, min(cores, math.ceil(quota)) if quota is not None else cores)


def _physical_cores(cpus: Iterable[int]) -> int:
    # Two hyperthreads share one FMA unit: a thread each would only get in each other's way.
    return len({
        _read(_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").strip() or str(cpu)
        for cpu in cpus
    })  # fmt: skip


def cgroup_quota(own: Path, root: Path) -> float | None:
    """CPUs that the cgroup (version 1 or 2) grants, the least on the way up; None: no limit."""
    found: list[float] = []
    for line in _read(own).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            folders, names = [root], ["cpu.max"]
        elif "cpu" in controllers.split(","):
            folders = [root / "cpu", root / controllers]
            names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        for base in folders:
            place = base / path.lstrip("/")
            for folder in (place, *place.parents):
                text = " ".join(_read(folder / name) for name in names)
                quota, period = [*text.split(), "", ""][:2]
                # "max" and -1 say that there is no limit here.
                if quota.isdigit() and period.isdigit() and int(period) > 0 < int(quota):
                    found.append(int(quota) / int(period))
                if folder == base:
                    break
    return min(found, default=None)


def _read(path: Path, limit: int = 1 << 12) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""
