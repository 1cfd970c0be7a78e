"""Python functions that a library calls back, for operators that have no other implementation."""

from __future__ import annotations

import contextlib
import ctypes
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from cuvil.errors import ArtifactError, CuvilError, InputError
from cuvil.ir.types import DTYPES
from cuvil.package.format import StrPath
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.late_artifact import LateArtifact
from cuvil.runtime.native import Model, NativeLibrary
from cuvil.runtime.tree import CallTree

Function = Callable[..., Any]


class _Tensor(ctypes.Structure):
    """cuvil::Tensor of native/custom.hpp."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int64),
        ("elements", ctypes.c_int64),
    ]


_Tensors = ctypes.POINTER(_Tensor)
_HOST_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, _Tensors, _Tensors)


class HostFunctions:
    """What one library may call back. An exception is kept until the call that met it ends."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = dict(functions)
        self._raised = threading.local()
        self._entry = _HOST_FUNCTION(self._call)  # lives as long as the library may call it

    def attach(self, library: NativeLibrary) -> None:
        """Let the library call these functions."""
        library.set_host_function(self._entry)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Around a run: what a function raised comes out of it, whatever else was wrong."""
        self._raised.error = None
        try:
            yield
        except CuvilError:
            if self._raised.error is None:
                raise
        error, self._raised.error = self._raised.error, None
        if error is not None:
            raise error

    def _call(self, text: bytes, inputs: Any, outputs: Any) -> int:
        try:
            call = json.loads(text)
            if getattr(self._raised, "error", None) is not None:
                return 1  # an earlier one failed: nothing that follows has a meaning
            self._run(call, inputs, outputs)
        except BaseException as error:  # nothing may pass through the library
            self._raised.error = error
            return 1
        return 0

    def _run(self, call: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
        arrays = _arrays(inputs, call["inputs"])
        for array in arrays:
            array.flags.writeable = False
        targets = _arrays(outputs, call["outputs"])
        got = self.functions[call["op"]](*arrays, **call["attrs"])
        results = list(got) if isinstance(got, (tuple, list)) else [got]
        if len(results) != len(targets):
            raise InputError(f"{call['op']} gave {len(results)} results, not {len(targets)}")
        for target, result in zip(targets, results):
            array = np.asarray(result)
            if array.shape != target.shape or array.dtype != target.dtype:
                raise InputError(
                    f"{call['op']} gave {array.dtype}{list(array.shape)}; its shape rule said "
                    f"{target.dtype}{list(target.shape)}",
                    hint="let the function and its shape rule agree",
                )
            target[...] = array


def _arrays(tensors: Any, dtypes: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    found = []
    for index, name in enumerate(dtypes):
        tensor = tensors[index]
        shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
        dtype = DTYPES[name].numpy
        size = int(tensor.elements) * dtype.itemsize
        if size == 0:
            found.append(np.empty(shape, dtype))
            continue
        memory = (ctypes.c_char * size).from_address(tensor.data)
        found.append(np.frombuffer(memoryview(memory), dtype).reshape(shape))
    return found


class InProcessArtifact(Artifact):
    """A compiled model that calls Python functions of this process; it can't be saved."""

    def __init__(self, model: Model, tree: CallTree | None, functions: HostFunctions) -> None:
        super().__init__(model, tree)
        self._functions = functions

    def save(self, path: StrPath) -> NoReturn:
        """Raises ArtifactError: the functions are in this process."""
        names = ", ".join(sorted(self._functions.functions))
        raise ArtifactError(
            f"an artifact that runs Python functions ({names}) can't be saved",
            hint="register the operator with C++ source or as a composition",
        )

    def _execute(self, args: Sequence[Any]) -> list[Any]:
        return self._execute_checked(self._open(), args, None)

    def _execute_checked(
        self, model: Model, args: Sequence[Any], out: Mapping[str, Any] | None
    ) -> list[Any]:
        with self._functions.raising():
            return super()._execute_checked(model, args, out)


class LateInProcessArtifact(InProcessArtifact, LateArtifact):
    """One with sizes that depend on data, too."""
