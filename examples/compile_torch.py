"""A PyTorch module to a verified artifact, saved and loaded again."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import cuvil


class Classifier(torch.nn.Module):
    """Images, f32[batch, 1, 28, 28], to ten scores each."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
        )
        self.scores = torch.nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.scores(self.features(image).flatten(1))


def main(folder: Path) -> None:
    """Write classifier.cuvilpkg to ``folder``."""
    torch.manual_seed(0)
    model = Classifier().eval()
    image = torch.randn(1, 1, 28, 28)
    compiled = cuvil.compile(model, (image,), dynamic_dims=["batch"])
    print(compiled)

    batch = torch.randn(5, 1, 28, 28)
    with torch.no_grad():
        difference = (compiled(batch) - model(batch)).abs().max()
    print(f"largest difference for a batch of 5: {difference:.1e}")
    assert difference < 1e-5

    print(cuvil.verify(compiled))

    path = folder / "classifier.cuvilpkg"
    compiled.save(path)
    loaded = cuvil.load(path)
    assert torch.equal(loaded(batch), compiled(batch))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="cuvil-")))
