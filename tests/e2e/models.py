"""Two small real models, compiled once for all tests that need a package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import cuvil
from cuvil.runtime.artifact import Artifact

VOCABULARY = 50
MAX_SEQ = 24


class Transformer(torch.nn.Module):
    """Token ids and a mask to vectors: embeddings, two layers of attention, a pooled result."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.tokens = torch.nn.Embedding(VOCABULARY, width)
        self.places = torch.nn.Embedding(MAX_SEQ, width)
        self.projections = torch.nn.ModuleList(torch.nn.Linear(width, 3 * width) for _ in range(2))
        self.outputs = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        (batch, seq), width = ids.shape, self.tokens.embedding_dim
        x = self.tokens(ids) + self.places(torch.arange(seq))
        allowed = (mask > 0)[:, None, None, :]
        for project, output, norm in zip(self.projections, self.outputs, self.norms):
            q, k, v = (
                part.reshape(batch, seq, self.heads, width // self.heads).transpose(1, 2)
                for part in project(x).chunk(3, -1)
            )
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            x = norm(x + torch.nn.functional.gelu(output(y.transpose(1, 2).flatten(2))))
        weights = mask[..., None].to(x.dtype)
        return {"tokens": x, "pooled": (x * weights).sum(1) / weights.sum(1).clamp(min=1)}


def transformer() -> Transformer:
    """With seeded weights."""
    torch.manual_seed(0)
    return Transformer().eval()


def convnet() -> torch.nn.Module:
    """Images of 3 x 16 x 16 to 5 numbers."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.SiLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 5),
    ).eval()  # fmt: skip


def transformer_inputs(batch: int, seq: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids, and a mask that hides the last third of the last row."""
    generator = torch.Generator().manual_seed(batch * 100 + seq)
    ids = torch.randint(0, VOCABULARY, (batch, seq), generator=generator)
    mask = torch.ones(batch, seq, dtype=torch.int64)
    if batch and seq > 2:
        mask[-1, seq - seq // 3 :] = 0
    return ids, mask


def images(batch: int) -> torch.Tensor:
    """Random ones."""
    return torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(batch))


def compile_transformer(model: torch.nn.Module | None = None, **more: Any) -> Artifact:
    """With symbolic batch and seq."""
    dims = {0: "batch", 1: cuvil.Dim("seq", min=1, max=MAX_SEQ)}
    return cuvil.compile(
        model or transformer(), transformer_inputs(2, 5), dynamic_dims={"ids": dims, "mask": dims},
        **more,
    )  # fmt: skip


def compile_convnet(model: torch.nn.Module | None = None, **more: Any) -> Artifact:
    """With symbolic batch."""
    return cuvil.compile(model or convnet(), (images(2),), dynamic_dims=["batch"], **more)


def make_package(name: str, path: Path) -> Path:
    """Compile "transformer" or "convnet" to a package file."""
    artifact = compile_transformer() if name == "transformer" else compile_convnet()
    artifact.save(path)
    artifact.close()
    return path
