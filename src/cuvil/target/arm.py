"""Machines with a 64-bit ARM CPU: one library for all, and the least of them alone."""

from __future__ import annotations

from cuvil.target.base import Target, Variant

ARM_KERNEL = "3.7"  # the first Linux for this architecture
ARM_EXTRAS = ("asimddp", "i8mm", "bf16")
"""Used where the machine has them, beside NEON."""
_TRIPLE = "aarch64-linux-gnu"
_BYTES, _PAIRS = ("core_gemm_i8.cpp",), ("core_tile_bf16.cpp",)

# SVE of 128 bits has nothing on NEON. The CPUs that have 256 bits have the products of bytes and
# of bf16 too; those with 512 have neither.
_VARIANTS = (
    Variant(
        "sve512", "generic+sve", 64, 8, 32, ("sve",),
        vector_bits=512, cxx_flags=("-msve-vector-bits=512",),
    ),
    Variant(
        "sve256", "generic+sve+dotprod+i8mm+bf16", 32, 8, 16,
        ("sve", *ARM_EXTRAS, "svei8mm", "svebf16"),
        vector_bits=256, cxx_flags=("-msve-vector-bits=256",),
    ),
    Variant(
        "neon_bf16", "generic+dotprod+i8mm+bf16", 16, 6, 16, ARM_EXTRAS, _BYTES + _PAIRS
    ),
    Variant("neon_dot", "generic+dotprod", 16, 6, 16, ("asimddp",), _BYTES),
    Variant("neon", "generic", 16, 6, 16),
)  # fmt: skip

ARM_TARGETS = (
    Target(
        "aarch64-linux-gnu", _TRIPLE, "generic", "generic", 16, 8, 32, l2_bytes=1 << 20,
        variants=_VARIANTS, lanes=16, signed_bytes=True, min_kernel=ARM_KERNEL,
    ),
    Target(
        "aarch64", _TRIPLE, "generic", "generic", 16, 6, 16, cpu_features=("asimd",),
        signed_bytes=True, min_kernel=ARM_KERNEL,
    ),
)  # fmt: skip
