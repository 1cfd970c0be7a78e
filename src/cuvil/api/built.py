"""What :func:`cuvil.compile` gives for a target that isn't loaded into this process."""

from __future__ import annotations

from cuvil.runners.built import Built as Built
