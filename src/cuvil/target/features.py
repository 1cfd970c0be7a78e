"""CPU features: their names in /proc/cpuinfo and LLVM, and where a CPU says that it has them.

x86-64: bits of CPUID, as in the Intel SDM vol. 2A, CPUID, and the AMD APM vol. 3, appendix E; the
levels are those of the x86-64 psABI, section 3.1.1. AArch64: bits of the auxiliary vector's entries
AT_HWCAP and AT_HWCAP2, as in Linux, arch/arm64/include/uapi/asm/hwcap.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CpuFeature:
    """One feature; ``register`` is 0 eax, 1 ebx, 2 ecx, 3 edx of CPUID ``leaf``, ``subleaf``.

    Of AArch64 ``leaf`` is the entry's type in the auxiliary vector.
    """

    name: str
    llvm: str
    leaf: int
    subleaf: int
    register: int
    bit: int


_EAX, _EBX, _ECX, _EDX = range(4)
_TABLE = (
    CpuFeature("pni", "sse3", 1, 0, _ECX, 0),
    CpuFeature("ssse3", "ssse3", 1, 0, _ECX, 9),
    CpuFeature("fma", "fma", 1, 0, _ECX, 12),
    CpuFeature("cx16", "cx16", 1, 0, _ECX, 13),
    CpuFeature("sse4_1", "sse4_1", 1, 0, _ECX, 19),
    CpuFeature("sse4_2", "sse4_2", 1, 0, _ECX, 20),
    CpuFeature("movbe", "movbe", 1, 0, _ECX, 22),
    CpuFeature("popcnt", "popcnt", 1, 0, _ECX, 23),
    CpuFeature("xsave", "xsave", 1, 0, _ECX, 26),
    CpuFeature("avx", "avx", 1, 0, _ECX, 28),
    CpuFeature("f16c", "f16c", 1, 0, _ECX, 29),
    CpuFeature("lahf_lm", "sahf", 0x80000001, 0, _ECX, 0),
    CpuFeature("abm", "lzcnt", 0x80000001, 0, _ECX, 5),
    CpuFeature("bmi1", "bmi", 7, 0, _EBX, 3),
    CpuFeature("avx2", "avx2", 7, 0, _EBX, 5),
    CpuFeature("bmi2", "bmi2", 7, 0, _EBX, 8),
    CpuFeature("avx512f", "avx512f", 7, 0, _EBX, 16),
    CpuFeature("avx512dq", "avx512dq", 7, 0, _EBX, 17),
    CpuFeature("avx512cd", "avx512cd", 7, 0, _EBX, 28),
    CpuFeature("avx512bw", "avx512bw", 7, 0, _EBX, 30),
    CpuFeature("avx512vl", "avx512vl", 7, 0, _EBX, 31),
    CpuFeature("avx512vbmi", "avx512vbmi", 7, 0, _ECX, 1),
    CpuFeature("avx512_vbmi2", "avx512vbmi2", 7, 0, _ECX, 6),
    CpuFeature("gfni", "gfni", 7, 0, _ECX, 8),
    CpuFeature("avx512_vnni", "avx512vnni", 7, 0, _ECX, 11),
    CpuFeature("avx512_bitalg", "avx512bitalg", 7, 0, _ECX, 12),
    CpuFeature("avx512_vpopcntdq", "avx512vpopcntdq", 7, 0, _ECX, 14),
    CpuFeature("amx_bf16", "amx_bf16", 7, 0, _EDX, 22),
    CpuFeature("amx_tile", "amx_tile", 7, 0, _EDX, 24),
    CpuFeature("avx_vnni", "avxvnni", 7, 1, _EAX, 4),
    CpuFeature("avx512_bf16", "avx512bf16", 7, 1, _EAX, 5),
)
X86_FEATURES: Mapping[str, CpuFeature] = {f.name: f for f in _TABLE}

_HWCAP, _HWCAP2 = 16, 26
_ARM_TABLE = (
    CpuFeature("asimd", "neon", _HWCAP, 0, 0, 1),
    CpuFeature("asimddp", "dotprod", _HWCAP, 0, 0, 20),
    CpuFeature("sve", "sve", _HWCAP, 0, 0, 22),
    CpuFeature("svei8mm", "i8mm", _HWCAP2, 0, 0, 9),
    CpuFeature("svebf16", "bf16", _HWCAP2, 0, 0, 12),
    CpuFeature("i8mm", "i8mm", _HWCAP2, 0, 0, 13),
    CpuFeature("bf16", "bf16", _HWCAP2, 0, 0, 14),
)
ARM_FEATURES: Mapping[str, CpuFeature] = {f.name: f for f in _ARM_TABLE}
# By architecture, as triples begin.
CPU_FEATURES: Mapping[str, Mapping[str, CpuFeature]] = {
    "x86_64": X86_FEATURES,
    "aarch64": ARM_FEATURES,
}

X86_V2 = ("pni", "ssse3", "cx16", "sse4_1", "sse4_2", "popcnt", "lahf_lm")
X86_V3 = (*X86_V2, "fma", "movbe", "xsave", "avx", "f16c", "abm", "bmi1", "avx2", "bmi2")
X86_V4 = (*X86_V3, "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
# Used where the machine has them; none is part of a level.
X86_V3_EXTRAS = ("avx_vnni",)
X86_V4_EXTRAS = (
    "avx512vbmi",
    "avx512_vbmi2",
    "gfni",
    "avx512_vnni",
    "avx512_bitalg",
    "avx512_vpopcntdq",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
)


def llvm_suffix(
    names: tuple[str, ...], known: Mapping[str, CpuFeature] = X86_FEATURES
) -> str:
    """``+avx512vnni+...`` for ``-mcpu``."""
    return "".join(f"+{known[n].llvm}" for n in names)
