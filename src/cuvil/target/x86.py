"""Servers and desktops with an x86-64 CPU: one library for all, and the levels of the psABI."""

from __future__ import annotations

from cuvil.target.base import Target, Variant
from cuvil.target.features import X86_V2, X86_V3, X86_V4

# The first with private futexes, which the thread pool waits on.
X86_KERNEL = "2.6.22"
_TRIPLE = "x86_64-linux-gnu"
_BYTES = ("core_gemm_i8.cpp",)
_PAIRS = (
    "core_tile_bf16.cpp", "core_winograd_bf16.cpp", "core_rnn_bf16.cpp", "core_attention_bf16.cpp",
    "core_depthwise_bf16.cpp",
)  # fmt: skip
_AVX512, _AVX2 = "x86_64_v4", "x86_64_v3"

_VARIANTS = (
    Variant(
        "avx512_bf16", f"{_AVX512}+avx512vnni+avx512bf16-prefer_256_bit", 64, 14, 32,
        (*X86_V4, "avx512_vnni", "avx512_bf16"), _PAIRS,
    ),
    Variant(
        "avx512_vnni", f"{_AVX512}+avx512vnni-prefer_256_bit", 64, 14, 32,
        (*X86_V4, "avx512_vnni"), _BYTES,
    ),
    Variant("avx512", f"{_AVX512}-prefer_256_bit", 64, 14, 32, X86_V4),
    Variant("avx2_vnni", f"{_AVX2}+avxvnni", 32, 6, 16, (*X86_V3, "avx_vnni"), _BYTES),
    Variant("avx2", _AVX2, 32, 6, 16, X86_V3),
    Variant("sse2", "x86_64", 16, 4, 8),
)  # fmt: skip

X86_TARGETS = (
    Target(
        "x86_64-linux-gnu", _TRIPLE, "x86_64", "x86_64", 64, 14, 32,
        l2_bytes=1 << 20, l3_bytes=16 << 20, variants=_VARIANTS, min_kernel=X86_KERNEL,
    ),
    Target("x86_64_v2", _TRIPLE, "x86_64_v2", "x86_64", 16, 4, 8, cpu_features=X86_V2,
        min_kernel=X86_KERNEL),
    Target("x86_64_v3", _TRIPLE, "x86_64_v3", "x86_64", 32, 6, 16, cpu_features=X86_V3,
        min_kernel=X86_KERNEL),
    Target(
        "x86_64_v4", _TRIPLE, "x86_64_v4-prefer_256_bit", "x86_64", 64, 14, 32,
        l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=16 << 20, cpu_features=X86_V4,
        min_kernel=X86_KERNEL,
    ),
)  # fmt: skip
