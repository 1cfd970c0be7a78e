"""The table in README.md, from what bench/latency.py measured.

    python bench/readme_table.py [JSON] [--write]

Prints the table; with --write it also replaces the one in README.md. Of each project the fastest
way to run the model counts.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.results import FAMILIES, MEASURED, Measured, Result, Row, read  # noqa: E402

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MODELS: Mapping[str, str] = {
    "minilm": "MiniLM-L6, 32 tokens",
    "bert-base": "BERT-base, 128 tokens",
    "vit-b16": "ViT-B/16",
    "resnet50": "ResNet-50",
    "mobilenet-v2": "MobileNetV2",
    "whisper-tiny-encoder": "Whisper tiny, encoder",
    "ppocr-rec": "PP-OCRv4 rec, 48 x 320",
    "silero-vad": "Silero VAD",
}
HEADERS = ("one thread, batch 1", "cuvil", *FAMILIES, "library", "load")
_RULE = ("---", *["---:"] * (len(FAMILIES) + 2), "---:")
_THREADS = 1
_MOST_ERROR = 1e-4


def row(title: str, result: Result) -> list[str]:
    """One line of the table. Raises SystemExit for a wrong result or one without times."""
    found = next((r for r in result.rows() if r.threads == _THREADS), None)
    if found is None or "cuvil" not in found.medians:
        raise SystemExit(f"{result.name}: there is no time on one thread; {result.failure}")
    error = found.errors.get("cuvil")
    if error is None or not error < _MOST_ERROR:
        raise SystemExit(f"{result.name}: the result differs from its source by {error} of scale")
    load = result.deployment("cuvil").get("load")
    return [
        title,
        milliseconds(found.minima["cuvil"]),
        *(_cell(found, family, names) for family, names in FAMILIES.items()),
        f"{result.library_bytes / 1024:.0f} KiB",
        "" if load is None else f"{load:.2f} s",
    ]


def _cell(found: Row, family: str, names: Sequence[str]) -> str:
    best = found.best(found.minima, names)
    if best is None:
        return ""
    text = milliseconds(found.minima[best])
    return text if best == family else f"{text} ({best.removeprefix('torch.')})"


def milliseconds(seconds: float) -> str:
    """Three digits."""
    return f"{seconds * 1e3:.3g} ms"


def markdown(measured: Measured) -> str:
    """The table with a line on how it was measured. Raises SystemExit if nothing was."""
    rows = []
    for name, title in MODELS.items():
        result = measured.find(name)
        if result is not None:
            rows.append(row(title, result))
    if not rows:
        raise SystemExit("none of the table's models was measured: run bench/latency.py --json")
    table = "\n".join(f"| {' | '.join(line)} |" for line in [HEADERS, _RULE, *rows])
    versions = [f"{n} {v}" for n, v in measured.versions().items() if n not in ("cuvil", *_SAME)]
    note = (
        "The fastest of many calls, all runtimes taking turns in one run on one core of "
        f"{measured.machine.get('cpu', 'a processor')}, in float32; of each project its fastest "
        f"way: {', '.join(versions)}. Library: machine code, without weights. Load: a new process, "
        "from imports to the first output. `bench/latency.py` measures, `bench/readme_table.py` "
        "writes this."
    )
    return f"{table}\n\n{textwrap.fill(note, 120, break_on_hyphens=False)}"


_SAME = ("torch.compile", "aotinductor", "openvino-default")


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
    parser.add_argument("json", nargs="?", type=Path, default=MEASURED, metavar="JSON")
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
    given = parser.parse_args()
    table = markdown(read(given.json))
    print(table)
    if given.write:
        readme = ROOT / "README.md"
        readme.write_text(replaced(readme.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
