"""The models that bench/dynamic.py is about: how to make each, and which sizes it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTModel,
)

from tools import zoo
from tools.zoo_entry import ids, masked
from tools.zoo_text import Step

MODELS = Path(__file__).resolve().parent.parent / ".models"
Sizes = Mapping[str, int]
Inputs = Mapping[str, Any]
Ranges = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Case:
    """``ranges`` are sizes to draw from, by symbol; ``fixed`` those to specialise at."""

    model: Callable[[], Any]
    inputs: Callable[[Sizes], Inputs]
    dynamic: Any
    ranges: Ranges
    fixed: Sequence[Sizes] = ()
    onnx: bool = False


class Recurrent(torch.nn.Module):
    """An LSTM in both directions and a GRU over what it gives."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.second = torch.nn.GRU(2 * width, width, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(self.first(x)[0])[0]
        return found


class AnySize(torch.nn.Module):
    """A vision transformer whose positions are resized to the picture."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.model = ViTModel(config)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        found = self.model(pixel_values, interpolate_pos_encoding=True)
        hidden: torch.Tensor = found.last_hidden_state
        return hidden


class SmallStep(Step):
    """A step of a decoder of two layers."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.model = GPT2LMHeadModel(_SMALL_GPT2)


def _seeded(build: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        torch.manual_seed(0)
        return zoo.lively(build()).eval()

    return make


def _floats(name: str, *shape: int | str) -> Callable[[Sizes], Inputs]:
    def make(sizes: Sizes) -> Inputs:
        rng = np.random.default_rng(0)
        dims = [sizes[d] if isinstance(d, str) else d for d in shape]
        return {name: rng.standard_normal(dims, dtype=np.float32)}

    return make


def _step(layers: int, heads: int, width: int, words: int) -> Callable[[Sizes], Inputs]:
    """The last token of each row, and the keys and values of those before."""

    def make(sizes: Sizes) -> Inputs:
        ids = np.random.default_rng(1).integers(0, words, (sizes["batch"], 1))
        past = _floats("past", layers, 2, "batch", heads, "past", width)(sizes)
        return {"input_ids": ids, **past}

    return make


def _of_zoo(name: str, ranges: Ranges, fixed: Sequence[Sizes], dynamic: Any = None) -> Case:
    entry = zoo.find(name)
    return Case(
        lambda: entry.make(MODELS), entry.inputs, dynamic or entry.dynamic or None, ranges, fixed,
        entry.onnx,
    )  # fmt: skip


_TEXT = {"batch": range(1, 5), "seq": range(1, 161)}
_TEXTS = ({"batch": 1, "seq": 128}, {"batch": 1, "seq": 37}, {"batch": 4, "seq": 64})
_PICTURES = ({"batch": 1}, {"batch": 3})
_IDS = {"input_ids": {0: "batch", 1: "seq"}}
_PIXELS = {"pixel_values": {0: "batch", 2: "h", 3: "w"}}
_ANY_PIXELS = _floats("pixel_values", "batch", 3, "h", "w")
_PAST = {"input_ids": {0: "batch"}, "past": {2: "batch", 4: "past"}}
_STEPS = {"batch": range(1, 5), "past": range(1, 257)}
_DET = {"n": (1, 2), "h": range(32, 257, 32), "w": range(32, 257, 32)}
_REC = {"n": (1, 2, 3), "h": (48,), "w": range(32, 321)}

CASES: Mapping[str, Case] = {
    "bert-base": _of_zoo("bert-base", _TEXT, _TEXTS),
    "gpt2": _of_zoo("gpt2", _TEXT, _TEXTS),
    "gpt2-step": _of_zoo(
        "gpt2-step", _STEPS, ({"batch": 1, "past": 256}, {"batch": 3, "past": 40}), _PAST
    ),
    "vit-b16": _of_zoo("vit-b16", {"batch": range(1, 5)}, _PICTURES),
    "resnet50": Case(
        _of_zoo("resnet50", {}, ()).model, _ANY_PIXELS, _PIXELS,
        {"batch": range(1, 4), "h": range(33, 257), "w": range(33, 257)},
        ({"batch": 1, "h": 224, "w": 224}, {"batch": 2, "h": 160, "w": 192}),
    ),
    "ppocr-det": _of_zoo(
        "ppocr-det", _DET, ({"n": 1, "h": 320, "w": 320}, {"n": 1, "h": 64, "w": 96})
    ),
    "ppocr-rec": _of_zoo(
        "ppocr-rec", _REC, ({"n": 1, "h": 48, "w": 320}, {"n": 2, "h": 48, "w": 100})
    ),
    "lstm+gru": Case(
        _seeded(lambda: Recurrent(256)), _floats("x", "batch", "seq", 256),
        {"x": {0: "batch", 1: "seq"}}, {"batch": range(1, 5), "seq": range(1, 129)},
        ({"batch": 1, "seq": 100}, {"batch": 4, "seq": 33}),
    ),
}  # fmt: skip

_SMALL_GPT2 = GPT2Config(
    n_layer=2, n_embd=64, n_head=4, vocab_size=1000, bos_token_id=0, eos_token_id=0,
    use_cache=False,
)
_SMALL_BERT = BertConfig(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
)
_SMALL_VIT = ViTConfig(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
    image_size=64,
)  # fmt: skip
_SMALL_RESNET = ResNetConfig(
    num_labels=10, embedding_size=16, hidden_sizes=[16, 24, 32, 64], depths=[1, 2, 1, 1]
)
_SIDES = {"batch": range(1, 5), "h": range(16, 129), "w": range(16, 129)}

# The same operators with fewer and narrower layers, or the model itself at small sizes: so that a
# thousand sizes take minutes.
SMALL: Mapping[str, Case] = {
    "bert-base": Case(
        _seeded(lambda: BertModel(_SMALL_BERT)), masked,
        {**_IDS, "attention_mask": {0: "batch", 1: "seq"}}, _TEXT,
    ),
    "gpt2": Case(
        _seeded(lambda: GPT2LMHeadModel(_SMALL_GPT2)), lambda s: {"input_ids": ids(s)}, _IDS,
        _TEXT,
    ),
    "gpt2-step": Case(_seeded(SmallStep), _step(2, 4, 16, 1000), _PAST, _STEPS),
    "vit-b16": Case(_seeded(lambda: AnySize(_SMALL_VIT)), _ANY_PIXELS, _PIXELS, _SIDES),
    "resnet50": Case(
        _seeded(lambda: ResNetForImageClassification(_SMALL_RESNET)), _ANY_PIXELS, _PIXELS,
        {**_SIDES, "h": range(1, 129), "w": range(1, 129)},
    ),
    "ppocr-det": _of_zoo("ppocr-det", {**_DET, "h": range(32, 193, 32)}, ()),
    "ppocr-rec": _of_zoo("ppocr-rec", {**_REC, "w": range(16, 161)}, ()),
    "lstm+gru": Case(
        _seeded(lambda: Recurrent(24)), _floats("x", "batch", "seq", 24),
        {"x": {0: "batch", 1: "seq"}}, {"batch": range(1, 9), "seq": range(1, 200)},
    ),
}  # fmt: skip
