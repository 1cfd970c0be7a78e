"""Memory between pages that can't be touched: a kernel that leaves its tensors ends the process."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.api.manifest import signature_of
from cuvil.ir.core import Module
from cuvil.runtime.artifact import Artifact

Array = np.ndarray[Any, Any]
_PAGE, _FENCE = 4096, 1 << 24
_PRIVATE_ANONYMOUS_UNRESERVED = 0x4022
_READ_WRITE, _ALIGNMENT = 3, 64


@dataclass
class _Arena:
    address: int
    size: int


@dataclass
class Fence:
    """Blocks that end (or begin, with ``at_end`` False) where memory ends."""

    at_end: bool = True
    _blocks: list[tuple[int, int]] = field(default_factory=list)
    _libc: ctypes.CDLL = field(default_factory=lambda: ctypes.CDLL(None))

    def block(self, size: int, alignment: int) -> int:
        """The address of ``size`` bytes that hold no zeros."""
        body = -(-size // _PAGE) * _PAGE
        number = ctypes.c_size_t
        self._libc.mmap.restype = ctypes.c_void_p
        start = self._libc.mmap(
            None, number(body + 2 * _FENCE), 0, _PRIVATE_ANONYMOUS_UNRESERVED, -1, number(0)
        )
        if start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"no memory for {size} bytes and their fence")
        self._blocks.append((start, body + 2 * _FENCE))
        first = start + _FENCE
        if body:
            self._libc.mprotect(ctypes.c_void_p(first), number(body), _READ_WRITE)
            ctypes.memset(first, 0xA5, body)
        return (first + body - size) // alignment * alignment if self.at_end else first

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of anything."""
        size = math.prod(shape) * dtype.itemsize
        memory = (ctypes.c_char * size).from_address(self.block(size, dtype.itemsize))
        return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)

    def copy(self, array: Array) -> Array:
        """A copy of an array."""
        made = self.empty(array.shape, array.dtype)
        made[...] = array
        return made

    def close(self) -> None:
        """Give all of it back; no array may be used any more."""
        for start, size in self._blocks:
            self._libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(size))
        self._blocks.clear()

    def run(self, artifact: Artifact, module: Module, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs of a call whose inputs, outputs and workspace are fenced.

        ``module`` is what the artifact was built from. Raises as calling does.
        """
        signature = signature_of(module.main)
        given = {name: self.copy(np.asarray(value)) for name, value in inputs.items()}
        shapes = signature.output_shapes(artifact.symbols_for(given))
        out = {
            spec.name: self.empty(shape, spec.element.numpy)
            for spec, shape in zip(signature.outputs, shapes, strict=True)
            if not signature.is_late(spec)
        }
        size = artifact.workspace_bytes(given)
        artifact.scratch.arena = _Arena(self.block(size, _ALIGNMENT), size)
        try:
            found = artifact.run(given, out)
        finally:
            del artifact.scratch.arena
        return [np.array(found[spec.name]) for spec in signature.outputs]
