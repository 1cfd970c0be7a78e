"""Cuvil as a peer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load


class _Session:
    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        return functools.partial(self.artifact.run, dict(inputs))

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return [np.asarray(x) for x in outputs.values()]


def open(path: str, threads: int) -> _Session:
    """Load a .cuvilpkg."""
    return _Session(load(path, threads))
