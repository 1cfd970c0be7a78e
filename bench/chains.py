"""Models with convolutions row by row in one kernel (native/chain.hpp), beside the same without.

    python bench/chains.py [--threads 1] [--seconds S] [NAME ...]

Milliseconds of each, taken in turns: the least time, since a shared machine only ever adds some.
One thread is timed by the processor time that it used, which others disturb less. Names are those
of latency.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.latency import MODELS  # noqa: E402
from tools import zoo  # noqa: E402

USUAL = ("mobilenet-v2", "efficientnet-b0", "ppocr-det", "ppocr-rec")


def compiled(entry: zoo.Entry, inputs: Mapping[str, Any], chains: bool, threads: int) -> Any:
    """The model at the inputs' sizes."""
    model = entry.make(ROOT / ".models")
    options = {"chains": chains}
    if entry.onnx:
        spec = [(name, array.dtype, array.shape) for name, array in inputs.items()]
        return cuvil.compile(model, input_spec=spec, options=options, threads=threads, verify=False)
    import torch

    given = {k: torch.from_numpy(v) for k, v in inputs.items()}
    return cuvil.compile(model, given, options=options, threads=threads, verify=False)


def least(calls: list[Callable[[], object]], seconds: float, clock: Any) -> list[float]:
    """The least seconds of each call, in turns."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            for turn in range(3):
                start = clock()
                call()
                if turn:  # the first brings its own data back into the caches
                    best[i] = min(best[i], clock() - start)
    return best


def main() -> None:
    """Print a line a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(USUAL), metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    for name in args.names:
        of, sizes = MODELS[name]
        entry = zoo.find(of)
        inputs = {k: np.asarray(v) for k, v in entry.inputs(sizes).items()}
        calls, results = [], []
        for chains in (False, True):
            artifact = compiled(entry, inputs, chains, args.threads)
            given = {spec.name: inputs[spec.name] for spec in artifact.inputs}
            results.append(artifact.run(given))
            calls.append(lambda artifact=artifact, given=given: artifact.run(given))
        same = all(np.array_equal(results[0][k], results[1][k]) for k in results[0])
        apart, chained = least(calls, args.seconds, clock)
        print(
            f"{name:18s} {args.threads}t  apart {apart * 1e3:8.3f}  chained {chained * 1e3:8.3f}"
            f"  {chained / apart:.3f}  {'same bits' if same else 'other bits'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
