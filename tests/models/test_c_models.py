"""Known models as C, built and run here, verified by `cuvil.compile` at several shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cuvil
from cuvil.runners.built import Built

BATCH, SEQ = cuvil.Dim("batch", min=1, max=2), cuvil.Dim("seq", min=1, max=64)


def _mobilenet(folder: Path) -> tuple[Any, dict[str, Any]]:
    import transformers

    torch.manual_seed(0)
    model = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config())
    return model.eval(), {"example_inputs": (torch.randn(1, 3, 224, 224),)}


def _minilm(folder: Path) -> tuple[Any, dict[str, Any]]:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    ids = torch.randint(0, 30000, (2, 16))
    dims = {name: {0: BATCH, 1: SEQ} for name in ("input_ids", "attention_mask")}
    example = (ids, torch.ones_like(ids))
    return transformers.BertModel(config).eval(), {"example_inputs": example, "dynamic_dims": dims}


def _lstm(folder: Path) -> tuple[Any, dict[str, Any]]:
    torch.manual_seed(0)
    example = (torch.randn(16, 1, 512),)
    return torch.nn.LSTM(512, 512, num_layers=2).eval(), {"example_inputs": example}


def _recognition(folder: Path) -> tuple[Any, dict[str, Any]]:
    path = "rapidocr-onnxruntime/rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
    width = cuvil.Dim("width", min=16, max=320)
    return folder / path, {"input_spec": [("x", "float32", (BATCH, 3, 48, width))]}


def _speech(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Branches three deep."""
    shape = (BATCH, cuvil.Dim("samples", min=1, max=1100))
    state = ("state", "float32", (2, "batch", 128))
    spec = [("input", "float32", shape), state, ("sr", "int64", ())]
    return folder / "silero-vad/silero_vad/data/silero_vad.onnx", {"input_spec": spec}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("make", [_mobilenet, _minilm, _lstm, _recognition, _speech])
def test_known_models_in_c(
    make: Callable[[Path], tuple[Any, dict[str, Any]]], models_folder: Path, tmp_path: Path
) -> None:
    model, how = make(models_folder)
    built = cuvil.compile(model, target="c", **how)
    assert isinstance(built, Built)
    memory = built.manifest.extra["memory"]
    assert memory["ram"] > 0 and memory["code"] < 32 << 10
    source, header = built.save(tmp_path / "net.c")
    assert source.stat().st_size > memory["weights"] and header.exists()
