"""An artifact some of whose sizes depend on data: the library allocates what is so large."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InputError
from cuvil.runtime.arrays import Slot, new_output, torch_dtype
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.failure import failure
from cuvil.runtime.native import Model, NativeLibrary
from cuvil.runtime.shapes_only import meta_outputs, on_meta
from cuvil.runtime.tree import CallTree

# Outputs up to this size are copied: a finalizer costs more.
_COPIED = 1 << 14


def make_artifact(model: Model, tree: CallTree | None) -> Artifact:
    """The artifact of a model, of the class that its sizes need."""
    late = bool(model.package.manifest.signature.late)
    return LateArtifact(model, tree) if late else Artifact(model, tree)


class LateArtifact(Artifact):
    """A compiled model with late symbols (see SymbolSpec): sizes found during a call.

    Outputs of such a size are always new arrays; they can't be given with ``out``.
    """

    def __init__(self, model: Model, tree: CallTree | None) -> None:
        super().__init__(model, tree)
        self._late_outputs = tuple(self._signature.is_late(s) for s in self._signature.outputs)
        self._names = [s.name for s in self._signature.symbols]
        self._unpack_symbols = struct.Struct(f"={len(self._names)}q").unpack_from
        self._simple_shapes = tuple(
            all(isinstance(d, int) or d in self._names for d in spec.shape)
            for spec in self._signature.outputs
        )

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run on inputs by name; returns the outputs by name. ``out`` as for other artifacts."""
        for slot, late in zip(self._outputs, self._late_outputs):
            if late and slot.name in (out or ()):
                raise InputError(
                    f"out has the output {slot.name!r}, whose size depends on data",
                    hint="leave it out: the call returns a new array",
                )
        return super().run(inputs, out)

    def _execute(self, args: Sequence[Any]) -> list[Any]:
        return self._execute_checked(self._open(), args, None)

    def _execute_checked(
        self, model: Model, args: Sequence[Any], out: Mapping[str, Any] | None
    ) -> list[Any]:
        if any(map(on_meta, args)):
            return meta_outputs(self._signature, self._inputs, self._outputs, args, out)
        views, plan, as_torch = self._views(model, args)
        given = [
            None if late else self._target(slot, shape, as_torch, out)
            for slot, shape, late in zip(self._outputs, plan.outputs, self._late_outputs)
        ]
        if out is not None:
            self._check_overlap(views, given)
        sources, arena = self._ready(views, plan)
        targets = (ctypes.c_void_p * max(len(given), 1))(*[v.address if v else None for v in given])
        symbols = ctypes.create_string_buffer(plan.symbols, max(len(plan.symbols), 8))
        fault = (ctypes.c_int64 * 2)()
        code = model.run(model.address, sources, targets, symbols, arena.address, fault)
        table = dict(zip(self._names, self._unpack_symbols(symbols)))
        if code:
            raise failure(self._signature, code, fault, table)
        return self._collected(model, given, targets, table, as_torch)

    def _shapes_of(self, table: dict[str, int]) -> Sequence[tuple[int, ...]]:
        """The outputs' shapes; those of plain symbols, which were checked, without arithmetic."""
        if not all(self._simple_shapes):
            return self._signature.output_shapes(table)
        return [
            tuple([d if isinstance(d, int) else table[d] for d in spec.shape])
            for spec in self._signature.outputs
        ]

    def _collected(
        self, model: Model, given: Sequence[Any], targets: Any, table: dict[str, int], torch: bool
    ) -> list[Any]:
        """The outputs; those that the library made are owned by what is returned."""
        made: list[Any] = [None if v is not None else targets[i] for i, v in enumerate(given)]
        free = model.library.functions.cuvil_free
        found: list[Any] = []
        try:
            shapes = self._shapes_of(table)
            for view, slot, shape in zip(given, self._outputs, shapes):
                if view is not None:
                    found.append(view.keep)
                    continue
                address, made[len(found)] = made[len(found)], None
                found.append(_adopted(model, address, slot, shape, torch))
        finally:
            for address in made:
                if address is not None:
                    free(address)
        return found


def _adopted(
    model: Model, address: int, slot: Slot, shape: tuple[int, ...], as_torch: bool
) -> Any:
    """An array, or a PyTorch tensor, that owns memory which the library allocated; what is small
    is copied instead."""
    free = model.library.functions.cuvil_free
    size = slot.size * math.prod(shape)
    buffer = (ctypes.c_char * size).from_address(address)
    if size == 0:
        free(address)
        return new_output(slot, shape, as_torch).keep
    if size <= _COPIED:
        raw = np.empty(size, np.uint8)
        ctypes.memmove(raw.ctypes.data, address, size)
        free(address)
    else:
        # The function that frees keeps its library loaded.
        weakref.finalize(buffer, _free, model.library, address).atexit = False
        raw = np.frombuffer(memoryview(buffer), np.uint8)
    if as_torch:
        torch = sys.modules["torch"]
        return torch.from_numpy(raw).view(torch_dtype(slot)).reshape(shape)
    return raw.view(slot.numpy_dtype()).reshape(shape)


def _free(library: NativeLibrary, address: int) -> None:
    library.functions.cuvil_free(address)
