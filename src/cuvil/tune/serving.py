"""Loading a package, with what goes on beside its calls."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cuvil.runtime.loader import NotLoaded
from cuvil.runtime.loader import load as _load


def load(path: str | os.PathLike[str], threads: int | None = None) -> Any:
    """Load a ``.cuvilpkg``; needs neither a framework nor a compiler.

    ``threads`` None takes CUVIL_THREADS, else as many as this process may use; 1 runs on
    the calling thread alone. A package that was compiled with the option "retune" is retuned from
    now on. Raises ArtifactError if the file is damaged, too new, or not for this machine.

    Of a package for several targets the best for this machine is loaded. What no process loads,
    such as a module for browsers, is given as compiling gives it: to be saved, and run in a runner.
    """
    try:
        artifact = _load(path, threads)
    except NotLoaded as error:
        built: Any = import_module("cuvil.runners.built")  # by name, as below
        return built.built_of(error.package)
    if "retune" in artifact.manifest.extra:
        # By name: no other load needs it.
        watch: Any = import_module("cuvil.tune.watch")
        watch.watch(artifact)
    return artifact
