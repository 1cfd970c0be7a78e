"""What symbolic shapes cost: one artifact for all sizes against one made for a single size.

    python bench/dynamic.py [--only check,compile,shapes,times] [--models NAME ...] [--sizes N]
        [--shapes N] [--seconds S] [--variants] [--json FILE]

Check: a call of the C interface that binds two symbols off three inputs, checks two constraints and
evaluates an output's shape. Compile: the share of a compilation's processor time, that of compilers
included, which is spent on expressions, constraints and the solver; with an empty cache, and with
all objects in it. Shapes: each model, most of them with fewer layers, is held to PyTorch or ONNX
Runtime at random sizes; then memory is watched over as many others. Times: the symbolic artifact
and one specialised at a size take turns on one thread, whose own time is counted; the bar is on the
geometric mean over models and sizes of the medians' ratio. With --variants alone: what kernels'
versions for some sizes gain (bench/variants.py). Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.bars import Bar, report  # noqa: E402
from bench.c_caller import run_c  # noqa: E402
from bench.dynamic_compile import compile_bars  # noqa: E402
from bench.dynamic_models import CASES, SMALL, Case, Sizes  # noqa: E402
from bench.dynamic_shapes import shape_bars  # noqa: E402
from bench.variants import variant_bars  # noqa: E402
from cuvil.integrations.bench.measure import interleaved  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402

MEAN_LIMIT, CHECK_LIMIT = 1.05, 200.0  # ratio, ns


CALLER = r"""
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "model.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  static float data[64];
  int64_t shape[2] = {2, 16}, found[2] = {0, 0};
  DLTensor made = {data, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0};
  DLTensor t[3] = {made, made, made};
  const DLTensor* inputs[] = {&t[0], &t[1], &t[2]};
  cuvil_model* model = NULL;
  cuvil_status status;
  double best = 1e18, end = now() + atof(argc > 1 ? argv[1] : "1") * 1e9;
  if (cuvil_create(NULL, 0, NULL, &model, &status)) return 1;
  while (now() < end) {
    double start = now();
    for (int i = 0; i < 1000; ++i)
      if (cuvil_output_shape(model, inputs, 3, 0, found, &status)) return 2;
    double taken = (now() - start) / 1000;
    if (taken < best) best = taken;
  }
  shape[1] = 12;
  if (found[0] != 2 || found[1] != 48 || !cuvil_output_shape(model, inputs, 3, 0, found, &status))
    return 3;
  printf("%.3f\n", best);
  cuvil_destroy(model);
  return 0;
}
"""


def symbolic(case: Case) -> Artifact:
    """One artifact for all sizes."""
    if case.onnx:
        made: Artifact = cuvil.compile(case.model(), threads=1, verify=False)
        return made
    # Not 1, which torch.export would take for a size that broadcasts; and no two alike.
    parts = len(case.ranges) + 1
    sizes = {
        symbol: span[len(span) * part // parts]
        for part, (symbol, span) in enumerate(case.ranges.items(), 1)
    }
    example = dict(case.inputs(sizes))
    made = cuvil.compile(
        case.model(), example, dynamic_dims=case.dynamic, threads=1, verify=False
    )
    return made


def specialised(case: Case, sizes: Sizes) -> Artifact:
    """An artifact for one size."""
    inputs = dict(case.inputs(sizes))
    how: dict[str, Any] = {"example_inputs": inputs}
    if case.onnx:
        how = {"input_spec": [(n, str(a.dtype), a.shape) for n, a in inputs.items()]}
    made: Artifact = cuvil.compile(case.model(), threads=1, verify=False, **how)
    return made


def ratios(name: str, case: Case, artifact: Artifact, sizes: int, seconds: float) -> list[float]:
    """Median times of the symbolic artifact over those of the specialised one."""
    found = []
    for fixed in case.fixed[:sizes]:
        inputs = dict(case.inputs(fixed))
        with specialised(case, fixed) as special:
            calls: dict[str, Callable[[], object]] = {
                kind: functools.partial(made.run, inputs)
                for kind, made in (("any", artifact), ("one", special))
            }
            times = interleaved(calls, seconds, time.thread_time)
        any_size, one = times["any"], times["one"]
        print(
            f"  {name} at {_said(fixed)}: {any_size.median * 1e3:.3f} ms for any size, "
            f"{one.median * 1e3:.3f} for one; ratio {any_size.median / one.median:.3f} "
            f"(of the least {any_size.min / one.min:.3f})",
            flush=True,
        )
        found.append(any_size.median / one.median)
    return found


def _said(sizes: Sizes) -> str:
    return ", ".join(f"{n} {s}" for n, s in sizes.items())


def time_bar(names: Sequence[str], sizes: int, seconds: float) -> Bar:
    """The mean of all models' ratios."""
    every: list[float] = []
    for name in names:
        with symbolic(CASES[name]) as artifact:
            every += ratios(name, CASES[name], artifact, sizes, seconds)
    mean = math.exp(sum(map(math.log, every)) / len(every))
    return Bar("symbolic over specialised, geometric mean", mean, MEAN_LIMIT, "")


class _Joined(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b, c], 1)


def check_bar(seconds: float) -> Bar:
    """Nanoseconds of a check of shapes from C."""
    example = tuple(torch.randn(2, 16) for _ in range(3))
    artifact = cuvil.compile(
        _Joined(), example, dynamic_dims=["batch", "seq"], threads=1,
        constraints=("seq % 8 == 0", "batch * seq <= 16384"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        artifact.save(folder / "model.so")
        taken = float(run_c(CALLER, folder, str(seconds)))
    return Bar("check of the shapes of a call, from C", taken, CHECK_LIMIT, "ns")


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="check,compile,shapes,times")
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sizes", type=int, default=2, help="specialised ones for each model")
    parser.add_argument("--shapes", type=int, default=1000, help="random ones for each model")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--variants", action="store_true", help="only what versions gain")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    only = ["variants"] if given.variants else given.only.split(",")
    bars: list[Bar] = []
    for bar in _bars(only, given):
        print(bar, flush=True)
        bars.append(bar)
    return report(bars, given.json)


def _bars(only: Sequence[str], given: argparse.Namespace) -> Iterator[Bar]:
    if "check" in only:
        yield check_bar(given.seconds)
    if "compile" in only:
        for name in given.models:
            yield from compile_bars(name, CASES[name])
    if "shapes" in only:
        for name in given.models:
            with symbolic(SMALL[name]) as artifact:
                yield from shape_bars(name, SMALL[name], artifact, given.shapes)
    if "variants" in only:
        yield from variant_bars(given.seconds)
    if "times" in only:
        yield time_bar(given.models, given.sizes, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
