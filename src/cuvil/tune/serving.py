"""Loading a package, with what goes on beside its calls."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load as _load


def load(path: str | os.PathLike[str], threads: int | None = None) -> Artifact:
    """Load a ``.cuvilpkg``; needs neither a framework nor a compiler.

    ``threads`` None takes CUVIL_THREADS, else as many as this process may use; 1 runs on
    the calling thread alone. A package that was compiled with the option "retune" is retuned from
    now on. Raises ArtifactError if the file is damaged, too new, or not for this machine.
    """
    artifact = _load(path, threads)
    if "retune" in artifact.manifest.extra:
        # By name: no other load needs it.
        watch: Any = import_module("cuvil.tune.watch")
        watch.watch(artifact)
    return artifact
