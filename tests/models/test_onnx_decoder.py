"""A decoder layer as LLM exporters write it with com.microsoft, compiled with every size symbolic,
against onnxruntime: a prompt, then token after token through its cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import cuvil
from tests.models.judge import assert_close, run

Array = np.ndarray[Any, Any]
HEADS, SHARED, SIZE, WIDTH, LONGEST = 4, 2, 16, 64, 32
FLOAT, I64 = TensorProto.FLOAT, TensorProto.INT64
MS = {"domain": "com.microsoft"}


def _weights(rng: np.random.Generator) -> dict[str, Array]:
    blocks = WIDTH // 32
    angles = np.arange(LONGEST)[:, None] / 10 ** np.linspace(0, 2, SIZE // 2)
    columns = (HEADS + 2 * SHARED) * SIZE
    return {
        "qkv": rng.integers(0, 256, (columns, blocks, 16)).astype(np.uint8),
        "qkv_scales": rng.uniform(0.01, 0.03, (columns, blocks)).astype(np.float32),
        "out": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8,
        "norm": rng.uniform(0.5, 1.5, WIDTH).astype(np.float32),
        "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32),
        "one": np.array([1], np.int64), "first": np.array(1, np.int64),
    }  # fmt: skip


def _model(window: int) -> ModelProto:
    """Norm, 4 bit projection, attention with its cache and rotation, residual and norm."""
    node = helper.make_node
    nodes = [
        node("SimplifiedLayerNormalization", ["x", "norm"], ["normed"], epsilon=1e-6),
        node("MatMulNBits", ["normed", "qkv", "qkv_scales"], ["packed"], **MS, K=WIDTH, bits=4,
             N=(HEADS + 2 * SHARED) * SIZE, block_size=32),
        node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        node("Sub", ["count", "first"], ["last"]),
        node("Cast", ["last"], ["lengths"], to=TensorProto.INT32),
        node("Shape", ["mask"], ["sizes"]),
        node("Gather", ["sizes", "first"], ["total64"], axis=0),
        node("Cast", ["total64"], ["total"], to=TensorProto.INT32),
        node("GroupQueryAttention",
             ["packed", "", "", "past_k", "past_v", "lengths", "total", "cos", "sin"],
             ["mixed", "k", "v"], **MS, num_heads=HEADS, kv_num_heads=SHARED, do_rotary=1,
             local_window_size=window),
        node("MatMul", ["mixed", "out"], ["projected"]),
        node("SkipSimplifiedLayerNormalization", ["projected", "x", "norm"], ["y", "", "", "sum"],
             **MS, epsilon=1e-6),
    ]  # fmt: skip
    cache = ["batch", SHARED, "past", SIZE]
    inputs = [("x", FLOAT, ["batch", "seq", WIDTH]), ("mask", I64, ["batch", "total"]),
              ("past_k", FLOAT, cache), ("past_v", FLOAT, cache)]  # fmt: skip
    graph = helper.make_graph(
        nodes, "decoder", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("y", "sum", "k", "v")],
        [numpy_helper.from_array(a, k) for k, a in _weights(np.random.default_rng(0)).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("window", [-1, 4])
def test_a_prompt_and_tokens(window: int) -> None:
    proto = _model(window)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(1)
    with cuvil.compile(proto, verify=False, threads=1) as artifact:
        for batch, prompt in ((1, 5), (2, 7)):
            cache = [np.zeros((batch, SHARED, 0, SIZE), np.float32)] * 2
            for rows in (prompt, 1, 1, 1):
                total = cache[0].shape[2] + rows
                inputs = {
                    "x": rng.normal(size=(batch, rows, WIDTH)).astype(np.float32),
                    "mask": np.ones((batch, total), np.int64),
                    "past_k": cache[0], "past_v": cache[1],
                }  # fmt: skip
                got, want = run(artifact, inputs), session.run(None, inputs)
                assert_close(got, want, f"batch {batch}, {rows} rows of {total}")
                cache = [np.asarray(a) for a in got[2:]]
