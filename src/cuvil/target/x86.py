"""Servers and desktops with an x86-64 CPU, by the levels of the psABI."""

from __future__ import annotations

from cuvil.target.base import Target
from cuvil.target.features import X86_V2, X86_V3, X86_V4

_TRIPLE = "x86_64-linux-gnu"

X86_TARGETS = (
    Target("x86_64_v2", _TRIPLE, "x86_64_v2", "x86_64", 16, 4, 8, cpu_features=X86_V2),
    Target("x86_64_v3", _TRIPLE, "x86_64_v3", "x86_64", 32, 6, 16, cpu_features=X86_V3),
    Target(
        "x86_64_v4", _TRIPLE, "x86_64_v4-prefer_256_bit", "x86_64", 64, 14, 32,
        l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=16 << 20, cpu_features=X86_V4,
    ),
)  # fmt: skip
