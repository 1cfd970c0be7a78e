"""What symbolic shapes cost: one artifact for all sizes against one made for a single size.

    python bench/dynamic.py [--only models,check,compile] [--models NAME ...] [--sizes N]
        [--shapes N] [--seconds S] [--variants] [--json FILE]

Models: the symbolic artifact and one specialised at a size take turns on one thread, whose own
time is counted; the bar is on the geometric mean over models and sizes of the medians' ratio. Each
symbolic artifact is also held to its source at random sizes. Check: a call of the C interface that
binds two symbols off three inputs, checks two constraints and evaluates an output's shape. Compile:
the share of a compilation that is spent in sym/, by the profiler, which makes it look larger than
it is. With --variants alone: what kernels' versions for some sizes gain (bench/variants.py). Exits
with 1 when a bar is missed or a size is wrong.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import math
import pstats
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from bench.variants import variant_bars  # noqa: E402
from cuvil.integrations.bench.measure import interleaved  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402
from tools import zoo  # noqa: E402

MEAN_LIMIT, CHECK_LIMIT, SHARE_LIMIT = 1.05, 200.0, 10.0  # ratio, ns, %
MODELS = ROOT / ".models"
Sizes = Mapping[str, int]
Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """``ranges`` are sizes to draw from, by symbol; ``fixed`` those to specialise at."""

    model: Callable[[], Any]
    inputs: Callable[[Sizes], Inputs]
    dynamic: Any
    ranges: Mapping[str, Sequence[int]]
    fixed: Sequence[Sizes]
    onnx: bool = False


class Recurrent(torch.nn.Module):
    """An LSTM in both directions and a GRU over what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.LSTM(256, 256, batch_first=True, bidirectional=True)
        self.second = torch.nn.GRU(512, 256, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(self.first(x)[0])[0]
        return found


def _recurrent() -> torch.nn.Module:
    torch.manual_seed(0)
    return Recurrent().eval()


def _steps(sizes: Sizes) -> Inputs:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((sizes["batch"], sizes["seq"], 256), dtype=np.float32)}


def _of_zoo(name: str, ranges: Mapping[str, Sequence[int]], fixed: Sequence[Sizes]) -> Case:
    entry = zoo.find(name)
    return Case(
        lambda: entry.make(MODELS), entry.inputs, entry.dynamic or None, ranges, fixed, entry.onnx
    )


_TEXT = {"batch": range(1, 5), "seq": range(1, 161)}
_TEXTS = ({"batch": 1, "seq": 128}, {"batch": 1, "seq": 37}, {"batch": 4, "seq": 64})
_PICTURES = ({"batch": 1}, {"batch": 3})
CASES: Mapping[str, Case] = {
    "bert-base": _of_zoo("bert-base", _TEXT, _TEXTS),
    "gpt2": _of_zoo("gpt2", _TEXT, _TEXTS),
    "vit-b16": _of_zoo("vit-b16", {"batch": range(1, 5)}, _PICTURES),
    "resnet50": _of_zoo("resnet50", {"batch": range(1, 5)}, _PICTURES),
    "ppocr-det": _of_zoo(
        "ppocr-det", {"n": (1, 2), "h": range(32, 257, 32), "w": range(32, 257, 32)},
        ({"n": 1, "h": 320, "w": 320}, {"n": 1, "h": 64, "w": 96}),
    ),
    "ppocr-rec": _of_zoo(
        "ppocr-rec", {"n": (1, 2, 3), "h": (48,), "w": range(32, 321)},
        ({"n": 1, "h": 48, "w": 320}, {"n": 2, "h": 48, "w": 100}),
    ),
    "lstm+gru": Case(
        _recurrent, _steps, {"x": {0: "batch", 1: "seq"}},
        {"batch": range(1, 5), "seq": range(1, 129)},
        ({"batch": 1, "seq": 100}, {"batch": 4, "seq": 33}),
    ),
}  # fmt: skip

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
    example = dict(case.inputs(case.fixed[0]))
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


def wrong_sizes(name: str, case: Case, artifact: Artifact, count: int) -> int:
    """How many of ``count`` random sizes are not right to the tolerance of verification."""
    rng, wrong = random.Random(0), 0
    for _ in range(count):
        sizes = {symbol: rng.choice(list(span)) for symbol, span in case.ranges.items()}
        if not cuvil.verify(artifact, dict(case.inputs(sizes))).passed:
            print(f"  {name} at {_said(sizes)}: WRONG", flush=True)
            wrong += 1
    return wrong


def _said(sizes: Sizes) -> str:
    return ", ".join(f"{n} {s}" for n, s in sizes.items())


def model_bars(names: Sequence[str], sizes: int, shapes: int, seconds: float) -> Iterator[Bar]:
    """Rightness of each model, and the mean of all ratios."""
    every: list[float] = []
    for name in names:
        case = CASES[name]
        with symbolic(case) as artifact:
            every += ratios(name, case, artifact, sizes, seconds)
            if shapes:
                wrong = wrong_sizes(name, case, artifact, shapes)
                yield Bar(f"{name}: wrong ones of {shapes} random sizes", wrong, 1, "")
    mean = math.exp(sum(map(math.log, every)) / len(every))
    yield Bar("symbolic over specialised, geometric mean", mean, MEAN_LIMIT, "")


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


def compile_bar(name: str) -> Bar:
    """The share of a compilation that is spent on expressions, constraints and the solver."""
    case = CASES[name]
    model = case.model()
    how: dict[str, Any] = {"dynamic_dims": case.dynamic, "cache": False, "verify": False}
    if not case.onnx:
        how["example_inputs"] = dict(case.inputs(case.fixed[0]))
    cuvil.compile(model, **{**how, "dynamic_dims": None if case.onnx else case.dynamic})
    profile = cProfile.Profile()
    profile.enable()
    cuvil.compile(model, **how)
    profile.disable()
    stats: Any = pstats.Stats(profile)
    folder = str(ROOT / "src" / "cuvil" / "sym")
    own = sum(row[2] for (file, _, _), row in stats.stats.items() if file.startswith(folder))
    share = 100 * own / stats.total_tt
    print(f"  {name}: {own:.2f} of {stats.total_tt:.2f} s in sym/", flush=True)
    return Bar(f"{name}: share of sym/ in a compilation", share, SHARE_LIMIT, "%")


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="models,check,compile")
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sizes", type=int, default=2, help="specialised ones for each model")
    parser.add_argument("--shapes", type=int, default=20, help="random ones for each model")
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
            yield compile_bar(name)
    if "variants" in only:
        yield from variant_bars(given.seconds)
    if "models" in only:
        yield from model_bars(given.models, given.sizes, given.shapes, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
