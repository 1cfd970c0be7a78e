"""Cases of the onnx package whose expected values are not what the specification says.

Each has the right values here, computed in f64 from the specification's formula, and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
Values = Mapping[str, Array]
Right = Callable[[onnx.ModelProto, Values], Sequence[Array]]


def _attention(model: onnx.ModelProto, inputs: Values) -> Sequence[Array]:
    """softmax(Q K' / sqrt(size) + causal mask) V"""
    q, k, v = (a.astype(np.float64) for a in list(inputs.values())[:3])
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return [(weights / weights.sum(-1, keepdims=True) @ v).astype(np.float16)]


def _inverse_dft(model: onnx.ModelProto, inputs: Values) -> Sequence[Array]:
    x = next(iter(inputs.values())).astype(np.float64)
    found = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=1)
    return [np.stack([found.real, found.imag], -1).astype(np.float32)]


def _resize_to_sizes(model: onnx.ModelProto, inputs: Values) -> Sequence[Array]:
    """The case's own Resize, asked for sizes, which are whole, instead of scales."""
    x, scales = inputs.values()
    sizes = np.floor(np.array(x.shape) * scales).astype(np.int64)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])
    node.attribute.extend(model.graph.node[0].attribute)
    graph = helper.make_graph(
        [node],
        "resize",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, sizes.shape),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=model.opset_import)
    found: Sequence[Array] = ReferenceEvaluator(made).run(None, {"x": x, "sizes": sizes})
    return found


_ROUNDED = "the expected values are rounded to f16 on the way"
_NOISE = "the expected values carry an f32 transform's noise around 0"
_ALIGNED = "the expected values divide by the size before that is rounded down"

CORRECTIONS: Mapping[str, tuple[Right, str]] = {
    "test_attention_4d_causal_fp16_expanded": (_attention, _ROUNDED),
    "test_dft_inverse": (_inverse_dft, _NOISE),
    "test_dft_inverse_opset19": (_inverse_dft, _NOISE),
    "test_resize_downsample_scales_cubic_align_corners": (_resize_to_sizes, _ALIGNED),
    "test_resize_downsample_scales_linear_align_corners": (_resize_to_sizes, _ALIGNED),
}
