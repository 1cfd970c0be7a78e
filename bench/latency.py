"""The sixteen models that latency is judged by, beside every peer that is installed.

    python bench/latency.py [NAME ...] [--threads 1,2] [--peers onnxruntime,openvino,...]
                            [--batch B] [--seconds S] [--json FILE]

Every model is compiled and exported at fixed sizes, the best case for all. All peers take turns in
one process. ``best`` is the fastest peer's median; the closing line is the geometric mean of
cuvil's median over it. Exits with 1 when a model is slower than its best peer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from cuvil.integrations.bench.compare import Latency, benchmark  # noqa: E402
from tools import zoo  # noqa: E402

PEERS = ("onnxruntime", "openvino", "torch", "torch.compile")
# Entries of the zoo, and the sizes at batch 1.
MODELS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "mlp": ("mlp", {"batch": 1}),
    "lstm": ("lstm", {}),
    "mobilenet-v2": ("mobilenet-v2", {"batch": 1}),
    "efficientnet-b0": ("efficientnet-b0", {"batch": 1}),
    "resnet50": ("resnet50", {"batch": 1}),
    "detector": ("detector", {"batch": 1}),
    "unet": ("unet", {"batch": 1}),
    "minilm": ("minilm", {"batch": 1, "seq": 32}),
    "bert-base": ("bert-base", {"batch": 1, "seq": 128}),
    "vit-b16": ("vit-b16", {"batch": 1}),
    "whisper-tiny-encoder": ("whisper-tiny-encoder", {}),
    "gpt2-prefill": ("gpt2", {"batch": 1, "seq": 64}),
    "gpt2-step": ("gpt2-step", {"batch": 1, "past": 256}),
    "ppocr-det": ("ppocr-det", {"n": 1, "h": 640, "w": 640}),
    "ppocr-rec": ("ppocr-rec", {"n": 1, "h": 48, "w": 320}),
    "silero-vad": ("silero-vad", {}),
    "dnsmos-sig": ("dnsmos-sig", {"batch": 1}),
}


@dataclass
class Row:
    """One model with a number of threads: median and smallest milliseconds by runtime."""

    name: str
    threads: int
    medians: dict[str, float] = field(default_factory=dict)
    minima: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    compile_seconds: float = 0.0

    @property
    def best(self) -> tuple[str, float]:
        """The fastest peer and its median."""
        others = {k: v for k, v in self.medians.items() if k != "cuvil"}
        return min(others.items(), key=lambda item: item[1])

    @property
    def ratio(self) -> float | None:
        """cuvil's median over the best peer's."""
        if "cuvil" not in self.medians or len(self.medians) < 2:
            return None
        return self.medians["cuvil"] / self.best[1]

    @property
    def ratio_of_minima(self) -> float:
        """The same of the smallest times, which a noisy machine disturbs less."""
        others = [v for k, v in self.minima.items() if k != "cuvil"]
        return self.minima["cuvil"] / min(others)

    def __str__(self) -> str:
        start = f"{self.name:22s} {self.threads}t"
        if self.ratio is None:
            return f"{start}  {self.missing}"
        times = "  ".join(f"{k} {v:.4g} ({self.minima[k]:.4g})" for k, v in self.medians.items())
        error = self.errors.get("cuvil") or 0.0
        return (
            f"{start}  ratio {self.ratio:.2f} ({self.ratio_of_minima:.2f})  {times}"
            f"  error {error:.0e}  compile {self.compile_seconds:.1f} s"
        )


def measure(
    name: str, batch: int, threads: Sequence[int], peers: Sequence[str], seconds: float
) -> list[Row]:
    """Compile one model and time it beside its peers, with each number of threads."""
    of, sizes = MODELS[name]
    entry = zoo.find(of)
    sizes = {k: batch if k in ("batch", "n") else v for k, v in sizes.items()}
    inputs = entry.inputs(sizes)
    start = time.monotonic()
    artifact = _compile(entry, inputs)
    taken = time.monotonic() - start
    given = {spec.name: np.asarray(inputs[spec.name]) for spec in artifact.inputs}
    found = benchmark(artifact, peers, threads, [given], seconds, deployment=False)
    rows = {count: Row(name, count, compile_seconds=taken) for count in threads}
    for latency in found.latencies:
        _enter(rows[latency.threads], latency)
    return list(rows.values())


def _compile(entry: zoo.Entry, inputs: Mapping[str, Any]) -> Any:
    model = entry.make(ROOT / ".models")
    if entry.onnx:
        spec = [(name, array.dtype, array.shape) for name, array in inputs.items()]
        return cuvil.compile(model, input_spec=spec)
    import torch

    return cuvil.compile(model, {k: torch.from_numpy(v) for k, v in inputs.items()})


def _enter(row: Row, latency: Latency) -> None:
    row.errors[latency.peer] = latency.error
    if latency.times is None:
        row.missing[latency.peer] = latency.missing
        return
    row.medians[latency.peer] = latency.times.median * 1e3
    row.minima[latency.peer] = latency.times.min * 1e3


def main() -> int:
    """Print a line a model and number of threads, then the mean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each peer and model")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    threads = [int(x) for x in given.threads.split(",")]
    rows: list[Row] = []
    for name in given.names:
        for row in measure(name, given.batch, threads, given.peers.split(","), given.seconds):
            print(row, flush=True)
            rows.append(row)
    for count in threads:
        ratios = [r.ratio for r in rows if r.threads == count and r.ratio is not None]
        if ratios:
            mean = float(np.exp(np.mean(np.log(ratios))))
            print(f"{count} thread(s): {len(ratios)} models, geometric mean {mean:.3f}")
    if given.json:
        given.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    return 1 if any(r.ratio is None or r.ratio > 1 for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
