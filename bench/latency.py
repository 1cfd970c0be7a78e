"""The models that latency is judged by, beside every peer that is installed.

    python bench/latency.py [NAME ...] [--threads 1,2] [--peers onnxruntime,openvino,...]
        [--batch B] [--seconds S] [--json FILE] [--python PEER=/path/to/python ...]
        [--precision bf16]

Every model is compiled and exported at fixed sizes, the best case for all. All peers take turns in
one run; those of another Python, and those that disturb others, from processes of their own. The
ratio is cuvil's median over that of the fastest peer in the model's own precision, and in brackets
that of the minima; the closing line is its geometric mean. Errors are the largest ones of output
scale, against float64. FILE is written after each model; what it has of others is kept, so that a
long run can be made in parts. With --precision bf16 cuvil is held to all peers, those that choose
a narrower type themselves included, and nothing is kept. Exits with 1 when a model is slower than
its best peer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.results import (  # noqa: E402
    Measured,
    Result,
    Row,
    geometric_mean,
    machine,
    precise,
    read,
)
from cuvil.integrations.bench.compare import benchmark  # noqa: E402
from cuvil.integrations.bench.peers import PEERS  # noqa: E402
from cuvil.passes.precision import PRECISIONS  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402
from tools import zoo  # noqa: E402

# Entries of the zoo, and the sizes at batch 1.
MODELS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "mlp": ("mlp", {"batch": 1}),
    "lstm": ("lstm", {"batch": 1}),
    "mobilenet-v2": ("mobilenet-v2", {"batch": 1}),
    "efficientnet-b0": ("efficientnet-b0", {"batch": 1}),
    "resnet50": ("resnet50", {"batch": 1}),
    "detector": ("detector", {"batch": 1}),
    "unet": ("unet", {"batch": 1}),
    "minilm": ("minilm", {"batch": 1, "seq": 32}),
    "bert-base": ("bert-base", {"batch": 1, "seq": 128}),
    "vit-b16": ("vit-b16", {"batch": 1}),
    "whisper-tiny-encoder": ("whisper-tiny-encoder", {"batch": 1}),
    "gpt2-prefill": ("gpt2", {"batch": 1, "seq": 64}),
    "gpt2-step": ("gpt2-step", {"batch": 1, "past": 256}),
    "ppocr-det": ("ppocr-det", {"n": 1, "h": 640, "w": 640}),
    "ppocr-rec": ("ppocr-rec", {"n": 1, "h": 48, "w": 320}),
    "silero-vad": ("silero-vad", {}),
    "dnsmos-sig": ("dnsmos-sig", {"batch": 1}),
}
_BATCH_DIMS = ("batch", "n")


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    batch: int = 1
    threads: Sequence[int] = (1, 2)
    peers: Sequence[str] = tuple(PEERS)
    seconds: float = 3.0
    deployment: bool = True
    pythons: Mapping[str, str] = field(default_factory=dict)
    precision: str = "f32"


def measure(name: str, plan: Plan, console: Console) -> Result:
    """Compile one model and time it beside its peers; a failure is part of the result."""
    of, sizes = MODELS[name]
    if plan.batch != 1 and not any(d in sizes for d in _BATCH_DIMS):
        return Result(name, plan.batch, failure="the model has no batch")
    entry = zoo.find(of)
    inputs = entry.inputs({k: plan.batch if k in _BATCH_DIMS else v for k, v in sizes.items()})
    start = time.monotonic()
    try:
        artifact = _compile(entry, inputs, plan.precision)
    except (cuvil.CuvilError, OSError, ImportError) as error:
        return Result(name, plan.batch, failure=f"{type(error).__name__}: {error}")
    taken = time.monotonic() - start
    given = {spec.name: np.asarray(inputs[spec.name]) for spec in artifact.inputs}
    with console.status(name) as status:
        found = benchmark(
            artifact,
            plan.peers,
            plan.threads,
            [given],
            plan.seconds,
            plan.deployment,
            lambda text: status.update(f"{name}: {text}"),
            float64=True,
            pythons=plan.pythons,
        )
    return Result(
        name,
        plan.batch,
        found.latencies[0].inputs,
        found.source,
        taken,
        _library_bytes(artifact),
        [asdict(x) for x in found.latencies],
        [asdict(x) for x in found.deployments],
        precision=plan.precision,
    )


def _compile(entry: zoo.Entry, inputs: Mapping[str, Any], precision: str) -> Artifact:
    model = entry.make(ROOT / ".models")
    if entry.onnx:
        spec = [(name, array.dtype, array.shape) for name, array in inputs.items()]
        return cuvil.compile(model, input_spec=spec, precision=precision)
    import torch

    tensors = {k: torch.from_numpy(v) for k, v in inputs.items()}
    return cuvil.compile(model, tensors, precision=precision)


def _library_bytes(artifact: Artifact) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return artifact.save(Path(folder) / "model.so")[0].stat().st_size


def lines(result: Result) -> list[str]:
    """A result as text: a line for each number of threads, then one for each runtime."""
    title = f"{result.name}, batch {result.batch}"
    if result.failure:
        return [f"{title}: {result.failure}"]
    found = []
    for row in result.rows():
        best = row.best(row.medians)
        ratio = "no peer" if best is None or row.ratio is None else (
            f"ratio {row.ratio:.2f} ({row.ratio_of_minima:.2f}) of {best}"
        )  # fmt: skip
        found.append(
            f"{title}, {row.threads} thread(s): {ratio}, compile {result.compile_seconds:.1f} s"
        )
        found += [f"  {text}" for text in _peer_lines(row, result)]
    return found


def _peer_lines(row: Row, result: Result) -> list[str]:
    found = []
    for peer in (*row.medians, *row.missing):
        if peer in row.missing:
            found.append(f"{peer:18s} not available: {row.missing[peer]}")
            continue
        text = f"{peer:18s} {row.medians[peer] * 1e3:9.4g} ms (min {row.minima[peer] * 1e3:.4g})"
        error = row.errors.get(peer)
        text += "" if error is None else f"  error {error:.0e}"
        text += "" if precise(peer) else "  in less than the model's precision"
        where = result.deployment(peer)
        if where:
            text += (
                f"  load {where['load']:.3f} s  peak {where['peak'] / 1e6:.0f} MB"
                f"  model {where['model_bytes'] / 1e6:.1f} MB"
            )
        found.append(text)
    return found


def summary(measured: Measured, threads: Sequence[int], batch: int) -> list[str]:
    """A line for each number of threads: how many models, and the mean of their ratios."""
    found = []
    for count in threads:
        ratios = [r.ratio for r in measured.rows(count, batch) if r.ratio is not None]
        if ratios:
            mean = geometric_mean(ratios)
            found.append(
                f"{count} thread(s), batch {batch}: {len(ratios)} models, geometric mean "
                f"{mean:.3f}, largest {max(ratios):.2f}"
            )
    return found


def _python(text: str) -> tuple[str, str]:
    name, mark, path = text.partition("=")
    if not mark or name not in PEERS:
        raise argparse.ArgumentTypeError(f"{text!r}: write PEER=/path/to/python")
    return name, path


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default=",".join(n for n in PEERS if n != "cuvil"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each peer and model")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--no-deployment", action="store_true", help="skip load, memory and size")
    parser.add_argument("--python", type=_python, action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32")
    given = parser.parse_args()
    if given.json and given.precision != "f32":
        parser.error("FILE keeps results of f32 alone")
    unknown = [n for n in given.names if n not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    threads = [int(x) for x in given.threads.split(",")]
    peers = [p for p in given.peers.split(",") if p]
    plan = Plan(
        given.batch, threads, peers, given.seconds, not given.no_deployment, dict(given.python),
        given.precision,
    )  # fmt: skip
    kept = read(given.json) if given.json and given.json.exists() else Measured()
    kept.machine = machine()
    run = Measured(kept.machine)
    console = Console(stderr=True)
    for name in given.names:
        result = measure(name, plan, console)
        print("\n".join(lines(result)), flush=True)
        for all_of in (kept, run):
            all_of.add(result)
        if given.json:
            kept.save(given.json)
    print("\n".join(summary(run, threads, given.batch)))
    return 1 if any(r.ratio is None or r.ratio > 1 for r in run.rows()) else 0


if __name__ == "__main__":
    sys.exit(main())
