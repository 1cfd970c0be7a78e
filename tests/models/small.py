"""Every architecture at a size that compiles in seconds: real code, small configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers as tf

from tools import zoo

Array = np.ndarray[Any, Any]
VOCABULARY = 100
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64
}  # fmt: skip
NO_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@dataclass(frozen=True)
class Small:
    """``build()`` gives the module, ``inputs(*sizes)`` its inputs by name; sizes[0] is what it is
    captured with."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[..., dict[str, Array]]
    dynamic: Any
    sizes: tuple[tuple[int, ...], ...]

    def model(self) -> torch.nn.Module:
        """Built with seeded weights, for inference."""
        torch.manual_seed(0)
        model: torch.nn.Module = zoo.lively(self.build()).eval()
        return model


def ids(batch: int, seq: int) -> Array:
    """Random token numbers."""
    rng = np.random.default_rng(batch * 100 + seq)
    return rng.integers(3, VOCABULARY, (batch, seq), dtype=np.int64)


def _ids(batch: int, seq: int) -> dict[str, Array]:
    return {"input_ids": ids(batch, seq)}


def _masked(batch: int, seq: int) -> dict[str, Array]:
    mask = np.ones((batch, seq), np.int64)
    mask[0, seq // 2 + 1 :] = 0
    return {"input_ids": ids(batch, seq), "attention_mask": mask}


def _floats(name: str, *rest: int) -> Callable[..., dict[str, Array]]:
    def make(*sizes: int) -> dict[str, Array]:
        rng = np.random.default_rng(sum(sizes))
        return {name: rng.standard_normal((*sizes, *rest), dtype=np.float32)}

    return make


def _picture(batch: int, height: int = 32, width: int = 32) -> dict[str, Array]:
    rng = np.random.default_rng(batch)
    return {"pixel_values": rng.standard_normal((batch, 3, height, width), dtype=np.float32)}


def gpt2() -> torch.nn.Module:
    """Two layers."""
    config = tf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                           bos_token_id=1, eos_token_id=2)  # fmt: skip
    return tf.GPT2LMHeadModel(config)


def llama() -> torch.nn.Module:
    """Two layers, grouped key-value heads."""
    config = tf.LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, **SMALL, **NO_TOKENS)
    return tf.LlamaForCausalLM(config)


def bert() -> torch.nn.Module:
    """Two layers."""
    return tf.BertModel(tf.BertConfig(vocab_size=VOCABULARY, **SMALL))


def vit() -> torch.nn.Module:
    """Two layers over 16 patches."""
    return tf.ViTModel(tf.ViTConfig(image_size=32, patch_size=8, **SMALL))


def resnet() -> torch.nn.Module:
    """Two stages of basic blocks."""
    return tf.ResNetModel(
        tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
    )


def mobilenet() -> torch.nn.Module:
    """A quarter of the width."""
    return tf.MobileNetV2Model(tf.MobileNetV2Config(image_size=32, depth_multiplier=0.25))


def efficientnet() -> torch.nn.Module:
    """A quarter of width and depth."""
    return tf.EfficientNetModel(
        tf.EfficientNetConfig(
            width_coefficient=0.25, depth_coefficient=0.25, image_size=32, hidden_dim=320
        )
    )


def whisper_encoder() -> torch.nn.Module:
    """One layer over 20 positions."""
    config = tf.WhisperConfig(
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100,
        max_source_positions=20, num_mel_bins=8, decoder_start_token_id=1, **NO_TOKENS,
    )  # fmt: skip
    return tf.WhisperModel(config).encoder


def t5_encoder() -> torch.nn.Module:
    """Two layers; positions are relative."""
    config = tf.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    return tf.T5EncoderModel(config)


def swin() -> torch.nn.Module:
    """Two stages; every second layer has shifted windows."""
    return tf.SwinModel(
        tf.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2],
            window_size=4,
        )
    )  # fmt: skip


def mlp() -> torch.nn.Module:
    """Two layers."""
    return torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.ReLU(), torch.nn.Linear(33, 10))


_TEXT_SIZES = ((2, 8), (1, 1), (1, 7), (3, 1), (2, 17))
_IDS = {"input_ids": {0: "batch", 1: "seq"}}
_MASKED = {**_IDS, "attention_mask": {0: "batch", 1: "seq"}}
_BATCH = {"pixel_values": {0: "batch"}}
_ANY_PICTURE = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
_BATCHES = ((2,), (1,), (3,))

MODELS: Mapping[str, Small] = {
    "mlp": Small(mlp, _floats("input", 20), {"input": {0: "batch"}}, ((2,), (1,), (7,), (33,))),
    "lstm": Small(
        lambda: torch.nn.LSTM(5, 7, 2, batch_first=True), _floats("input", 5),
        {"input": {0: "batch", 1: "steps"}}, ((3, 4), (1, 1), (1, 9), (5, 2)),
    ),
    "bert": Small(bert, _masked, _MASKED, _TEXT_SIZES),
    "gpt2": Small(gpt2, _ids, _IDS, _TEXT_SIZES),
    "llama": Small(llama, _ids, _IDS, _TEXT_SIZES),
    "t5-encoder": Small(t5_encoder, _ids, _IDS, _TEXT_SIZES),
    "swin": Small(swin, _picture, _BATCH, _BATCHES),
    "vit": Small(vit, _picture, _BATCH, _BATCHES),
    "resnet": Small(resnet, _picture, _ANY_PICTURE, ((2, 32, 32), (1, 33, 20), (3, 17, 48))),
    "mobilenet": Small(mobilenet, _picture, _BATCH, _BATCHES),
    "efficientnet": Small(efficientnet, _picture, _BATCH, _BATCHES),
    "whisper-encoder": Small(
        whisper_encoder, _floats("input_features", 8, 40), {"input_features": {0: "batch"}},
        _BATCHES,
    ),
}  # fmt: skip
