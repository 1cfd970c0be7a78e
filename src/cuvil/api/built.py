"""An artifact that this process can't load: it can be saved, and run where there is a runner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.errors import InputError, TargetError
from cuvil.ir.signature import TensorSpec
from cuvil.package.format import Package, StrPath
from cuvil.package.manifest import Manifest
from cuvil.runners.base import Runner
from cuvil.runtime.described import Described
from cuvil.runtime.save import save_artifact
from cuvil.runtime.tree import CallTree

Array = np.ndarray[Any, Any]


class Built(Described):
    """What :func:`cuvil.compile` gives for a target that isn't loaded into this process.

    It describes itself and saves like an Artifact; ``reason`` says why it isn't loaded. Where this
    machine has a ``runner`` for it, such as an emulator, calling works too, slowly.
    """

    def __init__(self, package: Package, reason: str, runner: Runner | None = None) -> None:
        self.package = package
        self.reason = reason
        self.runner = runner
        self.source: Any = None
        self.compile_seconds: dict[str, float] | None = None

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
                f"this artifact is for another machine: {reason}",
                hint="save it, and load it on a machine of that kind",
            )
        return self.runner
