"""Convolutions of dequantized bytes: as products of bytes where that is exact, against int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.ir.types import I32
from cuvil.reference.interpreter import run_module
from tests.codegen.compile_graph import build, outputs_of
from tests.frontends.onnx_models import FLOAT, model, node, retyped

F = np.float32
Array = np.ndarray[Any, Any]


def parts(rng: np.random.Generator, x: Any, w: Any, depth: int = 16) -> dict[str, Array]:
    """Weights [8, depth, 3, 3] with a scale and a zero point each, and the other constants."""
    ends = np.iinfo(w)
    weights = rng.integers(ends.min, ends.max + 1, (8, depth, 3, 3)).astype(w)
    zeros = np.full(8, 128 if w == np.uint8 else 0, w)
    return {
        "sx": np.array(0.02, F), "zx": np.array(7, x), "w": weights,
        "sw": rng.uniform(0.002, 0.01, 8).astype(F), "zw": zeros,
        "b": rng.normal(size=8).astype(F), "sy": np.array(0.3, F), "zy": np.array(100, np.uint8),
    }  # fmt: skip


def proto_of(kind: Any, constants: dict[str, Array], real: bool = False) -> ModelProto:
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=0),
        node("Conv", ["xf", "wf", "b"], ["c"], pads=[1, 0, 2, 1], strides=[2, 1]),
        *([] if real else [node("Relu", ["c"], ["r"]),
                           node("QuantizeLinear", ["r", "sy", "zy"], ["y"])]),
    ]  # fmt: skip
    code = TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8
    depth = constants["w"].shape[1]
    out = "c" if real else "y"
    proto = model(nodes, {"x": (code, ("n", depth, 9, 7))}, [out], constants)
    return retyped(proto, FLOAT if real else TensorProto.UINT8)


def summed(x: Array, c: dict[str, Array]) -> Array:
    """The convolution in f64, of which every product and sum is exact."""
    centred = x.astype(np.int64) - int(c["zx"])
    wide = np.pad(centred, ((0, 0), (0, 0), (1, 2), (0, 1)))
    w = c["w"].astype(np.int64) - c["zw"].astype(np.int64).reshape(-1, 1, 1, 1)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2]
    total = np.einsum("nchwij,ocij->nohw", seen, w).astype(np.float64)
    scale = float(c["sx"]) * c["sw"].astype(np.float64).reshape(-1, 1, 1)
    return np.asarray(total * scale + c["b"].astype(np.float64).reshape(-1, 1, 1))


def in_bytes(module: Module) -> bool:
    return any(op.short == "conv" and op.type.dtype == I32 for op in module.main.walk())


@pytest.mark.parametrize(
    ("x", "w"), [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]
)
def test_bytes_are_multiplied(x: Any, w: Any) -> None:
    rng = np.random.default_rng(4)
    c = parts(rng, x, w)
    ends = np.iinfo(x)
    for real in (True, False):
        module = capture_onnx(proto_of(x, c, real))
        assert in_bytes(module)
        with build(module) as artifact:
            for n in (1, 3):
                data = rng.integers(ends.min, ends.max + 1, (n, 16, 9, 7)).astype(x)
                want = summed(data, c)
                for (got,) in (
                    run_module(module, {"x": data}), outputs_of(artifact, module, {"x": data})
                ):  # fmt: skip
                    if real:
                        np.testing.assert_allclose(got, want, rtol=3e-7, atol=3e-6)
                        continue
                    steps = np.maximum(want, 0) / float(c["sy"])
                    tie = np.abs(steps - np.floor(steps) - 0.5) < 1e-4
                    exact = np.clip(np.rint(steps) + 100, 0, 255)
                    assert tie.mean() < 0.01
                    np.testing.assert_array_equal(got[~tie], exact[~tie])


def test_what_stays_in_f32() -> None:
    """Few channels, weights that don't fit, scales that are data or infinite."""
    rng = np.random.default_rng(5)
    usual = parts(rng, np.uint8, np.int8)
    wide = parts(rng, np.uint8, np.uint8)
    wide["zw"][3] = 0
    endless = {**usual, "sw": np.full(8, np.inf, F)}
    for constants in (parts(rng, np.uint8, np.int8, depth=3), wide, endless):
        assert not in_bytes(capture_onnx(proto_of(np.uint8, constants)))
    proto = proto_of(np.uint8, {k: v for k, v in usual.items() if k != "sx"})
    proto.graph.input.append(model([], {"sx": (FLOAT, ())}, []).graph.input[0])
    module = capture_onnx(proto)
    assert not in_bytes(module)
    data = rng.integers(0, 256, (2, 16, 9, 7)).astype(np.uint8)
    (got,) = run_module(module, {"x": data, "sx": usual["sx"]})
    steps = np.maximum(summed(data, usual), 0) / 0.3
    assert np.abs(got - np.clip(np.rint(steps) + 100, 0, 255)).max() <= 1
