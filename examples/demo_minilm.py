"""From a PyTorch model to an artifact that runs without PyTorch: `make demo`.

Compiles a real sentence encoder with symbolic batch and sequence length, checks it against
PyTorch, searches with it, measures it beside PyTorch and ONNX Runtime, and runs it in a process
that can import NumPy and Cuvil alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import minilm
import numpy as np
import torch
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import cuvil
from cuvil.cli.text import bytes_text, milliseconds, signature_text, table
from cuvil.integrations.bench.compare import Comparison, benchmark
from cuvil.runtime.artifact import Artifact

SHAPES = ((1, 1), (1, 7), (2, 16), (3, 33), (16, 5), (1, 128), (8, 64), (1, 512))
TIMED = ((1, 8), (1, 32), (1, 128), (8, 128))
TOLERANCE = 1e-5  # largest error allowed, of the output's largest magnitude
PEERS = ("torch", "onnxruntime")
STAGES = 8

# Texts are printed as they are: dims in brackets would be taken for styles.
out = Console(highlight=False, markup=False, soft_wrap=True)


def section(number: int, text: str) -> None:
    """A heading."""
    out.print(f"\n{number}. {text}", style="bold")


def show(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns whose header starts with ">" are aligned to the right."""
    out.print(Padding(table(headers, rows), (0, 0, 0, 3), expand=False))


def finish(reason: str) -> None:
    """The demo failed."""
    out.print(f"FAILED: {reason}", style="bold red")
    raise SystemExit(1)


@contextmanager
def working(total: int) -> Iterator[Any]:
    """A bar on a terminal; gives a function of (what is being done, seconds once it is over)."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    plain = not out.is_terminal
    with Progress(*columns, console=out, transient=True, disable=plain) as bar:
        task = bar.add_task("", total=total)

        def step(text: str, seconds: float | None = None) -> None:
            if seconds is None:
                bar.update(task, description=text)
            else:
                bar.advance(task)

        yield step


def compile_encoder(encoder: torch.nn.Module) -> Artifact:
    """With batch and seq symbolic in one artifact."""
    example = {k: torch.from_numpy(v) for k, v in minilm.made_up_tokens(2, 16).items()}
    dims = {0: cuvil.Dim("batch", min=1, max=256), 1: cuvil.Dim("seq", min=1, max=512)}
    seconds: dict[str, float] = {}
    with working(STAGES) as step:

        def progress(stage: str, taken: float | None) -> None:
            step(stage, taken)
            if taken is not None:
                seconds[stage] = seconds.get(stage, 0.0) + taken

        start = time.perf_counter()
        artifact = cuvil.compile(
            encoder, example, dynamic_dims=dict.fromkeys(example, dims), profile=progress
        )
        total = time.perf_counter() - start
    parts = ", ".join(f"{name} {s:.1f}" for name, s in seconds.items() if s >= 0.05)
    out.print(f"   {total:.1f} s ({parts})")
    return artifact


def verify(artifact: Artifact, encoder: torch.nn.Module) -> None:
    """Compare with PyTorch over a spread of shapes."""
    rows, worst = [], 0.0
    for batch, seq in SHAPES:
        inputs = minilm.made_up_tokens(batch, seq)
        with torch.inference_mode():
            wanted = encoder(*(torch.from_numpy(x) for x in inputs.values())).numpy()
        found = artifact.run(inputs)
        (vectors,) = found.values()
        error = float(np.abs(vectors - wanted).max() / np.abs(wanted).max())
        worst = max(worst, error)
        rows.append([batch, seq, f"{error:.1e}"])
    show([">batch", ">seq", ">max error of scale"], rows)
    if not worst < TOLERANCE:
        finish(f"an error of {worst:.1e} of output scale is more than {TOLERANCE}")


def search(artifact: Artifact, tokenizer: minilm.Tokenizer) -> None:
    """The nearest sentences to each query, by the cosine of their vectors."""
    library = artifact(**tokenizer(minilm.SENTENCES))
    for query, wanted in minilm.QUERIES:
        scores = library @ artifact(**tokenizer([query]))[0]
        best = np.argsort(-scores)[:2]
        out.print(f"   {query}", style="italic")
        for i in best:
            out.print(f"      {scores[i]:.2f}  {minilm.SENTENCES[i]}")
        if best[0] != wanted:
            finish(f"expected the sentence {minilm.SENTENCES[wanted]!r}")


def measure(artifact: Artifact) -> Comparison:
    """Beside PyTorch and ONNX Runtime, in turns."""
    cases = [minilm.made_up_tokens(batch, seq) for batch, seq in TIMED]
    peers = len(PEERS) + 1
    with working(2 * len(cases) + peers) as step:

        def note(text: str) -> None:
            step(text)
            step(text, 0.0)
            if not out.is_terminal:
                out.print(f"   {text}")

        return benchmark(artifact, PEERS, (1,), cases, seconds=1.0, note=note)


def show_measured(found: Comparison, native: int) -> None:
    """Latency, then what it takes to deploy; ``native`` is the size in bytes for a C program."""
    names = [d.peer for d in found.deployments]
    size = len(names)
    rows: list[list[object]] = []
    for at, (batch, seq) in enumerate(TIMED):
        group = found.latencies[at * size : (at + 1) * size]
        times = [x.missing if x.times is None else milliseconds(x.times.median) for x in group]
        rows.append([batch, seq, *times])
    show([">batch", ">seq", *(f">{n}" for n in names)], rows)
    out.print("   median latency, one thread, all in turns in one process\n", style="dim")
    rows = []
    for d in found.deployments:
        sizes = (d.model_bytes, d.runtime_bytes)
        total = sum(s or 0 for s in sizes)
        load = d.missing if d.load is None else f"{d.load:.2f} s"
        rows.append([d.peer, load, *(_bytes(b) for b in (d.peak, *sizes, total))])
    rows.append(["cuvil from C", "", "", bytes_text(native), "none", bytes_text(native)])
    headers = [">load", ">peak memory", ">model", ">runtime", ">to deploy"]
    show(["", *headers], rows)
    out.print("   load: a new process, from imports to the first output", style="dim")
    out.print("   runtime: what has to be installed, without its own dependencies", style="dim")


def _bytes(count: int | None) -> str:
    return "" if count is None else bytes_text(count)


def run_elsewhere(package: Path, tokenizer: minilm.Tokenizer, artifact: Artifact) -> None:
    """The artifact in a process whose only packages are NumPy and Cuvil."""
    inputs = tokenizer(minilm.SENTENCES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = folder / "packages"
        place.mkdir()
        numpy_home = Path(np.__file__).parent
        for home in (numpy_home, numpy_home.with_name("numpy.libs"), Path(cuvil.__file__).parent):
            if home.exists():
                (place / home.name).symlink_to(home)
        np.savez(folder / "inputs.npz", **inputs)
        script = Path(__file__).with_name("run_without_torch.py")
        files = [package, folder / "inputs.npz", folder / "outputs.npz"]
        # -S leaves out the environment's packages; only the two links remain.
        done = subprocess.run(
            [sys.executable, "-S", str(script), *map(str, files)],
            env={"PYTHONPATH": str(place)}, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            finish(done.stderr)
        report = json.loads(done.stdout)
        with np.load(files[-1]) as outputs:
            (vectors,) = outputs.values()
    if report["imported"] != ["cuvil", "numpy"] or "torch" not in report["absent"]:
        finish(f"that process was not alone: {report}")
    (own,) = artifact.run(inputs).values()
    if not np.array_equal(vectors, own):
        finish("it gives other vectors")
    out.print(f"   imported: {', '.join(report['imported'])}. "
              f"Not there: {', '.join(report['absent'])}.")  # fmt: skip
    keys = ("import_numpy", "import_cuvil", "load", "first_output")
    names = ("import numpy", "import cuvil", "load", "30 sentences")
    show([f">{n}" for n in names], [[milliseconds(report[k]) for k in keys]])
    out.print(f"   the same {len(vectors)} vectors, bit by bit")


def main() -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="cuvil-demo-") as name:
        os.environ["CUVIL_CACHE_DIR"] = str(Path(name) / "cache")  # so that cold is cold
        section(1, "Compile all-MiniLM-L6-v2 from PyTorch, batch and seq symbolic")
        encoder = minilm.load_encoder()
        artifact = compile_encoder(encoder)
        out.print(f"   {signature_text(artifact.manifest.signature)}")
        out.print("   once more, from the cache:")
        compile_encoder(encoder)
        section(2, "Verify against PyTorch")
        verify(artifact, encoder)
        section(3, "Search among 30 sentences")
        tokenizer = minilm.Tokenizer()
        search(artifact, tokenizer)
        section(4, f"Measure beside PyTorch {torch.__version__} and ONNX Runtime")
        package = Path(name) / "minilm.cuvilpkg"
        artifact.save(package)
        native = artifact.save(package.with_suffix(".so"))
        show_measured(measure(artifact), sum(p.stat().st_size for p in native))
        section(5, "Run in a process that has no PyTorch")
        run_elsewhere(package, tokenizer, artifact)
    out.print("\nAll of it holds.", style="bold green")


if __name__ == "__main__":
    main()
