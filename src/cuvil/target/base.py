"""What differs between machines, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One machine that code is built for.

    ``triple`` and ``mcpu`` are spelled as ``zig -target`` and ``-mcpu`` take them;
    ``baseline_mcpu`` is the least CPU of that triple, for code that must run before the CPU was
    checked. ``vec_bytes`` is a vector register's size, ``mr`` x ``nr`` the register tile of
    contractions (rows x f32 columns), caches are in bytes (``l3_bytes`` may be 0).
    ``cpu_features`` are the features that the code may use beyond the baseline, named as
    /proc/cpuinfo names them. ``kind`` is the form of what is built: "library" is a shared library,
    for other kinds see api/backends.py.
    """

    name: str
    triple: str
    mcpu: str
    baseline_mcpu: str
    vec_bytes: int
    mr: int
    nr: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 8 << 20
    cpu_features: tuple[str, ...] = ()
    pointer_bits: int = 64
    has_threads: bool = True
    cxx_flags: tuple[str, ...] = ()
    kind: str = "library"

    @property
    def arch(self) -> str:
        """``x86_64``, ``aarch64``, ..."""
        return self.triple.split("-", 1)[0]

    @property
    def defines(self) -> tuple[str, ...]:
        """The macros that native/*.hpp read."""
        return (
            f"-DCUVIL_VEC_BYTES={self.vec_bytes}",
            f"-DCUVIL_MR={self.mr}",
            f"-DCUVIL_NR={self.nr}",
        )
