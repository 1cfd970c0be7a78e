"""The table of kernels' ways in a library that is built to be retuned, and what it records.

A library that is not has none of these functions. Nothing here waits for a call, and no call waits
for anything here.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cuvil.errors import ArtifactError, ShapeConstraintError
from cuvil.ir.signature import size_at
from cuvil.runtime.arena import Arena
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.native import Model, declared

Array = np.ndarray[Any, Any]
RING = 128  # kRetuneRing of native/retune.hpp
_POINTER, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cuvil_retune_ticks": (ctypes.c_uint64, ()),
    "cuvil_retune_taken": (_I64, (_I32,)),
    "cuvil_retune_read": (None, (_I32, _POINTER)),
    "cuvil_retune_way": (_I32, (_I32, _I32)),
    "cuvil_retune_set": (None, (_I32, _I32, _I32)),
    "cuvil_retune_measure": (
        _I32, (*(_POINTER,) * 5, _I32, _POINTER, _I32, ctypes.c_uint64, _I32, _POINTER),
    ),
}  # fmt: skip
_SAMPLE = 0.01  # seconds over which the counter's rate is found


class Taken(NamedTuple):
    """One call: how long it took, and its sizes."""

    seconds: float
    sizes: dict[str, int]


class Ways:
    """The table of an artifact; it does not keep the artifact alive.

    Every method raises ArtifactError once the artifact is closed or gone.
    """

    def __init__(self, artifact: Artifact) -> None:
        """Raises ArtifactError for a library that is not built for this."""
        self._artifact = weakref.ref(artifact.native)
        self._signature = artifact.manifest.signature
        self._names = [symbol.name for symbol in self._signature.symbols]
        self._functions = declared(self._model().library.functions, _FUNCTIONS, "retuned")
        self.threads = artifact.threads
        start, ticks = time.perf_counter(), self._functions.cuvil_retune_ticks()
        time.sleep(_SAMPLE)
        passed = self._functions.cuvil_retune_ticks() - ticks
        self._second = max(1.0, passed / (time.perf_counter() - start))

    def _model(self) -> Model:
        artifact = self._artifact()
        if artifact is None:
            raise ArtifactError("this artifact is gone", hint="load it again")
        return artifact.library_model()

    def taken(self, span: int) -> int:
        """How many calls a range had."""
        self._model()
        return int(self._functions.cuvil_retune_taken(span))

    def latest(self, span: int, count: int) -> list[Taken]:
        """The last calls of a range, at most as many as it had and the library keeps.

        A call that ends meanwhile may be among them with sizes of another one."""
        model = self._model()
        width = 1 + len(self._names)
        ring = np.zeros((RING, width), np.int64)
        model.library.functions.cuvil_retune_read(span, ring.ctypes.data)
        end = self.taken(span)
        places = [n % RING for n in _last(end, min(count, RING))]
        return [
            Taken(int(row[0]) / self._second, dict(zip(self._names, map(int, row[1:]))))
            for row in ring[places]
        ]

    def way(self, span: int, call: int) -> int:
        """What runs for a kernel call in a range."""
        self._model()
        return int(self._functions.cuvil_retune_way(span, call))

    def choose(self, span: int, call: int, way: int) -> None:
        """Let another way run from now on."""
        self._model()
        self._functions.cuvil_retune_set(span, call, way)

    def bench(self, sizes: Mapping[str, int]) -> Bench | None:
        """Memory in which kernels can be run alone at these sizes; None where the model does not
        take them."""
        signature = self._signature
        try:
            shapes = [
                tuple(size_at(dim, sizes) or 0 for dim in spec.shape) for spec in signature.inputs
            ]
            if signature.bind(shapes) != dict(sizes):
                return None
            outputs = signature.output_shapes(sizes)
        except ShapeConstraintError:
            return None
        bytes_of = [
            [spec.element.size * math.prod(shape) for spec, shape in zip(specs, found)]
            for specs, found in ((signature.inputs, shapes), (signature.outputs, outputs))
        ]
        symbols = struct.pack(f"={len(self._names)}q", *[sizes[name] for name in self._names])
        return Bench(self._model(), self._second, symbols, *bytes_of)


class Bench:
    """Inputs and outputs of zeros, and a workspace, apart from those of any call."""

    def __init__(
        self, model: Model, second: float, symbols: bytes, inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:  # fmt: skip
        self._model = model
        self._second = second
        self._symbols = ctypes.create_string_buffer(symbols, max(8, len(symbols)))
        self._workspace = Arena(max(1, model.workspace_bytes(symbols)))
        ctypes.memset(self._workspace.address, 0, self._workspace.size)
        self._blocks = [[_zeros(size) for size in sizes] for sizes in (inputs, outputs)]
        self._tensors = [
            (_POINTER * max(1, len(blocks)))(*[block.address for block in blocks])
            for blocks in self._blocks
        ]

    def measure(self, call: int, ways: Sequence[int], seconds: float, rounds: int) -> Array:
        """Seconds of a kernel call by each of these ways in turn, [rounds, ways]: as many rounds as
        fit in so many seconds, none where not even one does."""
        found = np.zeros((rounds, len(ways)), np.uint64)
        numbers = np.array(ways, np.int32)
        functions = declared(self._model.library.functions, _FUNCTIONS, "retuned")
        done = functions.cuvil_retune_measure(
            self._model.address, *self._tensors, self._symbols, self._workspace.address,
            call, numbers.ctypes.data, len(ways), max(0, int(seconds * self._second)), rounds,
            found.ctypes.data,
        )  # fmt: skip
        return found[:done] / self._second


def _zeros(size: int) -> Arena:
    block = Arena(max(1, size))
    ctypes.memset(block.address, 0, block.size)
    return block


def _last(end: int, count: int) -> range:
    return range(max(0, end - count), end)
