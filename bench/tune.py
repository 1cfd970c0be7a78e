"""What tuning gains: each model as the cost model has it beside the tuned one, in turns.

    python bench/tune.py [NAME ...] [--threads T] [--tune SECONDS] [--seconds S] [--cpu-time]

NAMEs are those of bench/latency.py. Milliseconds of one call at batch 1, the least and the median
of each, and how many kernels were measured and changed. Winners of earlier runs are taken from the
cache folder. --cpu-time counts what the calling thread computes, not what it waits for: for one
thread on a machine that others use.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.latency import MODELS  # noqa: E402
from cuvil.integrations.bench.measure import interleaved  # noqa: E402
from tools import zoo  # noqa: E402


def compiled(name: str, threads: int, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """One model at the sizes of bench/latency.py, and inputs for it."""
    of, sizes = MODELS[name]
    entry = zoo.find(of)
    inputs = entry.inputs(sizes)
    model = entry.make(ROOT / ".models")
    if entry.onnx:
        given: Any = inputs
    else:
        import torch

        given = {k: torch.from_numpy(v) for k, v in inputs.items()}
    artifact = cuvil.compile(model, given, threads=threads, options=options)
    return artifact, {spec.name: np.asarray(inputs[spec.name]) for spec in artifact.inputs}


def measure(name: str, threads: int, tune: float, seconds: float, cpu_time: bool) -> str:
    """A line for one model."""
    start = time.monotonic()
    plain, inputs = compiled(name, threads, {})
    before = time.monotonic()
    tuned, _ = compiled(name, threads, {"tune": tune})
    taken = time.monotonic() - before, before - start
    calls = {"computed": lambda: plain.run(inputs), "tuned": lambda: tuned.run(inputs)}
    times = interleaved(calls, seconds, time.thread_time if cpu_time else time.perf_counter)
    a, b = times["computed"], times["tuned"]
    kernels = tuned.tuning["kernels"]
    changed = sum(1 for k in kernels if k["choice"])
    return (
        f"{name:20s} {threads} thread(s): min {a.min * 1e3:.3f} -> {b.min * 1e3:.3f} ms "
        f"({b.min / a.min:.3f}), median {a.median * 1e3:.3f} -> {b.median * 1e3:.3f} ms "
        f"({b.median / a.median:.3f}); {changed} of {len(kernels)} kernels changed; compile "
        f"{taken[1]:.0f} s, with tuning {taken[0]:.0f} s"
    )


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["resnet50", "mobilenet-v2"], metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tune", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--cpu-time", action="store_true")
    asked = parser.parse_args()
    if asked.cpu_time and asked.threads > 1:
        parser.error("--cpu-time is for one thread: it does not count the others")
    for name in asked.names:
        line = measure(name, asked.threads, asked.tune, asked.seconds, asked.cpu_time)
        print(line, flush=True)


if __name__ == "__main__":
    main()
