"""What a call costs beside its arithmetic, and how near a large product comes to the peak.

    python bench/overhead.py [--only python,c,gemm] [--seconds S] [--clock wall|cpu]
        [--json FILE]

A graph that adds two vectors of 8 numbers: microseconds a call from Python and from C. A product of
two matrices of 1024 x 1024 on one thread and on two: its rate over that of fused multiply-adds on
registers, as many, on as many threads, measured in turns with it. Each figure is the best of many,
since a shared machine only ever adds time; where even 20 ms are never had undisturbed, ``--clock
cpu`` counts the seconds that the threads of the product ran, which leaves out what they slept.
Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import cuvil  # noqa: E402
from bench.bars import Bar, report  # noqa: E402
from bench.c_caller import run_c  # noqa: E402
from bench.native_gemm import ONE_THREAD, REAL_POOL, Case, Shape, native_call  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402
from tests.native.conv_harness import CORE, WRAPPERS  # noqa: E402
from tests.native.harness import build, runnable  # noqa: E402
from tests.native.test_gemm import WRAPPERS as GEMM_WRAPPERS  # noqa: E402

PYTHON_LIMIT, C_LIMIT, PEAK_LEAST = 3.0, 0.3, 0.9
_SIDE = 1024
_TENSORS = "artifact(x, y)"
_PIECES = 1024  # of the multiply-adds that a product is held against
_ASLEEP = 0.005  # seconds after which a pool's threads sleep
_IN_A_ROW = 8
_CALLS = 100  # a window of Python calls is short, so that some are not interrupted

# Windows of calls through the checked entry; the least time of a call in nanoseconds.
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

static _Alignas(CUVIL_ALIGNMENT) char workspace[1 << 12];

static int failed(const cuvil_status* status) {
  fprintf(stderr, "%s\n", status->message);
  return 1;
}

int main(int argc, char** argv) {
  float data[3][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 1, 1, 1, 1, 1}};
  int64_t shape[1] = {8};
  DLTensor t[3];
  cuvil_model* model = NULL;
  cuvil_status status;
  double best = 1e18, end = now() + atof(argc > 1 ? argv[1] : "1") * 1e9;
  for (int i = 0; i < 3; ++i) {
    DLTensor made = {data[i], {1, 0}, 1, {2, 32, 1}, shape, NULL, 0};
    t[i] = made;
  }
  const DLTensor* inputs[] = {&t[0], &t[1]};
  DLTensor* outputs[] = {&t[2]};
  if (cuvil_create(NULL, 0, NULL, &model, &status)) return failed(&status);
  while (now() < end) {
    double start = now();
    for (int i = 0; i < 1000; ++i)
      if (cuvil_run(model, inputs, 2, outputs, 1, workspace, sizeof workspace, &status))
        return failed(&status);
    double taken = (now() - start) / 1000;
    if (taken < best) best = taken;
  }
  for (int i = 0; i < 8; ++i)
    if (data[2][i] != data[0][i] + data[1][i]) return 3;
  printf("%.3f\n", best);
  cuvil_destroy(model);
  return 0;
}
"""

# As many independent sums as hide the latency of a multiply-add; 2 operations for each lane. The
# pieces are cut and handed out as a product's are, on the same threads.
PEAK = r"""
#include "vec.hpp"
EXPORT double fma_operations(cuvil::Pool* pool, int64_t pieces, int64_t rounds, float* out) {
  cuvil::parallel_for(pool, pieces, 1, [&](int64_t begin, int64_t end, int32_t thread) {
    float* const own = out + 64 * thread;
    cuvil::vf sums[SUMS], a, b;
    for (int i = 0; i < cuvil::VL; ++i) a[i] = own[0], b[i] = own[1];
    for (int i = 0; i < SUMS; ++i) sums[i] = a + float(i);
    for (int64_t r = 0; r < rounds * (end - begin); ++r) {
#pragma clang loop unroll(full)
      for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * a + b;
    }
    for (int i = 0; i < SUMS; ++i) own[2] += sums[i][0];
  });
  return 2.0 * SUMS * cuvil::VL * double(rounds) * double(pieces);
}
"""


def adding() -> onnx.ModelProto:
    """y = a + b, all of 8 numbers."""
    a, b, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [8]) for n in "aby")
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "add", [a, b], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def python_bars(artifact: Artifact, seconds: float) -> Iterator[Bar]:
    """Microseconds of a call with arrays, and of one with names. Beside them, one with tensors: a
    new tensor alone takes one."""
    a, b = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    calls: dict[str, Callable[[], object]] = {
        "artifact(a, b)": lambda: artifact(a, b),
        "artifact.run({...})": lambda: artifact.run({"a": a, "b": b}),
        _TENSORS: lambda: artifact(x, y),
    }
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / _CALLS)
    print(f"  with PyTorch's tensors {best.pop(_TENSORS) * 1e6:.2f} us")
    for name, taken in best.items():
        yield Bar(f"add two vectors of 8 from Python, {name}", taken * 1e6, PYTHON_LIMIT, "us")


def c_bar(artifact: Artifact, seconds: float, folder: Path) -> Bar:
    """Microseconds of a checked call from C."""
    artifact.save(folder / "model.so")
    taken = float(run_c(CALLER, folder, str(seconds)))
    return Bar("add two vectors of 8 from C", taken / 1e3, C_LIMIT, "us")


def gemm_bar(threads: int, seconds: float, cpu: bool, folder: Path) -> Bar:
    """The rate of a product over that of multiply-adds on as many threads at once, as long as it
    and in turns with it. One thread's peak times their number is shown beside it: what two cores
    have together may be less, and is while others use one of them."""
    machine = runnable()[0]
    sums = 24 if machine.vec_bytes == 64 else 12
    code = WRAPPERS + GEMM_WRAPPERS + f"#define SUMS {sums}\n" + PEAK
    pool_code, core = (
        (REAL_POOL, (*CORE, "core_threads.cpp")) if threads > 1 else (ONE_THREAD, CORE)
    )
    library = build(folder, machine, code, core, pool_code)
    library.make_pool.restype = ctypes.c_void_p
    library.fma_operations.restype = ctypes.c_double
    pool = ctypes.c_void_p(library.make_pool(threads))
    case = Case("large", "gemm", Shape(1, 1, 1, 1, 1), (_SIDE,) * 3)
    product, _ = native_call(case, library, machine.nr, threads, pool)
    lanes = machine.vec_bytes // 4
    rounds = int(case.flops / (2 * sums * lanes * _PIECES))
    values = (ctypes.c_float * (64 * threads))(*[0.5, 1.0, *[0.0] * 62] * threads)
    work: dict[str, tuple[Callable[[], object], int]] = {
        "product": (product, threads),
        "peak": (_multiply_adds(library, pool, rounds, values), threads),
        "one": (_multiply_adds(library, None, rounds // threads, values), 1),
    }
    rates = _rates(work, case.flops, seconds, cpu)
    shown = f"  {rates['product'] / 1e9:.0f} of {rates['peak'] / 1e9:.0f} GFLOP/s"
    if threads > 1:
        share = rates["product"] / rates["one"]
        shown += f"; {share:.2f} of one thread's peak times {threads}, {rates['one'] / 1e9:.0f}"
    print(shown, flush=True)
    title = f"product of {_SIDE} x {_SIDE} over the peak, {threads} thread(s)"
    return Bar(title, rates["product"] / rates["peak"], PEAK_LEAST, "", least=True)


def _multiply_adds(
    library: ctypes.CDLL, pool: ctypes.c_void_p | None, rounds: int, values: ctypes.Array[Any]
) -> Callable[[], object]:
    """As many as a product has when all pieces are done."""
    pieces, each = ctypes.c_int64(_PIECES), ctypes.c_int64(rounds)
    return lambda: library.fma_operations(pool, pieces, each, values)


def _rates(
    work: dict[str, tuple[Callable[[], object], int]], flops: float, seconds: float, cpu: bool
) -> dict[str, float]:
    """Operations a second of all threads, the best of turns; what ran on one thread did a share of
    the work, and stands for as many as share it."""
    best = dict.fromkeys(work, 0.0)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, (call, count) in work.items():
            taken = _cpu_taken(call) / count if cpu else _taken(call)
            best[name] = max(best[name], flops / taken)
    return best


def _taken(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _cpu_taken(call: Callable[[], object]) -> float:
    """Seconds that all threads ran: those of another thread are known once it sleeps. Several calls
    in a row, as the caches are cold after that."""
    time.sleep(_ASLEEP)
    start = time.process_time()
    for _ in range(_IN_A_ROW):
        call()
    time.sleep(_ASLEEP)
    return (time.process_time() - start) / _IN_A_ROW


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="python,c,gemm")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="for gemm")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    only = given.only.split(",")
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for bar in _bars(only, given.seconds, given.clock == "cpu", folder):
            print(bar, flush=True)
            bars.append(bar)
    return report(bars, given.json)


def _bars(only: list[str], seconds: float, cpu: bool, folder: Path) -> Iterator[Bar]:
    if "python" in only or "c" in only:
        artifact = cuvil.compile(adding(), threads=1)
        if "python" in only:
            yield from python_bars(artifact, seconds)
        if "c" in only:
            yield c_bar(artifact, seconds, folder)
    if "gemm" in only:
        for threads in (1, 2):
            yield gemm_bar(threads, seconds, cpu, folder / str(threads))


if __name__ == "__main__":
    sys.exit(main())
