"""One step of a decoder against a cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel


class Step(nn.Module):
    """GPT-2 on one more token: ids ``[n, 1]`` and what it kept of the tokens before,
    ``[layers, 2, n, heads, past, 64]``, to the logits and the new token's keys and values
    ``[layers, 2, n, heads, 1, 64]``, which the caller appends."""

    def __init__(self) -> None:
        super().__init__()
        self.model = GPT2LMHeadModel(GPT2Config())

    def forward(self, input_ids: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        cache = DynamicCache([(layer[0], layer[1]) for layer in past.unbind(0)])
        found = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        new = [torch.stack([x.keys[..., -1:, :], x.values[..., -1:, :]]) for x in cache.layers]
        return found.logits, torch.stack(new)
