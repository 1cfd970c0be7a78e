"""Calls of operators as ONNX models: exported as a model is, run in ONNX Runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from cuvil.api.manifest import signature_of
from cuvil.api.onnx_backend import portable
from cuvil.frontends.onnx_export import export_module
from cuvil.integrations.run_onnx import in_onnxruntime
from cuvil.integrations.run_onnx_reference import evaluate
from cuvil.ir.core import Module
from cuvil.ir.types import dtype_of
from cuvil.ops.numeric import is_float
from cuvil.passes.pipeline import PassOptions, lower
from tests.ops.values import Array

_TOLERANCE = {"float64": 1e-6, "float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}


def onnx_of(module: Module) -> onnx.ModelProto:
    """The model of a captured module, which is lowered in place."""
    lowered = lower(module, "fused", portable(PassOptions()))
    exported = export_module(lowered, signature_of(lowered.main).bindings)
    model, graph = onnx.ModelProto.FromString(exported.head), onnx.GraphProto()
    graph.ParseFromString(exported.graph)
    for weight in exported.weights:
        tensor = graph.initializer.add()
        tensor.name, tensor.data_type = weight.name, weight.type
        tensor.dims.extend(weight.dims)
        tensor.raw_data = weight.array.tobytes()
    model.graph.CopyFrom(graph)
    return model


def run_here(
    model: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path, referable: bool = True
) -> list[Array] | None:
    """The outputs; None where neither ONNX Runtime nor the reference evaluator (if the operator is
    ``referable``) can run it."""
    place = folder / "model.onnx"
    place.write_bytes(model.SerializeToString())
    for run in (in_onnxruntime, evaluate) if referable else (in_onnxruntime,):
        with contextlib.suppress(Exception):  # each runtime has classes of its own
            with np.errstate(all="ignore"):
                found = run(place, feeds)
            if found is not None:
                return found
    return None


def run_file(place: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of a file in ONNX Runtime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(place), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(a) for a in session.run(None, dict(feeds))]


def close(got: Array, want: Array) -> bool:
    """Equal for integers; else within a tolerance of the type's precision and the result's size."""
    if dtype_of(want.dtype).is_narrow and got.dtype == np.uint8:
        got = got.view(want.dtype)  # as ONNX Runtime hands out what NumPy has not
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    tolerance = _TOLERANCE.get(want.dtype.name)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
    if tolerance is None:
        return bool(np.array_equal(a, b, equal_nan=True))
    size = np.max(np.abs(b[np.isfinite(b)]), initial=1e-30)
    top = 0.99 * float(np.finfo(np.float32 if want.dtype.itemsize == 2 else want.dtype).max)
    if want.dtype == np.float16:
        top = 6e4
    with np.errstate(all="ignore"):
        near = np.isclose(a, b, rtol=tolerance, atol=tolerance * min(size, 1.0), equal_nan=True)
        past = (np.abs(a) >= top) & (np.abs(b) >= top) & (np.sign(a) == np.sign(b))
    return bool((near | past).all())


def tamed(arrays: Sequence[Array], how: str) -> list[Array]:
    """Operands without what a runtime has its own way with: "finite", or "small" too."""
    out: list[Any] = []
    for array in arrays:
        if is_float(array):
            low = 0.0 if how == "small" else -100.0
            wide = array.astype(np.float64)
            array = np.clip(np.nan_to_num(wide, posinf=100, neginf=low), low, 100)
        out.append(array)
    return [np.asarray(a).astype(b.dtype) for a, b in zip(out, arrays, strict=True)]
