"""Every architecture of transformers in a small configuration: compiled, verified, listed.

``python -m tools.transformers_sweep [--only NAME ...] [--json FILE] [--write] [--timeout S]``

Each one is exported, compiled and compared with PyTorch in a process of its own, with batch and
sequence symbolic where its export allows that, else at fixed sizes. ``--json`` keeps results, and
architectures that it has already are not run again; ``--write`` writes docs/transformers.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import transformers

import cuvil
import cuvil.frontends.torch_export  # here, so that no forked process has to
from cuvil.errors import CuvilError, InvalidModelError, UnsupportedOpError, VerificationError
from tools.lively import says_something
from tools.transformers_small import ARCHITECTURES, build

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "transformers.md"


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
    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        model, inputs, dynamic = build(name)
        with torch.no_grad():
            if not says_something(model(**inputs)):
                return Result(name, "not built", note="its output is constant or not finite")
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
    """The same in a process of its own, forked so that nothing has to be imported again."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send_one, args=(name, send))
    child.start()
    send.close()
    try:
        if receive.poll(seconds):
            return receive.recv()
        return Result(name, "failed", note=f"it took more than {seconds:.0f} s")
    except EOFError:
        child.join()
        return Result(name, "failed", note=f"exit code {child.exitcode}")
    finally:
        child.kill()
        child.join()


def _send_one(name: str, send: Connection) -> None:
    send.send(run_one(name))


def page(results: list[Result]) -> str:
    """The table of docs/transformers.md."""
    right = [r for r in results if r.state == "right"]
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    lines = [
        "# Architectures of transformers",
        "",
        "Each architecture in a small configuration with seeded weights, compiled and compared",
        f"with PyTorch by `python -m tools.transformers_sweep --write` ({versions}).",
        "Weights are scaled so that each layer matters; results with a note *weights as",
        "initialised* are from before that was done, and say less of early layers.",
        f"{len(right)} of the {len(results)} listed are right; no other gives an artifact.",
        "",
        "| architecture | result | dims | kernels | largest error | note |",
        "|---|---|---|---:|---:|---|",
    ]
    for r in results:
        figures = f"{r.kernels} | {r.error:.1e}" if r.state == "right" else " | "
        note = r.note.replace("|", "\\|")
        lines.append(f"| {r.name} | {r.state} | {r.dims} | {figures} | {note} |")
    missing = sorted(set(ARCHITECTURES) - {r.name for r in results})
    if missing:
        lines += ["", f"Not judged so far: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """1 when an architecture is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--timeout", type=float, default=300)
    asked = parser.parse_args(arguments)
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
