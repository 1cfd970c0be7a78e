"""What differs between machines, as data."""

from __future__ import annotations

from dataclasses import dataclass

# Products of bf16 that a unit makes in the time of one of f32.
_PAIR_RATES = {"amx_bf16": 16.0, "avx512_bf16": 2.0, "svebf16": 2.0, "bf16": 2.0}


@dataclass(frozen=True)
class Variant:
    """The code of a library for some CPUs of its target, chosen when the library is loaded.

    ``features`` must be there (named as /proc/cpuinfo names them), and vectors of exactly
    ``vector_bits``, where that isn't 0. ``mcpu``, ``vec_bytes`` and ``mr`` are as a Target has
    them; ``columns`` is the width of the register tile, which divides the target's ``nr``.
    With ``units`` it differs from the next one only in these core units, and is built for models
    that use one of them.
    """

    name: str
    mcpu: str
    vec_bytes: int
    mr: int
    columns: int
    features: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    vector_bits: int = 0
    cxx_flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """One machine that code is built for.

    ``triple`` and ``mcpu`` are spelled as ``zig -target`` and ``-mcpu`` take them;
    ``baseline_mcpu`` is the least CPU of that triple, for code that must run before the CPU was
    checked. ``vec_bytes`` is a vector register's size, ``mr`` x ``nr`` the register tile of
    contractions (rows x f32 columns), caches are in bytes (``l3_bytes`` may be 0).
    ``cpu_features`` are the features that the code may use beyond the baseline, named as
    /proc/cpuinfo names them. ``kind`` is the form of what is built: "library" is a shared library,
    for other kinds see api/backends.py. ``link_flags`` go to the linker.

    A target with ``variants`` is built once for each, the best first; the last one runs on any CPU
    of the triple. They share generated sources and weights, for which ``vec_bytes``, ``mr`` and
    ``lanes`` (units of a block of recurrent weights, 0: a vector's) are the largest of theirs.
    ``signed_bytes``: products of bytes take signed ones on both sides (native/gemm_i8.hpp).
    ``min_kernel`` is the least Linux that it runs on, where it is made of system calls.
    ``ram_bytes`` and ``flash_bytes`` are a budget of memory, 0 for none.
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
    link_flags: tuple[str, ...] = ()
    kind: str = "library"
    variants: tuple[Variant, ...] = ()
    lanes: int = 0
    signed_bytes: bool = False
    min_kernel: str = ""
    ram_bytes: int = 0
    flash_bytes: int = 0

    @property
    def arch(self) -> str:
        """``x86_64``, ``aarch64``, ..."""
        return self.triple.split("-", 1)[0]

    @property
    def multiplies_tiles(self) -> bool:
        """Whether products of bf16 may run on a matrix unit (native/tile_amx.hpp)."""
        return self._may_have("amx_bf16")

    @property
    def multiplies_pairs(self) -> bool:
        """Whether attention may run in pairs of bf16 (native/attention_bf16.hpp)."""
        return self._may_have("avx512_bf16")

    def _may_have(self, feature: str) -> bool:
        known = (self.cpu_features, *(v.features for v in self.variants))
        return any(feature in features for features in known)

    @property
    def pair_rate(self) -> float:
        """How many products of bf16 are made in the time of one of f32, at best."""
        rates = (rate for feature, rate in _PAIR_RATES.items() if self._may_have(feature))
        return max(rates, default=1.0)

    @property
    def recurrent_lanes(self) -> int:
        """Units of a block of recurrent weights."""
        return self.lanes or self.vec_bytes // 4

    @property
    def defines(self) -> tuple[str, ...]:
        """The macros that native/*.hpp read."""
        return (
            f"-DCUVIL_VEC_BYTES={self.vec_bytes}",
            f"-DCUVIL_MR={self.mr}",
            f"-DCUVIL_NR={self.nr}",
        )

    def variant_defines(self, variant: Variant) -> tuple[str, ...]:
        """The same for one of its variants, whose names stand in a namespace of their own."""
        return (
            f"-DCUVIL_VEC_BYTES={variant.vec_bytes}",
            f"-DCUVIL_MR={variant.mr}",
            f"-DCUVIL_NR={self.nr}",
            f"-DCUVIL_TILE_COLUMNS={variant.columns}",
            f"-DCUVIL_LANES={self.recurrent_lanes}",
            "-DCUVIL_HAS_VARIANTS=1",
            f"-Dcuvil={namespace_of(variant)}",
        )


def namespace_of(variant: Variant) -> str:
    """The C++ namespace of a variant's code."""
    return f"cuvil_{variant.name}"
