"""Loads and calls an artifact; needs NumPy and the standard library only."""

from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load

__all__ = ["Artifact", "load"]
