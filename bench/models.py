"""Every model of tools/zoo.py and of the onnx package beside onnxruntime, one thread.

``python bench/models.py [--seconds S] [--threads N] [--only NAME ...] [--json FILE]``

Both take turns in one run; the ratio is of medians, the minima are printed beside it. Exits with
1 when a model is slower than onnxruntime by more than the allowed factor, or could not be run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import cuvil  # noqa: E402
from cuvil.integrations.bench.compare import benchmark  # noqa: E402
from tools import zoo  # noqa: E402
from tools.onnx_suites import SuiteCase, suite_cases  # noqa: E402

ALLOWED = 1.3
TINY_SECONDS = 0.3


@dataclass
class Row:
    """One model: milliseconds, or why there are none."""

    name: str
    cuvil_min: float = 0.0
    cuvil_median: float = 0.0
    peer_min: float = 0.0
    peer_median: float = 0.0
    error: float = 0.0
    compile_seconds: float = 0.0
    library_bytes: int = 0
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.cuvil_median / self.peer_median if self.peer_median else None

    def __str__(self) -> str:
        if not self.peer_median:
            return f"{self.name:44s} {self.note}"
        return (
            f"{self.name:44s} cuvil {self.cuvil_median:9.4f} (min {self.cuvil_min:9.4f})  "
            f"ort {self.peer_median:9.4f} (min {self.peer_min:9.4f})  ratio {self.ratio:5.2f} "
            f"({self.cuvil_min / self.peer_min:5.2f})  error {self.error:.1e}  "
            f"lib {self.library_bytes / 1024:4.0f} KB  compile {self.compile_seconds:5.1f} s"
        )


def _compare(name: str, model: Any, inputs: Any, threads: int, seconds: float, **how: Any) -> Row:
    start = time.monotonic()
    artifact = cuvil.compile(model, inputs, threads=threads, **how)
    row = Row(name, compile_seconds=time.monotonic() - start)
    arrays = {
        spec.name: np.asarray(inputs[spec.name]) for spec in artifact.inputs if spec.name in inputs
    }
    found = benchmark(
        artifact, ["onnxruntime"], [threads], [arrays], seconds=seconds, deployment=False
    )
    for latency in found.latencies:
        if latency.times is None:
            row.note = f"{latency.peer}: {latency.missing}"
            continue
        if latency.peer == "cuvil":
            row.cuvil_min, row.cuvil_median = latency.times.min * 1e3, latency.times.median * 1e3
            row.error = latency.error or 0.0
        else:
            row.peer_min, row.peer_median = latency.times.min * 1e3, latency.times.median * 1e3
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "m.so"
        artifact.save(library)
        row.library_bytes = library.stat().st_size
    return row


def _zoo_rows(only: list[str], threads: int, seconds: float) -> Iterator[Row]:
    for entry in (*zoo.TORCH, *zoo.ONNX):
        if only and entry.name not in only:
            continue
        inputs = entry.inputs(entry.sizes[0])
        model = entry.make(ROOT / ".models")
        if entry.onnx:
            yield _compare(entry.name, str(model), inputs, threads, seconds)
            continue
        import torch

        tensors = {k: torch.from_numpy(v) for k, v in inputs.items()}
        dynamic = dict(entry.dynamic) or None
        yield _compare(entry.name, model, tensors, threads, seconds, dynamic_dims=dynamic)


def _light_rows(only: list[str], threads: int, seconds: float) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for name in zoo.LIGHT:
        if only and name not in only:
            continue
        shape = (1, 3, 224, 224)
        path = str(zoo.light(name))
        names = [s.name for s in cuvil.compile(path, verify=False).inputs]
        inputs = {names[0]: rng.standard_normal(shape, dtype=np.float32)}
        yield _compare(f"light/{name}", path, inputs, threads, seconds, verify=False)


def _suite_rows(only: list[str], threads: int) -> Iterator[Row]:
    for case in suite_cases():
        if only and case.name not in only:
            continue
        yield _suite_row(case, threads)


def _suite_row(case: SuiteCase, threads: int) -> Row:
    options = {"fixed_inputs": case.shaping}
    given = {k: v for k, v in case.inputs.items() if k not in case.shaping}
    try:
        return _compare(case.name, str(case.path), given, threads, TINY_SECONDS, options=options)
    except cuvil.CuvilError as error:
        return Row(case.name, note=f"refused: {error.message.splitlines()[0]}")


def main() -> int:
    """Print a line a model, then what missed the bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each peer and model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    sources = (
        _zoo_rows(arguments.only, arguments.threads, arguments.seconds),
        _light_rows(arguments.only, arguments.threads, arguments.seconds),
        _suite_rows(arguments.only, arguments.threads),
    )
    for source in sources:
        for row in source:
            print(row, flush=True)
            rows.append(row)
    slow = [r for r in rows if r.ratio is not None and r.ratio > ALLOWED]
    for row in slow:
        print(f"over {ALLOWED}: {row.name} {row.ratio:.2f}")
    ratios = [r.ratio for r in rows if r.ratio]
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"{len(ratios)} compared, geometric mean {mean:.2f}, {len(slow)} over {ALLOWED}")
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(r) for r in rows], indent=1))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
