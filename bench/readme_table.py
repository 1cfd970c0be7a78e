"""The table in README.md: latency, library size and load time beside ONNX Runtime and PyTorch.

    python bench/readme_table.py [--write] [--models DIR] [--seconds S] [NAME ...]

Prints the table; with --write it also replaces the one in README.md. Names are those of
tools/zoo.py; ONNX models are looked for in DIR, where tools/fetch_models.py put them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from rich.console import Console  # noqa: E402

import cuvil  # noqa: E402
from cuvil.integrations.bench.compare import Comparison, benchmark  # noqa: E402
from cuvil.runtime.artifact import Artifact  # noqa: E402
from tools.zoo import Entry, find  # noqa: E402

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MODELS = {
    "minilm": "MiniLM-L6, 128 tokens",
    "bert-base": "BERT-base, 128 tokens",
    "resnet50": "ResNet-50",
    "mobilenet-v2": "MobileNetV2",
    "ppocr-rec": "PP-OCRv4 rec, 48 x 320",
    "silero-vad": "Silero VAD",
}
PEERS = ("onnxruntime", "torch")
HEADERS = ("one thread, batch 1", "cuvil", "onnxruntime", "torch", "library", "load: in that order")
_RULE = ("---", "---:", "---:", "---:", "---:", "---")


def compiled(entry: Entry, folder: Path) -> Artifact:
    """The artifact of a model, with its symbolic dims."""
    model = entry.make(folder)
    if entry.onnx:
        return cuvil.compile(model, threads=1)
    example = {k: torch.from_numpy(v) for k, v in entry.inputs(entry.sizes[-1]).items()}
    return cuvil.compile(model, example, dynamic_dims=dict(entry.dynamic), threads=1)


def row(name: str, title: str, folder: Path, seconds: float) -> list[str]:
    """One line of the table."""
    entry = find(name)
    artifact = compiled(entry, folder)
    inputs = entry.inputs(entry.sizes[0])
    with tempfile.TemporaryDirectory() as place:
        library = artifact.save(Path(place) / "model.so")[0].stat().st_size
    found = benchmark(artifact, PEERS, (1,), [inputs], seconds)
    times = [_milliseconds(x.times.min) if x.times else "" for x in found.latencies]
    _require_right(name, found)
    loads = " / ".join(_load(d.load) for d in found.deployments if d.load is not None)
    return [title, *times, f"{library / 1024:.0f} KiB", loads]


def _require_right(name: str, found: Comparison) -> None:
    own = found.latencies[0]
    if own.error is None or not own.error < 1e-4:
        raise SystemExit(f"{name}: the result differs from its source by {own.error} of its scale")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _load(seconds: float) -> str:
    return f"{seconds:.2f} s"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table with a line on how it was measured."""
    lines = [HEADERS, _RULE, *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = (
        "The fastest of many calls, all runtimes taking turns in one process on one core of "
        f"{cpu()}; onnxruntime {version('onnxruntime')}, torch {version('torch')}, "
        f"NumPy {np.__version__}. "
        "Library: machine code, without weights. Load: a new process, from imports to the first "
        "output. `python bench/readme_table.py --write` measures and writes this."
    )
    return f"{table}\n\n{textwrap.fill(note, 120, break_on_hyphens=False)}"


def cpu() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "an unnamed processor"


def replaced(text: str, table: str) -> str:
    """``text`` with another table between the markers. Raises ValueError without markers."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"there are no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models, instead of all")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
    parser.add_argument("--models", type=Path, default=ROOT / ".models", metavar="DIR")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each model and runtime")
    given = parser.parse_args()
    console = Console(stderr=True)
    rows = []
    for name in given.names or MODELS:
        with console.status(f"measuring {name}"):
            rows.append(row(name, MODELS.get(name, name), given.models, given.seconds))
    table = markdown(rows)
    print(table)
    if given.write:
        readme = ROOT / "README.md"
        readme.write_text(replaced(readme.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
