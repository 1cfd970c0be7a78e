"""What memory that follows the shapes saves, and what a new shape costs.

    python bench/memory.py [--calls N] [--json FILE]

A load of images of many sizes and texts of many lengths, each with a batch of its own, goes through
a convolutional network and a transformer. Saved is the mean over all calls of what the arena at a
call's shapes is smaller than at the largest shapes, which is what a static allocation would hold.
A re-plan is what the first call of a shape does before its kernels: symbols, output shapes, size
of the arena; microseconds, the least of several. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.bars import Bar, report  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402

SAVED_LEAST, REPLAN_LIMIT = 30.0, 50.0
BATCH, SEQ, SIDE, STEP = 8, 512, 512, 32
Shapes = dict[str, tuple[int, ...]]


class Texts(torch.nn.Module):
    """Embeddings and four layers of an encoder, 256 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(1000, 256)
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
        self.encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.encoder(self.tokens(ids)).mean(1)
        return found


def images() -> torch.nn.Module:
    """Five convolutions, each with half the pixels, and a classifier."""
    layers: list[torch.nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64), (64, 128), (128, 128)):
        layers += [torch.nn.Conv2d(before, after, 3, 2, 1), torch.nn.ReLU()]
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 10)
    )


def compiled() -> dict[str, Artifact]:
    """The two models with their sizes symbolic up to the largest."""
    torch.manual_seed(0)
    batch = cuvil.Dim("batch", min=1, max=BATCH)
    h, w = (cuvil.Dim(n, min=STEP, max=SIDE) for n in "hw")
    seq = cuvil.Dim("seq", min=1, max=SEQ)
    texts, pictures = Texts().eval(), images().eval()
    return {
        "texts": cuvil.compile(
            texts, (torch.zeros(2, 7, dtype=torch.int64),),
            dynamic_dims={"ids": {0: batch, 1: seq}}, threads=1,
        ),
        "images": cuvil.compile(
            pictures, (torch.zeros(2, 3, 64, 96),),
            dynamic_dims=[{0: batch, 2: h, 3: w}], threads=1,
        ),
    }  # fmt: skip


def load(calls: int) -> Iterator[tuple[str, Shapes]]:
    """Calls in turns: texts of log-normal length (median 64), images of 7 to 16 steps a side."""
    rng = random.Random(0)
    for call in range(calls):
        batch = rng.randint(1, BATCH)
        if call % 2:
            length = min(SEQ, max(1, round(rng.lognormvariate(4.16, 0.8))))
            yield "texts", {"ids": (batch, length)}
        else:
            h, w = (STEP * rng.randint(7, SIDE // STEP) for _ in range(2))
            yield "images", {"input": (batch, 3, h, w)}


def replan(artifact: Artifact, shapes: list[Shapes]) -> float:
    """Microseconds of a new shape: the median over shapes of the least of several times."""
    model, found = artifact.library_model(), []
    for item in shapes:
        times = []
        for _ in range(5):
            model.plans.clear()
            begin = time.perf_counter()
            artifact.workspace_bytes(item)
            times.append(time.perf_counter() - begin)
        found.append(min(times))
    return 1e6 * statistics.median(found)


def main() -> int:
    """Print each figure as it comes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models = compiled()
    largest = {"texts": {"ids": (BATCH, SEQ)}, "images": {"input": (BATCH, 3, SIDE, SIDE)}}
    names = {name: artifact.inputs[0].name for name, artifact in models.items()}
    peaks = {
        name: models[name].workspace_bytes({names[name]: next(iter(shapes.values()))})
        for name, shapes in largest.items()
    }
    saved: dict[str, list[float]] = {name: [] for name in models}
    seen: dict[str, list[Shapes]] = {name: [] for name in models}
    for name, shapes in load(options.calls):
        item = {names[name]: next(iter(shapes.values()))}
        seen[name].append(item)
        saved[name].append(100 * (1 - models[name].workspace_bytes(item) / peaks[name]))
    bars = []
    for name, artifact in models.items():
        use = artifact.memory({names[name]: next(iter(largest[name].values()))})
        print(f"{name}: {use}")
        bars.append(Bar(f"{name}: re-plan", replan(artifact, seen[name][:50]), REPLAN_LIMIT, "us"))
    both = [*saved["texts"], *saved["images"]]
    for name, values in (*saved.items(), ("both", both)):
        bars.append(Bar(f"{name}: saved", statistics.mean(values), SAVED_LEAST, "%", least=True))
    for bar in bars:
        print(bar)
    return report(bars, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
