"""A loaded model that can be called."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.errors.arguments import TABLE
from cuvil.ir.signature import MAX_BYTES, TensorSpec
from cuvil.package.format import StrPath
from cuvil.package.manifest import Manifest
from cuvil.runtime.arena import Arena, Scratch, most_kept
from cuvil.runtime.arrays import (
    Slot,
    View,
    new_output,
    shape_of,
    tensor_class,
    view_input,
    view_output,
)
from cuvil.runtime.called import Called
from cuvil.runtime.failure import failure
from cuvil.runtime.native import Model
from cuvil.runtime.planned import planned_bytes
from cuvil.runtime.save import save_artifact
from cuvil.runtime.shapes_only import meta_outputs, on_meta
from cuvil.runtime.straight import Straight, on_arrays, on_tensors, untaken
from cuvil.runtime.tree import CallTree

if TYPE_CHECKING:
    from cuvil.runtime.memory_use import MemoryUse
    from cuvil.runtime.profile import Profile

_MAX_PLANS = 512
_OUT = TABLE.optional


class Plan:
    """What one combination of input shapes needs: packed symbols, workspace, output shapes."""

    __slots__ = ("filled", "most", "outputs", "symbols", "workspace")

    def __init__(
        self, symbols: bytes, workspace: int, outputs: tuple[tuple[int, ...], ...]
    ) -> None:
        self.symbols = symbols
        self.workspace = workspace
        self.most = most_kept(workspace)  # a larger arena is a waste for this
        self.outputs = outputs
        self.filled = all(0 not in shape for shape in outputs)  # with at least one element each


class Artifact(Called):
    """A compiled model; call it with arrays, from any number of threads at once.

    NumPy arrays give NumPy arrays, a PyTorch tensor among the inputs gives PyTorch tensors,
    other arrays come in through DLPack and give NumPy arrays. Tensors on torch's meta device give
    the outputs' shapes, on that device. Inputs are never changed or cast. Made by cuvil.load.
    """

    def __init__(self, model: Model, tree: CallTree | None) -> None:
        self._model: Model | None = model
        self._manifest = model.package.manifest
        self._signature = self._manifest.signature
        self._take_call(self._signature, tree)
        self._on_arrays: Straight = untaken
        self._on_tensors: Straight = untaken
        self._pack_inputs = struct.Struct(f"={self._count}Q").pack
        self._pack_outputs = struct.Struct(f"={len(self._outputs)}Q").pack
        self._output_names = tuple(slot.name for slot in self._outputs)
        self.scratch = Scratch()  # of the thread that asks
        # What it was compiled from, set by cuvil.compile and used by cuvil.verify.
        self.source: Any = None
        # Seconds by stage of the compilation, set by cuvil.compile.
        self.compile_seconds: dict[str, float] | None = None
        # Of several targets those that were not built for, and why; set by cuvil.compile.
        self.left_out: dict[str, str] = {}
        self._profiled: Artifact | None = None

    def __reduce__(self) -> NoReturn:
        raise ArtifactError(
            "an artifact can't be pickled or copied: it holds machine code and its memory",
            hint="save it to a file, and load it there with cuvil.load",
        )

    @property
    def manifest(self) -> Manifest:
        """What the package says of itself."""
        return self._manifest

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the inputs."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the outputs."""
        return self._signature.outputs

    @property
    def native(self) -> Artifact:
        """The part that the library computes: all of it, but for a HostArtifact."""
        return self

    @property
    def threads(self) -> int:
        """How many threads a call may use."""
        return self._open().threads

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the model on arguments as its source took them.

        Raises InputError for wrong arguments or dtypes, ShapeConstraintError for wrong shapes,
        ArtifactError once closed.
        """
        if kwargs or self._nested is not None or len(args) != self._count:
            args = self._arrange(args, kwargs)
        outputs = self._on_arrays(args) or self._execute(args)
        if self._rebuild is not None:
            return self._rebuild(outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run on inputs by name; returns the outputs by name.

        ``out`` gives arrays to write outputs to; they must have the exact dtype and shape, be row
        major and share no memory with another tensor. Raises as calling does.
        """
        if out is not None:
            _OUT("out", out)
        values = self._by_name(inputs)
        if not out:
            made = self._on_arrays(values) or self._execute(values)
            if len(made) == 1:
                return {self._output_names[0]: made[0]}
            return dict(zip(self._output_names, made))
        unknown = [name for name in out if name not in {s.name for s in self._outputs}]
        if unknown:
            names = ", ".join(s.name for s in self._outputs)
            raise InputError(f"there is no output {unknown[0]!r}; the outputs are {names}")
        found = self._execute_checked(self._open(), values, out)
        return {s.name: v for s, v in zip(self._outputs, found)}

    def library_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The library's inputs for inputs by name: the same, but for a HostArtifact."""
        return dict(inputs)

    def symbols_for(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The symbols' values for inputs by name, given as arrays or as shapes."""
        return self._signature.bind(self._shapes(inputs))

    def workspace_bytes(self, inputs: Mapping[str, Any]) -> int:
        """Bytes of scratch memory a call needs, for inputs by name, given as arrays or shapes."""
        return self._plan(self._open(), self._shapes(inputs)).workspace

    def memory(self, inputs: Mapping[str, Any]) -> MemoryUse:
        """What the plan of memory makes of inputs by name, given as arrays or shapes. Raises
        ArtifactError for an artifact of an earlier version, which does not say."""
        found: MemoryUse = import_module("cuvil.runtime.memory_use").memory_use(self, inputs)
        return found

    def profile(self, inputs: Any, *, seconds: float = 0.5) -> Profile:
        """Time each kernel on ``inputs`` (a dict by name, a tuple in order, or a single one).

        The model is run for about ``seconds``. Unless the artifact was compiled with the option
        "profile", its model is built once more with a clock around each kernel, of which most is
        in the cache. Raises InputError for inputs that don't fit, and for an artifact that was
        loaded without the model that would be built.
        """
        # By name: a load, which is to be quick, does not import it.
        profiler: Any = import_module("cuvil.runtime.profiler")
        subject: Artifact | None = self if profiler.is_profiled(self) else self._profiled
        if subject is None:
            build = getattr(self.source, "profiled", None)
            if build is None:
                raise InputError(
                    "this artifact was built without clocks, and loaded without its model",
                    hint='compile it with options={"profile": True} (cuvil compile --instrument), '
                    "or profile what cuvil.compile returned",
                )
            subject = self._profiled = build(self.threads)
        given = self.library_inputs(profiler.named(self, inputs))
        found: Profile = profiler.take_profile(subject, given, seconds)
        return found

    def library_model(self) -> Model:
        """The library with its weights and threads. Raises ArtifactError once closed."""
        return self._open()

    def save(self, path: StrPath) -> list[Path]:
        """Write it to a file, the form chosen by the suffix; returns the files written.

        See :func:`cuvil.runtime.save.save_artifact`.
        """
        return save_artifact(self._open().package, self.source, path)

    def close(self) -> None:
        """Let go of library and weights; calls that are running finish first."""
        self._model = None
        self._on_arrays = self._on_tensors = untaken
        self.scratch = Scratch()

    def __enter__(self) -> Artifact:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def __repr__(self) -> str:
        state = "" if self._model is not None else ", closed"
        inputs = ", ".join(str(s) for s in self.inputs)
        outputs = ", ".join(str(s) for s in self.outputs)
        return f"<Artifact {self._manifest.name}: ({inputs}) -> ({outputs}){state}>"

    def _open(self) -> Model:
        model = self._model
        if model is None:
            raise ArtifactError("this artifact was closed", hint="load it again")
        return model

    def _execute(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on one value an input, what the straight way for arrays did not take: it was asked
        before."""
        found = self._on_tensors(args)
        if found:
            return found
        model = self._open()
        if model.plans:  # from the second call on: the first is to be soon
            self._prepare(model, type(args[0]) if args else np.ndarray)
        return self._execute_checked(model, args, None)

    def _prepare(self, model: Model, kind: type) -> None:
        """Have the straight way for a class of tensors."""
        slots = self._inputs, self._outputs
        if kind is np.ndarray and self._on_arrays is untaken:
            self._on_arrays = on_arrays(model, self.scratch, *slots)
        elif self._on_tensors is untaken and kind is tensor_class():
            self._on_tensors = on_tensors(model, self.scratch, *slots)
        if self._model is None:  # closed meanwhile, by another thread
            self._on_arrays = self._on_tensors = untaken

    def _execute_checked(
        self, model: Model, args: Sequence[Any], out: Mapping[str, Any] | None
    ) -> list[Any]:
        """Run on values of any kind, with every check; ``out`` has outputs by name."""
        if any(map(on_meta, args)):
            return meta_outputs(self._signature, self._inputs, self._outputs, args, out)
        views, plan, as_torch = self._views(model, args)
        results = [
            self._target(slot, shape, as_torch, out)
            for slot, shape in zip(self._outputs, plan.outputs)
        ]
        if out is not None:
            self._check_overlap(views, results)
        sources, arena = self._ready(views, plan)
        targets = self._pack_outputs(*[v.address for v in results])
        if model.run(model.address, sources, targets, plan.symbols, arena.address, None):
            raise self._fault(model, sources, targets, plan, arena)
        return [v.keep for v in results]

    def _views(self, model: Model, args: Sequence[Any]) -> tuple[list[View], Plan, bool]:
        """The inputs, what their shapes need, and whether outputs are PyTorch tensors."""
        views = [view_input(x, slot) for x, slot in zip(args, self._inputs)]
        return views, self._plan(model, [v.shape for v in views]), any(v.is_torch for v in views)

    def _ready(self, inputs: Sequence[View], plan: Plan) -> tuple[bytes, Arena]:
        """The inputs' addresses, packed, and scratch memory."""
        arena = self.scratch.arena
        if not plan.workspace <= arena.size <= plan.most:
            arena = self.scratch.fit(plan.workspace)
        return self._pack_inputs(*[v.address for v in inputs]), arena

    def _target(
        self, slot: Slot, shape: tuple[int, ...], as_torch: bool, out: Mapping[str, Any] | None
    ) -> View:
        """Where an output goes: to the caller's array, else to a new one."""
        if out is not None and slot.name in out:
            return view_output(out[slot.name], slot, shape)
        return new_output(slot, shape, as_torch)

    def _fault(
        self, model: Model, sources: bytes, targets: bytes, plan: Plan, arena: Arena
    ) -> Exception:
        """What went wrong in a call that failed, found by running it once more."""
        fault = (ctypes.c_int64 * 2)()
        code = model.run(
            model.address, sources, targets, plan.symbols, arena.address, ctypes.addressof(fault)
        )
        sizes = struct.unpack(f"={len(plan.symbols) // 8}q", plan.symbols)
        table = dict(zip((s.name for s in self._signature.symbols), sizes))
        return failure(self._signature, code, fault, table)

    def _plan(self, model: Model, shapes: Sequence[tuple[int, ...]]) -> Plan:
        key = tuple(shapes)
        plan: Plan | None = model.plans.get(key)
        if plan is not None:
            return plan
        table = self._signature.bind(shapes)
        outputs = self._signature.output_shapes(table)
        names = [s.name for s in self._signature.symbols]
        symbols = struct.pack(f"={len(names)}q", *[table.get(name, 0) for name in names])
        workspace = model.workspace_bytes(symbols)
        workspace = max(workspace, planned_bytes(self._manifest, table, model.threads))
        if not 0 <= workspace <= MAX_BYTES:
            raise ShapeConstraintError(
                f"inputs of shapes {[list(s) for s in shapes]} need too much memory: "
                f"{workspace} bytes for intermediate results"
            )
        plan = Plan(symbols, workspace, outputs)
        if len(model.plans) >= _MAX_PLANS:
            model.plans.clear()
        model.plans[key] = plan
        return plan

    def _shapes(self, inputs: Mapping[str, Any]) -> list[tuple[int, ...]]:
        pairs = zip(self._by_name(inputs), self._inputs, strict=True)
        return [shape_of(value, slot.name) for value, slot in pairs]

    def _check_overlap(self, inputs: Sequence[View], outputs: Sequence[View | None]) -> None:
        spans = [
            (view.address, view.address + view.keep.nbytes, slot)
            for view, slot in zip([*inputs, *outputs], [*self._inputs, *self._outputs])
            if view is not None
        ]
        for at in range(len(inputs), len(spans)):
            begin, end, slot = spans[at]
            for other_begin, other_end, other in spans[:at]:
                if max(begin, other_begin) < min(end, other_end):
                    raise InputError(
                        f"out for {slot} shares memory with {other}", hint="pass separate memory"
                    )
