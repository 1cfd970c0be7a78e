"""What torch.export makes hard in whole models; tests/models has the models themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as tf

from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import assert_same
from tests.models.small import MODELS, SMALL

TEXT = {"input_ids": {0: "batch", 1: "seq"}}
SIZES = [(1, 1), (1, 7), (3, 1), (2, 17)]


def ids(batch: int, seq: int, vocab: int = 100) -> torch.Tensor:
    torch.manual_seed(batch * 100 + seq)
    return torch.randint(3, vocab, (batch, seq))


def seeded(build: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    model: torch.nn.Module = build()
    return model.eval()


def test_bert_without_mask_knows_its_longest_sequence() -> None:
    model = seeded(lambda: tf.BertModel(tf.BertConfig(vocab_size=100, **SMALL)))
    module = capture_torch(model, (), {"input_ids": ids(1, 1)}, TEXT)
    assert module.main.symbols["seq"][1] == 512
    for batch, seq in SIZES:
        assert_same(module, model, (), {"input_ids": ids(batch, seq)})


def test_a_decoder_keeps_its_settings_and_ties_its_weights() -> None:
    model = MODELS["gpt2"].model()
    module = capture_torch(model, (), {"input_ids": ids(2, 8)}, TEXT)
    assert model.config.use_cache is True
    assert set(module.main.symbols) == {"batch", "seq"}
    assert module.main.output_names == ["logits"]
    shapes = [op.attrs["value"].array.shape for op in module.main.walk() if op.short == "constant"]
    assert shapes.count((100, 32)) == 1
    model.config.use_cache = False
    for batch, seq in SIZES:
        assert_same(module, model, (), {"input_ids": ids(batch, seq)})


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
