"""What bench/latency.py measured, as data: written and read as JSON, and what follows from it."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.integrations.bench.peers import PEERS

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "bench" / "measured.json"
# Who stands for a project: the fastest of its ways to run a model.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "torch": ("torch", "torch.compile", "aotinductor"),
    "others": ("executorch", "tract", "iree", "tvm"),
}


@dataclass
class Row:
    """One model with a number of threads: seconds by runtime, errors of output scale, and why a
    runtime has none."""

    name: str
    batch: int
    threads: int
    medians: dict[str, float] = field(default_factory=dict)
    minima: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    precision: str = "f32"

    def best(self, times: Mapping[str, float], among: Iterable[str] = PEERS) -> str | None:
        """The fastest peer that computes in the model's own precision, or if cuvil does not in
        any; None without any."""
        alike = [n for n in among if precise(n) or self.precision != "f32"]
        able = [n for n in alike if n != "cuvil" and n in times]
        return min(able, key=times.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """cuvil's median over the best peer's."""
        return self._ratio(self.medians)

    @property
    def ratio_of_minima(self) -> float | None:
        """The same of the smallest times, which a noisy machine disturbs less."""
        return self._ratio(self.minima)

    def _ratio(self, times: Mapping[str, float]) -> float | None:
        best = self.best(times)
        if best is None or "cuvil" not in times:
            return None
        return times["cuvil"] / times[best]


@dataclass
class Result:
    """One model at one batch: times of every runtime, and what deploying each takes.

    ``latencies`` and ``deployments`` are those of a Comparison as plain data; ``failure`` says
    why there are none.
    """

    name: str
    batch: int
    inputs: str = ""
    truth: str = ""
    compile_seconds: float = 0.0
    library_bytes: int = 0
    latencies: list[dict[str, Any]] = field(default_factory=list)
    deployments: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    precision: str = "f32"

    def rows(self) -> list[Row]:
        """A row for each number of threads."""
        rows: dict[int, Row] = {}
        for x in self.latencies:
            new = Row(self.name, self.batch, x["threads"], precision=self.precision)
            row = rows.setdefault(x["threads"], new)
            row.errors[x["peer"]] = x["error"]
            if x["times"] is None:
                row.missing[x["peer"]] = x["missing"]
                continue
            row.medians[x["peer"]] = x["times"]["median"]
            row.minima[x["peer"]] = x["times"]["min"]
        return list(rows.values())

    def deployment(self, peer: str) -> dict[str, Any]:
        """What deploying with that runtime takes; empty where it was not measured."""
        found = (d for d in self.deployments if d["peer"] == peer and not d["missing"])
        return next(found, {})


@dataclass
class Measured:
    """Results with the machine they are of."""

    machine: dict[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """A result replaces an older one of the same model and batch."""
        key = (result.name, result.batch)
        kept = [r for r in self.results if (r.name, r.batch) != key]
        self.results = [*kept, result]

    def rows(self, threads: int | None = None, batch: int | None = None) -> list[Row]:
        """All rows, or those of a number of threads or of a batch."""
        return [
            row
            for result in self.results
            for row in result.rows()
            if threads in (None, row.threads) and batch in (None, row.batch)
        ]

    def find(self, name: str, batch: int = 1) -> Result | None:
        """The result of a model; None if it was not measured."""
        found = (r for r in self.results if (r.name, r.batch) == (name, batch))
        return next(found, None)

    def versions(self) -> dict[str, str]:
        """The versions of the runtimes, as far as deployments were measured."""
        deployments = [d for r in self.results for d in r.deployments]
        return {d["peer"]: d["version"] for d in deployments if d.get("version")}

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)


def read(path: Path) -> Measured:
    """What was saved. Raises OSError if there is nothing."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Measured(found["machine"], [Result(**r) for r in found["results"]])


def precise(peer: str) -> bool:
    """Whether a peer computes in the model's own precision."""
    return peer not in PEERS or PEERS[peer].precise


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of at least one positive number."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def machine() -> dict[str, Any]:
    """What the results are of."""
    return {
        "cpu": cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def cpu() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "an unnamed processor"
