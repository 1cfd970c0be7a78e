"""Every architecture of transformers in a small configuration: compiled, verified, listed.

``python -m tools.transformers_sweep [--only NAME ...] [--json FILE] [--write] [--timeout S]``

Each one is exported, compiled and compared with PyTorch in a process of its own, with batch and
sequence symbolic where its export allows that, else at fixed sizes. ``--json`` keeps results, and
architectures that it has already are not run again; ``--write`` writes docs/transformers.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.transformers_small import ARCHITECTURES, build

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "transformers.md"
RESULT = "SWEEP-RESULT "


@dataclass(frozen=True)
class Result:
    """``state``: right, wrong, refused, no export (PyTorch's own), or failed."""

    name: str
    state: str
    dims: str = ""
    kernels: int = 0
    error: float = 0.0
    note: str = ""


def run_one(name: str) -> Result:
    """Compile and verify one architecture in this process."""
    import torch

    import cuvil
    from cuvil.errors import CuvilError, InvalidModelError, UnsupportedOpError, VerificationError

    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        model, inputs, dynamic = build(name)
        with torch.no_grad():
            model(**inputs)
    except Exception as error:
        return Result(name, "not built", note=f"{type(error).__name__}: {_line(error)}")
    problem: Result | None = None
    for dims in ([dynamic] if dynamic else []) + [None]:
        label = "symbolic" if dims else "fixed"
        try:
            artifact = cuvil.compile(model, inputs, dynamic_dims=dims, threads=1)
            report = cuvil.verify(artifact, inputs)
        except UnsupportedOpError as error:
            ops = sorted({node.op for node in error.nodes})
            problem = problem or Result(name, "refused", label, note=", ".join(ops)[:200])
            continue
        except VerificationError as error:
            return Result(name, "wrong", label, note=_line(error))
        except InvalidModelError as error:
            problem = problem or Result(name, "no export", label, note=_line(error))
            continue
        except CuvilError as error:
            problem = problem or Result(name, "failed", label, note=_line(error))
            continue
        worst = max((e.scaled for e in report.errors), default=0.0)
        kernels = len(artifact.manifest.extra["kernels"])
        return Result(name, "right", label, kernels, float(worst))
    assert problem is not None
    return problem


def _line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


def run_apart(name: str, seconds: float) -> Result:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tools.transformers_sweep", "--inside", name]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Result(name, "failed", note=f"it took more than {seconds:.0f} s")
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return Result(**json.loads(line.removeprefix(RESULT)))
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return Result(name, "failed", note=f"exit code {done.returncode}: {last[:160]}")


def page(results: list[Result]) -> str:
    """The table of docs/transformers.md."""
    import torch
    import transformers

    right = [r for r in results if r.state == "right"]
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    lines = [
        "# Architectures of transformers",
        "",
        "Each architecture in a small configuration with seeded weights, compiled and compared",
        f"with PyTorch by `python -m tools.transformers_sweep --write` ({versions}).",
        f"{len(right)} of the {len(results)} listed are right; no other gives an artifact.",
        "",
        "| architecture | result | dims | kernels | largest error | note |",
        "|---|---|---|---:|---:|---|",
    ]
    for r in results:
        figures = f"{r.kernels} | {r.error:.1e}" if r.state == "right" else " | "
        note = r.note.replace("|", "\\|")
        lines.append(f"| {r.name} | {r.state} | {r.dims} | {figures} | {note} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """1 when an architecture is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.inside:
        print(RESULT + json.dumps(asdict(run_one(asked.inside))))
        return 0
    known: dict[str, Any] = {}
    if asked.json and asked.json.exists():
        known = {r["name"]: r for r in json.loads(asked.json.read_text())}
    results = []
    for name in asked.only or ARCHITECTURES:
        kept = known.get(name)
        result = Result(**kept) if kept else run_apart(name, asked.timeout)
        results.append(result)
        print(f"{name:28s} {result.state:10s} {result.dims:9s} {result.error:.1e} {result.note}",
              flush=True)  # fmt: skip
        known[name] = asdict(result)
        if asked.json:
            asked.json.write_text(json.dumps(list(known.values()), indent=1))
    if asked.write:
        PAGE.write_text(page(results), encoding="utf-8")
    return 1 if any(r.state == "wrong" for r in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
