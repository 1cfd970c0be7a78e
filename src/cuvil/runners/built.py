"""An artifact that this process can't load: it can be saved, and run where there is a runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cuvil.errors import ArtifactError, InputError, TargetError
from cuvil.ir.signature import TensorSpec
from cuvil.options import variant_of_environment
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, StrPath, open_package
from cuvil.package.manifest import Manifest
from cuvil.runners.base import Runner
from cuvil.runners.registry import RUNNERS
from cuvil.runtime.arrays import View, array_of, new_output, view_input
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.called import Called
from cuvil.runtime.loader import NotLoaded, load
from cuvil.runtime.save import save_artifact
from cuvil.runtime.shapes_only import meta_outputs, on_meta
from cuvil.runtime.tree import CallTree


class Built(Called):
    """What compiling and loading give for a target that isn't loaded into this process.

    It describes itself and saves like an Artifact; ``reason`` says why it isn't loaded. Where this
    machine has a ``runner`` for it, such as an emulator, calling works too, slowly: on arrays,
    PyTorch tensors and nested arguments as an Artifact takes them.
    """

    def __init__(self, package: Package, reason: str, runner: Runner | None = None) -> None:
        self._package: Package | None = package
        self._manifest = package.manifest
        self._take_call(self._manifest.signature, CallTree.read(self._manifest))
        self.reason = reason
        self.runner = runner
        self.source: Any = None
        self.compile_seconds: dict[str, float] | None = None
        # Of several targets those that were not built for, and why; set by cuvil.compile.
        self.left_out: dict[str, str] = {}

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        name, target = self.manifest.name, self.manifest.target
        state = "" if self._package is not None else ", closed"
        return f"<Built {name} for {target}: ({inputs}) -> ({outputs}){state}>"

    @property
    def package(self) -> Package:
        """What it holds. Raises ArtifactError once closed."""
        if self._package is None:
            raise ArtifactError("this artifact was closed", hint="load it again")
        return self._package

    @property
    def manifest(self) -> Manifest:
        """What the package says of itself."""
        return self._manifest

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
        shapes = [tuple(getattr(v, "shape", v)) for v in self._by_name(inputs)]
        return self.manifest.signature.bind(shapes)

    def save(self, path: StrPath) -> list[Path]:
        """Write it to ``path``, as Artifact.save does; returns the files written."""
        return save_artifact(self.package, self.source, path)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run on inputs by name; returns the outputs by name.

        Raises TargetError where this machine has nothing to run it with, InputError for wrong
        names, dtypes or for ``out``, ShapeConstraintError for wrong shapes, ArtifactError once
        closed.
        """
        values = self._by_name(inputs)
        if out:
            raise InputError("an artifact that is run elsewhere takes no out=")
        return {s.name: v for s, v in zip(self._outputs, self._execute(values))}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments as its source took them. Raises as :meth:`run` does."""
        outputs = self._execute(self._arrange(args, kwargs))
        if self._rebuild is not None:
            return self._rebuild(outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def close(self) -> None:
        """Let go of the package and its weights."""
        self._package = None

    def __enter__(self) -> Built:
        _ = self.package
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _execute(self, args: Sequence[Any]) -> list[Any]:
        """The outputs in order for one value an input, of the kind of tensors that came in."""
        package, signature = self.package, self.manifest.signature
        if any(map(on_meta, args)):
            return meta_outputs(signature, self._inputs, self._outputs, args)
        runner = self._runner()
        views = [view_input(x, slot) for x, slot in zip(args, self._inputs, strict=True)]
        signature.bind([view.shape for view in views])
        arrays = {s.name: array_of(v, s) for v, s in zip(views, self._inputs)}
        found = runner.run(package, arrays)
        return self._results(found, any(view.is_torch for view in views))

    def _results(self, found: Mapping[str, Any], as_torch: bool) -> list[Any]:
        if not as_torch:
            return [found[slot.name] for slot in self._outputs]
        views: list[View] = []
        for slot in self._outputs:
            views.append(new_output(slot, found[slot.name].shape, as_torch))
            array_of(views[-1], slot)[...] = found[slot.name]
        return [view.keep for view in views]

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
        held = [v["name"] for v in built.manifest.extra.get("variants") or ()]
        asked = variant_of_environment()
        if held and asked and asked not in held:
            raise  # there is no such variant anywhere
        return built
