"""Libraries of another CPU, run by an emulator of that CPU.

The program that loads the library and calls its C interface (native/runner.cpp) needs no libc and
no dynamic loader, so the emulator, qemu's user mode, is all that has to be installed.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.build.driver import compile_flags, compile_object, compiler_version, link_program
from cuvil.build.includes import included
from cuvil.build.library import NATIVE_DIR, native_sources
from cuvil.build.store import ObjectStore, digest_of
from cuvil.codegen.abi import dlpack_code
from cuvil.errors import ArtifactError, ShapeConstraintError
from cuvil.ir.signature import TensorSpec
from cuvil.options import Options
from cuvil.package.format import Package
from cuvil.runners.base import Runner
from cuvil.target.base import Target

Array = np.ndarray[Any, Any]
_PROGRAM = "runner.cpp"
_SHAPE_CODES = (5, 6)  # CUVIL_E_SHAPE and CUVIL_E_CONSTRAINT of native/abi.h


@dataclass(frozen=True)
class Emulator:
    """One emulated machine: ``target`` gives triple and least CPU, ``cpu`` is qemu's name of it
    (its own default if empty), ``variant`` the library's code to take (the best if empty)."""

    program: str
    target: Target
    cpu: str = ""
    variant: str = ""

    def missing(self) -> str | None:
        """What this machine lacks to run it; None if nothing."""
        if self._path() is not None:
            return None
        return f"the program {self.program} is not installed (Debian: apt install qemu-user)"

    def run(self, package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises ArtifactError with what the program said, and
        ShapeConstraintError where the library refuses the shapes."""
        return self.run_as(package, inputs)[1]

    def run_as(
        self, package: Package, inputs: Mapping[str, Array]
    ) -> tuple[str, dict[str, Array]]:
        """The name of the variant that ran, and the outputs by name."""
        signature = package.manifest.signature
        with tempfile.TemporaryDirectory(prefix="cuvil-") as name:
            folder = Path(name)
            program = folder / "runner"
            program.write_bytes(runner_program(self.target, Options.from_environment()))
            program.chmod(0o700)
            (folder / "library").write_bytes(package.library)
            package.weights.tofile(folder / "weights")
            call = _call_text(signature.inputs, signature.outputs, inputs)
            (folder / "call").write_bytes(call)
            command = [str(self._path()), *(["-cpu", self.cpu] if self.cpu else []), str(program)]
            files = [str(folder / f) for f in ("library", "weights", "call", "result")]
            done = subprocess.run(
                [*command, *files, *([self.variant] if self.variant else [])],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False,
            )  # fmt: skip
            if done.returncode:
                said = done.stdout.decode("utf-8", "replace").strip()
                raise ArtifactError(
                    f"{self.program} ended with code {done.returncode}: {said or 'it said nothing'}"
                )
            return _result(signature.outputs, (folder / "result").read_bytes())

    def _path(self) -> str | None:
        return shutil.which(self.program) or shutil.which(f"{self.program}-static")


def emulated(emulator: Emulator) -> Runner:
    """A runner that uses it."""
    return Runner(emulator.program, emulator.missing, emulator.run)


def runner_program(target: Target, options: Options) -> bytes:
    """The program for a target's architecture, from the object store where it was made before."""
    native = native_sources()
    flags = [*compile_flags(target, 2, baseline=True), "-fno-builtin", "-fno-pic"]
    store = ObjectStore(options.cache_dir / "objects")
    scratch = options.cache_dir / "tmp"
    texts = [native[name] for name in sorted(included(native[_PROGRAM], native))]
    key = digest_of([compiler_version(), *flags, native[_PROGRAM], *texts])
    found = store.get(key)
    if found is None:
        units = {
            name: compile_object(native[name], name, flags, NATIVE_DIR, scratch)
            for name in (_PROGRAM, "core_mem.cpp")
        }
        found = link_program(units, scratch)
        store.put(key, found)
    return found


def _call_text(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], arrays: Mapping[str, Array]
) -> bytes:
    text = bytearray(struct.pack("<2q", len(inputs), len(outputs)))
    for spec in inputs:
        array = np.ascontiguousarray(arrays[spec.name])
        shape = np.shape(arrays[spec.name])
        numbers = (dlpack_code(spec.element), spec.element.bits, len(shape), *shape, array.nbytes)
        text += struct.pack(f"<{len(numbers)}q", *numbers)
        text += bytes(-len(text) % 64) + array.tobytes()
        text += bytes(-len(text) % 64)
    for spec in outputs:
        text += struct.pack("<3q", dlpack_code(spec.element), spec.element.bits, spec.rank)
    return bytes(text)


def _result(outputs: tuple[TensorSpec, ...], data: bytes) -> tuple[str, dict[str, Array]]:
    code, variant, message = struct.unpack_from("<q64s240s", data)
    if code:
        said = message.split(b"\0")[0].decode("utf-8", "replace")
        kind = ShapeConstraintError if code in _SHAPE_CODES else ArtifactError
        raise kind(f"the library refused the call: {said or f'code {code}'}")
    at, found = 8 + 64 + 240, {}
    for spec in outputs:
        (rank,) = struct.unpack_from("<q", data, at)
        *shape, count = struct.unpack_from(f"<{rank + 1}q", data, at + 8)
        at += 8 * (rank + 2)
        array = np.frombuffer(data, np.uint8, count, at).view(spec.element.numpy)
        found[spec.name] = array.reshape(shape).copy()
        at += -(-count // 8) * 8
    return variant.split(b"\0")[0].decode(), found
