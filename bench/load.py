"""How soon and in how much memory a model runs, and how long it takes to compile.

    python bench/load.py [--only load,memory,compile] [--repeats N] [--json FILE]

ResNet-50 at batch 1, on as many threads as there are cores. Load: from the call that loads to the
first output, in a new process that has imported NumPy and Cuvil's runtime; imports are shown beside
it. Memory: the peak of such a process, beside NumPy's alone, and of a C program, each over weights,
activations and inputs. Compile: cold, from a PyTorch module, with nothing in the cache. And a small
graph (a linear layer, GELU and a layer norm), without its check, as one of a suite: after another
one, which built the core's objects; the first one is shown beside it. The least of a few runs
counts, since a shared machine only ever adds time. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.bars import Bar, report  # noqa: E402
from bench.c_caller import run_c  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402
from tools import zoo  # noqa: E402

LOAD_LIMIT, MEMORY_LIMIT, COMPILE_LIMIT = 60.0, 25.0, 10.0  # ms, MB, s
SMALL_LIMIT = 0.3  # s, for the graph of a few operators
_MODEL = "resnet50"
_CORES = len(os.sched_getaffinity(0))

# A process that only infers; prints seconds and bytes.
CHILD = r"""
import json, sys, time
began = time.perf_counter()
import numpy as np
peak = lambda: int(next(x for x in open("/proc/self/status") if "VmHWM" in x).split()[1]) << 10
numpy_peak = peak()
from cuvil.runtime.loader import load
imported = time.perf_counter()
x = np.load(sys.argv[2])
start = time.perf_counter()
artifact = load(sys.argv[1], threads=int(sys.argv[3]))
mapped = time.perf_counter()
artifact(x)
first = time.perf_counter()
artifact(x)
second = time.perf_counter()
print(json.dumps({
    "imports": imported - began, "load": mapped - start, "first": first - mapped,
    "total": first - start, "call": second - first, "peak": peak(), "numpy_peak": numpy_peak,
}))
"""

# The same in C: maps the weights, runs once, prints the peak in bytes.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "model.h"

static long peak(void) {
  char line[256];
  long kilobytes = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kilobytes);
  if (file) fclose(file);
  return kilobytes << 10;
}

int main(int argc, char** argv) {
  int64_t in[4] = {1, 3, 224, 224}, out[CUVIL_MAX_RANK], count = 1;
  struct stat facts;
  cuvil_model* model = NULL;
  cuvil_status status;
  uint64_t bytes = 0;
  const int file = open(argv[argc - 1], O_RDONLY);
  if (file < 0 || fstat(file, &facts)) return 1;
  void* weights = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  float* x = calloc(3 * 224 * 224, 4);
  memset(x, 1, 3 * 224 * 224 * 4);
  DLTensor input = {x, {1, 0}, 4, {2, 32, 1}, in, NULL, 0};
  const DLTensor* inputs[] = {&input};
  if (cuvil_create(weights, (uint64_t)facts.st_size, NULL, &model, &status)) goto failed;
  if (cuvil_output_shape(model, inputs, 1, 0, out, &status)) goto failed;
  if (cuvil_workspace_size(model, inputs, 1, &bytes, &status)) goto failed;
  for (int i = 0; i < 2; ++i) count *= out[i];
  bytes = (bytes + CUVIL_ALIGNMENT) / CUVIL_ALIGNMENT * CUVIL_ALIGNMENT;
  DLTensor output = {malloc((size_t)count * 4), {1, 0}, 2, {2, 32, 1}, out, NULL, 0};
  DLTensor* outputs[] = {&output};
  void* workspace = aligned_alloc(CUVIL_ALIGNMENT, bytes);
  if (cuvil_run(model, inputs, 1, outputs, 1, workspace, bytes, &status)) goto failed;
  printf("%ld\n", peak());
  return 0;
failed:
  fprintf(stderr, "%s\n", status.message);
  return 1;
}
"""


@dataclass(frozen=True)
class Saved:
    """The model as files in a folder, and the bytes that any way to run it needs."""

    folder: Path
    weights: int
    activations: int
    inputs: int

    @property
    def needed(self) -> int:
        """Weights, activations and inputs."""
        return self.weights + self.activations + self.inputs


def save(artifact: Artifact, x: np.ndarray, folder: Path) -> Saved:
    """Write package, library and input."""
    artifact.save(folder / "model.cuvilpkg")
    artifact.save(folder / "model.so")
    np.save(folder / "x.npy", x)
    name = artifact.inputs[0].name
    weights = (folder / "model.weights").stat().st_size
    return Saved(folder, weights, artifact.workspace_bytes({name: x}), x.nbytes)


def fresh(saved: Saved) -> dict[str, float]:
    """What a new process says of itself."""
    package, x = saved.folder / "model.cuvilpkg", saved.folder / "x.npy"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(package), str(x), str(_CORES)],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def python_bars(saved: Saved, repeats: int, only: list[str]) -> Iterator[Bar]:
    """Load time and peak memory of new processes."""
    runs = [fresh(saved) for _ in range(repeats)]
    least = {key: min(run[key] for run in runs) for key in runs[0]}
    times = [key for key in least if "peak" not in key]
    shown = ", ".join(f"{key} {least[key] * 1e3:.1f} ms" for key in times)
    print(f"  least of {repeats}: {shown}")
    if "load" in only:
        # What loading adds to the arithmetic of one call, which is the machine's.
        yield Bar("load to first output", least["total"] * 1e3, LOAD_LIMIT, "ms")
        beside = (least["total"] - least["call"]) * 1e3
        yield Bar("load to first output, beside a warm call's time", beside, LOAD_LIMIT, "ms")
    if "memory" in only:
        over = (least["peak"] - saved.needed) / 1e6
        print(f"  a Python process: {over:.1f} MB over what it needs, most of it NumPy and Python")
        own = over - least["numpy_peak"] / 1e6
        yield Bar("peak of a Python process over that and NumPy's", own, MEMORY_LIMIT, "MB")


def c_bar(saved: Saved) -> Bar:
    """Peak memory of a C program."""
    folder = saved.folder
    over = (int(run_c(PROGRAM, folder, str(folder / "model.weights"))) - saved.needed) / 1e6
    return Bar("peak of a C program over what it needs", over, MEMORY_LIMIT, "MB")


def small_graph(width: int) -> torch.nn.Module:
    """A few operators that become two kernels."""
    layers = torch.nn.Linear(32, width), torch.nn.GELU(), torch.nn.LayerNorm(width)
    return torch.nn.Sequential(*layers).eval()


def compile_small() -> tuple[float, float]:
    """Wall seconds of compiling a small graph with an empty cache, and another one after it."""
    x, seconds = torch.zeros(4, 32), []
    with empty_cache():
        for width in (48, 64):
            start = time.perf_counter()
            cuvil.compile(small_graph(width), (x,), threads=_CORES, verify=False)
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """A cache folder of its own, for a while."""
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get("CUVIL_CACHE_DIR")
        os.environ["CUVIL_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("CUVIL_CACHE_DIR")
            if kept is not None:
                os.environ["CUVIL_CACHE_DIR"] = kept


def compile_cold(
    model: torch.nn.Module, x: np.ndarray, **options: Any
) -> tuple[Artifact, float, float]:
    """The artifact, and the wall and CPU seconds of compiling with an empty cache.

    CPU seconds are those of this process and of the compilers it started.
    """
    with empty_cache():
        cpu, start = os.times(), time.perf_counter()
        artifact = cuvil.compile(model, (torch.from_numpy(x),), threads=_CORES, **options)
        wall, after = time.perf_counter() - start, os.times()
    return artifact, wall, sum(after[:4]) - sum(cpu[:4])


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="load,memory,compile")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    only = given.only.split(",")
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        for bar in _bars(only, given.repeats, Path(name)):
            print(bar, flush=True)
            bars.append(bar)
    return report(bars, given.json)


def _bars(only: list[str], repeats: int, folder: Path) -> Iterator[Bar]:
    entry = zoo.find(_MODEL)
    (x,) = entry.inputs(entry.sizes[0]).values()
    model = entry.make(ROOT / ".models")
    if "compile" in only:
        artifact, wall, cpu = compile_cold(model, x)
        print(f"  {cpu:.1f} s of CPU time")
        yield Bar(f"cold compile on {_CORES} cores", wall, COMPILE_LIMIT, "s")
        pairs = [compile_small() for _ in range(repeats)]
        first, second = (min(seconds) for seconds in zip(*pairs))
        print(f"  the first small graph {first:.2f} s")
        yield Bar("compile of a small graph", second, SMALL_LIMIT, "s")
    else:
        artifact = cuvil.compile(model, (torch.from_numpy(x),))
    if "load" in only or "memory" in only:
        saved = save(artifact, x, folder)
        parts = (saved.weights, saved.activations, saved.inputs)
        print("  weights {:.1f} MB, activations {:.1f} MB, inputs {:.1f} MB".format(
            *(n / 1e6 for n in parts)))  # fmt: skip
        yield from python_bars(saved, repeats, only)
        if "memory" in only:
            yield c_bar(saved)


if __name__ == "__main__":
    sys.exit(main())
