"""Machines with a 64-bit ARM CPU."""

from __future__ import annotations

from cuvil.target.base import Target

ARM_TARGETS = (
    Target(
        "aarch64", "aarch64-linux-gnu", "generic", "generic", 16, 8, 8, cpu_features=("asimd",)
    ),
)
