"""Machines with a 64-bit ARM CPU."""

from __future__ import annotations

from cuvil.target.base import Target

ARM_KERNEL = "3.7"  # the first Linux for this architecture
_TRIPLE = "aarch64-linux-gnu"

ARM_TARGETS = (
    Target(
        "aarch64", _TRIPLE, "generic", "generic", 16, 8, 8, cpu_features=("asimd",),
        min_kernel=ARM_KERNEL,
    ),
)  # fmt: skip
