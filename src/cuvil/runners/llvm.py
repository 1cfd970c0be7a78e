"""Runs LLVM IR text: compiled to a library, which this process loads or another runner runs."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.build.driver import compiler_path
from cuvil.build.llvm_text import library_of_llvm
from cuvil.errors import TargetError
from cuvil.options import Options
from cuvil.package.format import Package, open_package, write_package
from cuvil.package.manifest import Manifest
from cuvil.runners.base import Runner
from cuvil.runtime.cpu import cpu_flags
from cuvil.runtime.loader import load, machine_fault
from cuvil.target.base import Target

Array = np.ndarray[Any, Any]


def llvm_runner(triple: str, library: Runner | None) -> Runner:
    """The runner of texts for ``triple``; ``library`` runs libraries that this machine can't."""

    def missing() -> str | None:
        try:
            compiler_path()
        except TargetError as error:
            return f"{error.message} ({error.hint})"
        fault = _fault(triple)
        return fault if fault is None or library is None else library.missing()

    def run(package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with tempfile.TemporaryDirectory(prefix="cuvil-") as folder:
            place = Path(folder) / "model.cuvilpkg"
            _write_library(package, place)
            if library is not None and _fault(triple, package.manifest.cpu_features) is not None:
                return library.run(open_package(place), inputs)
            outputs = load(place).run(inputs)
            return {name: np.array(value) for name, value in outputs.items()}

    return Runner("the LLVM of ziglang", missing, run)


def _fault(triple: str, features: Iterable[str] = ()) -> str | None:
    """Why this process can't load a library for the triple; None if it can."""
    here = platform.system(), platform.machine(), cpu_flags()
    fault = machine_fault(triple, features, *here)
    return None if fault is None else fault[0]


def _write_library(package: Package, place: Path) -> None:
    """The same model as a package with a library."""
    manifest = package.manifest
    made = library_of_llvm(bytes(package.library), _machine(manifest), Options.from_environment())
    own = replace(manifest, extra={**manifest.extra, "kind": "library"})
    weights = [(0, package.weights)] if package.weights.size else []
    write_package(place, own, made, weights, sync=False)


def _machine(manifest: Manifest) -> Target:
    """What the compiler has to know of the machine; the rest is in the text."""
    return Target("llvm", manifest.target, manifest.cpu, manifest.cpu, vec_bytes=16, mr=4, nr=8)
