"""DLPack's DLTensor and the C entry points, through ctypes, as a C program sees them."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


class Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Status(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int32),
        ("index", ctypes.c_int32),
        ("axis", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("message", ctypes.c_char * 240),
    ]

    @property
    def text(self) -> str:
        return self.message.decode()


def tensor(
    array: np.ndarray, *, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None
) -> DLTensor:
    """A DLTensor over the array's memory; the array must outlive it."""
    dims = tuple(array.shape if shape is None else shape)
    made = DLTensor(
        array.__array_interface__["data"][0], Device(1, 0), len(dims),
        DataType(CODES[array.dtype.kind], array.dtype.itemsize * 8, 1),
        (ctypes.c_int64 * len(dims))(*dims), None, 0,
    )  # fmt: skip
    if strides is not None:
        made.strides = (ctypes.c_int64 * len(strides))(*strides)
    made.keep = array
    return made


def pointers(tensors: Sequence[DLTensor | None]) -> ctypes.Array:
    """An array of pointers, null for None."""
    kind = ctypes.POINTER(DLTensor)
    return (kind * max(len(tensors), 1))(
        *(kind() if t is None else ctypes.pointer(t) for t in tensors)
    )


class CModel:
    """A library loaded from a file, and a model made from weights."""

    def __init__(self, library: bytes, folder: Path, weights: np.ndarray | None = None) -> None:
        path = folder / f"{hashlib.sha256(library).hexdigest()[:16]}.so"
        if not path.exists():  # a library that is mapped may not be written to
            path.write_bytes(library)
        self.c = ctypes.CDLL(str(path))
        self.c.cuvil_describe.restype = ctypes.c_char_p
        self.c.cuvil_hash64.restype = ctypes.c_uint64
        self.c.cuvil_weights_size.restype = ctypes.c_uint64
        self.status = Status()
        self.model = ctypes.c_void_p()
        self.weights = None
        if weights is not None:
            block = np.zeros(weights.nbytes + 64, np.uint8)
            start = -block.__array_interface__["data"][0] % 64
            self.weights = block[start : start + weights.nbytes]
            self.weights[:] = weights.view(np.uint8)

    def create(self, size: int | None = None, offset: int = 0) -> int:
        address, count = None, 0
        if self.weights is not None:
            address = ctypes.c_void_p(self.weights.__array_interface__["data"][0] + offset)
            count = self.weights.nbytes
        count = count if size is None else size
        return int(self.c.cuvil_create(
            address, ctypes.c_uint64(count), None, ctypes.byref(self.model),
            ctypes.byref(self.status),
        ))  # fmt: skip

    def workspace_size(self, inputs: Sequence[DLTensor | None]) -> tuple[int, int]:
        """(code, bytes)"""
        size = ctypes.c_uint64(0)
        code = self.c.cuvil_workspace_size(
            self.model, pointers(inputs), len(inputs), ctypes.byref(size), ctypes.byref(self.status)
        )
        return code, size.value

    def output_shape(self, inputs: Sequence[DLTensor | None], index: int) -> tuple[int, list[int]]:
        """(code, 16 numbers: the dims come first, the rest is -7)"""
        shape = (ctypes.c_int64 * 16)(*[-7] * 16)
        code = self.c.cuvil_output_shape(
            self.model, pointers(inputs), len(inputs), index, shape, ctypes.byref(self.status)
        )
        return code, list(shape)

    def run(
        self, inputs: Sequence[DLTensor | None], outputs: Sequence[DLTensor | None],
        workspace: int | None = None, offset: int = 0, at: int | None = None,
    ) -> int:  # fmt: skip
        """Runs with a workspace of that many bytes (None: 1 MiB), ``offset`` bytes off 64, or at an
        address."""
        size = 1 << 20 if workspace is None else workspace
        block = np.zeros(size + 128, np.uint8)
        start = block.__array_interface__["data"][0]
        address = start + -start % 64 + offset if at is None else at
        return int(self.c.cuvil_run(
            self.model, pointers(inputs), len(inputs), pointers(outputs), len(outputs),
            ctypes.c_void_p(address), ctypes.c_uint64(size), ctypes.byref(self.status),
        ))  # fmt: skip
