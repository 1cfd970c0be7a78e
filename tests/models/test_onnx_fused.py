"""A transformer as onnxruntime's tools leave it: fused, in half precision, quantized."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import cuvil
from tests.models.judge import run, scaled_error

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.slow
NAMES = ("input_ids", "attention_mask", "token_type_ids")
HEADS, HIDDEN = 4, 64


class _Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        torch.manual_seed(0)
        config = BertConfig(
            hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS, vocab_size=1000,
            intermediate_size=128, attn_implementation="eager",
        )  # fmt: skip
        self.model = BertModel(config).eval()

    def forward(self, ids: Any, mask: Any, kinds: Any) -> Any:
        out = self.model(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
        return out.last_hidden_state


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert") / "bert.onnx"
    ids = torch.ones(2, 16, dtype=torch.int64)
    dims = {name: {0: "b", 1: "s"} for name in (*NAMES, "y")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Encoder().eval(), (ids, ids, ids), str(path), input_names=list(NAMES),
            output_names=["y"], dynamic_axes=dims, opset_version=14, dynamo=False,
        )  # fmt: skip
    return path


def _optimised(path: Path, many: bool, half: bool = False) -> Path:
    tools = importlib.import_module("onnxruntime.transformers.optimizer")
    options = importlib.import_module("onnxruntime.transformers.fusion_options")
    chosen = options.FusionOptions("bert")
    chosen.use_multi_head_attention = many
    model = tools.optimize_model(
        str(path), "bert", HEADS, HIDDEN, optimization_options=chosen, opt_level=0
    )
    if half:
        model.convert_float_to_float16()
    out = path.with_name(f"{'many' if many else 'one'}{half}.onnx")
    model.save_model_to_file(str(out))
    return out


def _quantized(path: Path, kind: str) -> Path:
    tools = importlib.import_module("onnxruntime.quantization")
    out = path.with_name(f"{path.stem}{kind}.onnx")
    logging.disable(logging.WARNING)
    try:
        tools.quantize_dynamic(
            str(path), str(out), weight_type=getattr(tools.QuantType, kind),
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return out


def _saved_by_runtime(path: Path) -> Path:
    """What onnxruntime makes of a model before it runs it."""
    out = path.with_name(f"{path.stem}-saved.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options)
    return out


def _domain(path: Path) -> Counter[str]:
    return Counter(n.op_type for n in onnx.load(path).graph.node if n.domain == "com.microsoft")


def _check(path: Path, bar: float) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    rng = np.random.default_rng(0)
    with cuvil.compile(path, verify=False, threads=1) as artifact:
        for batch, length in ((1, 16), (2, 9), (3, 1)):
            kinds = {i.name: np.int32 if "int32" in i.type else np.int64
                     for i in session.get_inputs()}  # fmt: skip
            inputs = {
                "input_ids": rng.integers(0, 1000, (batch, length)),
                "attention_mask": np.ones((batch, length)),
                "token_type_ids": rng.integers(0, 2, (batch, length)),
            }
            inputs["attention_mask"][-1, 1 + length // 2 :] = 0
            inputs = {name: array.astype(kinds[name]) for name, array in inputs.items()}
            (got,), (want,) = run(artifact, inputs), session.run(None, inputs)
            error = scaled_error(got, want)
            assert error < bar, f"{path.name} {batch} x {length}: {error:.1e}"


def test_fused_attention(exported: Path) -> None:
    path = _optimised(exported, False)
    assert _domain(path) >= Counter({"Attention": 2, "EmbedLayerNormalization": 1, "BiasGelu": 2,
                                     "SkipLayerNormalization": 4})  # fmt: skip
    _check(path, 1e-5)
    path = _optimised(exported, True)
    assert _domain(path) >= Counter({"MultiHeadAttention": 2})
    _check(path, 1e-5)
    _check(_optimised(exported, True, half=True), 5e-3)


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_quantized(exported: Path, kind: str) -> None:
    """A last bit that differs may become a step of a byte later on, so the bar is wide."""
    path = _quantized(_optimised(exported, False), kind)
    assert _domain(path) >= Counter({"QAttention": 2, "QEmbedLayerNormalization": 1})
    _check(path, 2e-2)
    path = _saved_by_runtime(_quantized(exported, kind))
    assert _domain(path)["DynamicQuantizeMatMul"] + _domain(path)["MatMulIntegerToFloat"] >= 8
    _check(path, 2e-2)
