"""Models of one com.microsoft operator, and their comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import run_ort

Array = np.ndarray[Any, Any]
DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class Call:
    """One node with its inputs (None: left out); ``constants`` are the indices of those stored in
    the model, ``dims`` names of symbolic dims by input."""

    op: str
    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    constants: Collection[int] = ()
    dims: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    domain: str = DOMAIN
    opset: int = 17

    def model(self) -> ModelProto:
        """The model of this node alone."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        given, stored = [], []
        for i, array in enumerate(self.inputs):
            if array is None:
                continue
            if i in self.constants:
                stored.append(numpy_helper.from_array(np.asarray(array), names[i]))
                continue
            shape = self.dims.get(i, array.shape)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            given.append(helper.make_tensor_value_info(names[i], kind, shape))
        node = helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attrs)
        made = [helper.make_empty_tensor_value_info(y) for y in self.outputs if y]
        graph = helper.make_graph([node], "one", given, made, stored)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def feeds(self) -> dict[str, Array]:
        """The arrays of the graph's inputs."""
        return {
            f"x{i}": x
            for i, x in enumerate(self.inputs)
            if x is not None and i not in self.constants
        }

    def ours(self) -> list[Array]:
        """What the captured model gives through the reference."""
        return run_module(capture_onnx(self.model()), self.feeds())

    def theirs(self, types: Sequence[Any]) -> list[Array]:
        """onnxruntime's outputs; ``types`` are the NumPy dtypes to declare them with."""
        proto = self.model()
        for value, kind in zip(proto.graph.output, types, strict=True):
            value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return run_ort(proto, self.feeds())


def compare(got: Sequence[Array], want: Sequence[Array], tolerance: float, steps: int = 0) -> None:
    """Dtypes and shapes are equal; floats within the tolerance, integers within ``steps``."""
    assert [(a.dtype, a.shape) for a in got] == [(b.dtype, b.shape) for b in want]
    for a, b in zip(got, want, strict=True):
        if a.dtype.kind == "f":
            a, b = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        elif steps:
            away = np.abs(a.astype(np.int64) - b.astype(np.int64))
            assert away.max(initial=0) <= steps, f"{away.max()} steps apart"
            assert (away != 0).mean() < 0.1 or away.size < 20, "more than rounding"
        else:
            np.testing.assert_array_equal(a, b)


def check(call: Call, tolerance: float = 2e-5, steps: int = 0) -> None:
    """The call, captured and run by the reference, against onnxruntime."""
    got = call.ours()
    try:
        compare(got, call.theirs([a.dtype for a in got]), tolerance, steps)
    except AssertionError as error:
        shapes = [None if x is None else x.shape for x in call.inputs]
        raise AssertionError(f"{call.op} {dict(call.attrs)} {shapes}: {error}") from None


class Maker:
    """Random inputs, the same in every run."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def f(self, *shape: int) -> Array:
        """Normally distributed f32."""
        return self.rng.normal(size=shape).astype(np.float32)

    def scales(self, *shape: int, low: float = 0.01, high: float = 0.05) -> Array:
        """Positive f32."""
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def bytes(self, kind: Any, *shape: int) -> Array:
        """All values of a small integer type."""
        info = np.iinfo(kind)
        return self.rng.integers(info.min, info.max + 1, shape).astype(kind)

    def ints(self, low: int, high: int, *shape: int, kind: Any = np.int32) -> Array:
        """Integers from low up to below high."""
        return self.rng.integers(low, high, shape).astype(kind)

    def mask(self, *shape: int) -> Array:
        """i32 zeros and ones; every row has a one."""
        out = (self.rng.random(shape) > 0.3).astype(np.int32)
        out[..., 0] = 1
        return out
