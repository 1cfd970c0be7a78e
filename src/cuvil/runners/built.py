"""An artifact that this process can't load: it can be saved, and run where there is a runner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError, InputError, TargetError
from cuvil.ir.signature import TensorSpec
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, StrPath, open_package
from cuvil.package.manifest import Manifest
from cuvil.runners.base import Runner
from cuvil.runners.registry import RUNNERS
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.described import Described
from cuvil.runtime.loader import NotLoaded, load
from cuvil.runtime.save import save_artifact
from cuvil.runtime.tree import CallTree

Array = np.ndarray[Any, Any]


class Built(Described):
    """What compiling and loading give for a target that isn't loaded into this process.

    It describes itself and saves like an Artifact; ``reason`` says why it isn't loaded. Where this
    machine has a ``runner`` for it, such as an emulator, calling works too, slowly.
    """

    def __init__(self, package: Package, reason: str, runner: Runner | None = None) -> None:
        self.package = package
        self.reason = reason
        self.runner = runner
        self.source: Any = None
        self.compile_seconds: dict[str, float] | None = None

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        name, target = self.manifest.name, self.manifest.target
        return f"<Built {name} for {target}: ({inputs}) -> ({outputs})>"

    @property
    def manifest(self) -> Manifest:
        """What the package says of itself."""
        return self.package.manifest

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the inputs."""
        return self.manifest.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the outputs."""
        return self.manifest.signature.outputs

    @property
    def native(self) -> Built:
        """The part that is not Python: all of it."""
        return self

    def library_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of the part that is not Python: the same."""
        return dict(inputs)

    def symbols_for(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The symbols' values for inputs by name, given as arrays or as shapes."""
        shapes = [tuple(getattr(v, "shape", v)) for v in (inputs[s.name] for s in self.inputs)]
        return self.manifest.signature.bind(shapes)

    def save(self, path: StrPath) -> list[Path]:
        """Write it to ``path``, as Artifact.save does; returns the files written."""
        return save_artifact(self.package, self.source, path)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        """Run on inputs by name; returns the outputs by name.

        Raises TargetError where this machine has nothing to run it with, InputError for wrong
        names, dtypes or for ``out``, ShapeConstraintError for wrong shapes.
        """
        if out:
            raise InputError("an artifact that is run elsewhere takes no out=")
        runner = self._runner()
        arrays = {}
        for spec in self.inputs:
            if spec.name not in inputs:
                raise InputError(f"the input {spec.name!r} is missing")
            array = np.ascontiguousarray(inputs[spec.name])
            if array.dtype != spec.element.numpy:
                raise InputError(f"input {spec.name!r} is {array.dtype}; expected {spec.dtype}")
            arrays[spec.name] = array.reshape(np.shape(inputs[spec.name]))
        self.symbols_for(arrays)
        return runner.run(self.package, arrays)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays in order or by name. Raises as :meth:`run` does."""
        self._runner()
        names = [s.name for s in self.inputs]
        if len(args) > len(names):
            raise InputError(f"the model has {len(names)} inputs; {len(args)} were given")
        found = self.run({**dict(zip(names, args)), **kwargs})
        tree = CallTree.read(self.manifest)
        outputs = [found[s.name] for s in self.outputs]
        if tree is not None and tree.outputs is not None:
            return tree.rebuild(outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _runner(self) -> Runner:
        reason = self.reason if self.runner is None else self.runner.missing()
        if self.runner is None or reason is not None:
            raise TargetError(
                f"this artifact is for another machine, and nothing here runs it: {reason}",
                hint="save it, and load it on a machine of that kind",
            )
        return self.runner


def built_of(package: Package) -> Built:
    """What a package holds, to be run in a runner: of a bundle, the first that one runs here.

    Raises ArtifactError if its weights are damaged.
    """
    ways = [(held, _runner_of(held)) for held in held_packages(package).values() or (package,)]
    held, runner = next((way for way in ways if way[1] and way[1].missing() is None), ways[0])
    held.check_weights()
    return Built(held, f"it is for {held.manifest.target}, and nothing here runs that", runner)


def _runner_of(package: Package) -> Runner | None:
    manifest = package.manifest
    kind = str(manifest.extra.get("kind", "library"))
    return RUNNERS.get((kind, manifest.target.split("-", 1)[0]))


def load_or_run(path: StrPath, threads: int | None = None) -> Artifact | Built:
    """The artifact, loaded; or where this process can't load it, what a runner runs.

    Raises ArtifactError as loading does, where there is no runner either.
    """
    try:
        return load(path, threads)
    except NotLoaded as error:
        return built_of(error.package)
    except ArtifactError:
        built = built_of(open_package(path))  # raises the same error for a damaged file
        if built.runner is None or built.runner.missing() is not None:
            raise
        return built
