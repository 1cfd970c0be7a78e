"""Embedded C: no machine in particular. What code may assume is what C99 and its macros say."""

from __future__ import annotations

from cuvil.target.base import Target

C_TARGETS = (
    Target("c", "c", "", "", 16, 4, 16, has_threads=False, pointer_bits=32, kind="c"),
)
