"""An artifact for another machine: it can be saved, not called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from cuvil.errors import TargetError
from cuvil.ir.signature import TensorSpec
from cuvil.package.format import Package, StrPath
from cuvil.package.manifest import Manifest
from cuvil.runtime.save import save_package


class Built:
    """What :func:`cuvil.compile` gives for a target that this machine can't run.

    It describes itself and saves like an Artifact; ``reason`` says why it can't run here.
    """

    def __init__(self, package: Package, reason: str) -> None:
        self._package = package
        self.reason = reason
        self.source: Any = None
        self.compile_seconds: dict[str, float] | None = None

    @property
    def manifest(self) -> Manifest:
        """What the package says of itself."""
        return self._package.manifest

    @property
    def tuning(self) -> dict[str, Any] | None:
        """What tuning found, to be given as ``options={"tune": ...}``; None if it was not tuned."""
        found = self.manifest.extra.get("tuning")
        return dict(found) if isinstance(found, Mapping) else None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the inputs."""
        return self.manifest.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the outputs."""
        return self.manifest.signature.outputs

    def save(self, path: StrPath) -> list[Path]:
        """Write it to ``path``, as Artifact.save does; returns the files written."""
        return save_package(self._package, path)

    def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises TargetError."""
        raise TargetError(
            f"this artifact is for another machine: {self.reason}",
            hint="save it, and load it on a machine of that kind",
        )

    run = __call__
