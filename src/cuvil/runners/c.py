"""Runs a model in C: compiled for this machine, loaded into this process."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.build.c_source import library_of_c
from cuvil.build.driver import compiler_path
from cuvil.errors import ArtifactError, InputError, ShapeConstraintError, TargetError
from cuvil.options import Options
from cuvil.package.format import Package
from cuvil.runners.base import Runner
from cuvil.target.native import native_target

Array = np.ndarray[Any, Any]
SOURCE, HEADER = "model.c", "model.h"


def _missing() -> str | None:
    try:
        compiler_path()
    except TargetError as error:
        return f"{error.message} ({error.hint})"
    return None


def _run(package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
    signature, memory = package.manifest.signature, package.manifest.extra["memory"]
    table = signature.bind([inputs[s.name].shape for s in signature.inputs])
    shapes = signature.output_shapes(table)
    outputs = {
        spec.name: np.empty(shape, spec.element.numpy)
        for spec, shape in zip(signature.outputs, shapes, strict=True)
    }
    sizes = [ctypes.c_ssize_t(table[s.name]) for s in signature.symbols]
    arrays = [np.ascontiguousarray(inputs[s.name]) for s in signature.inputs]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *outputs.values())]
    status = _function(package, memory["prefix"])(*sizes, *pointers)
    if status == 1:
        raise ShapeConstraintError("the model refuses these sizes", hint="see its constraints")
    if status == 2:
        raise InputError("an index in the data is outside what it counts")
    if status != 0:
        raise ArtifactError(f"{memory['prefix']}_run returned {status}")
    return outputs


def _function(package: Package, prefix: str) -> Any:
    """The function of the model, of its own copy of the library: the arena is not shared."""
    files = {
        SOURCE: bytes(package.library).decode("utf-8"),
        HEADER: bytes(package.parts[HEADER]).decode("utf-8"),
    }
    made = library_of_c(files, SOURCE, native_target(), Options.from_environment())
    with tempfile.TemporaryDirectory(prefix="cuvil-") as folder:
        place = Path(folder) / "model.so"
        place.write_bytes(made)
        try:
            return getattr(ctypes.CDLL(str(place)), f"{prefix}_run")
        except (OSError, AttributeError) as error:
            raise ArtifactError(f"the compiled C can't be loaded: {error}") from None


C_RUNNER = Runner("the C compiler of ziglang", _missing, _run)
