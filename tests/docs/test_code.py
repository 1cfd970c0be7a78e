"""The Python in the documentation runs, and prints what the page says it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuvil.ops.custom import CUSTOM

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A block of code, and the indented text that follows it at once, if any: what it prints.
_BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n((?:    [^\n]*\n|\n)+))?", re.MULTILINE | re.DOTALL
)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Code and what is printed ("" where the page doesn't say)."""
    for match in _BLOCK.finditer(text):
        shown = (match[2] or "").strip("\n").splitlines()
        yield match[1], "\n".join(line[4:] for line in shown)


WITH_CODE = [page for page in PAGES if any(blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.stem)
def test_code(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    try:
        for code, shown in blocks(page.read_text(encoding="utf-8")):
            capsys.readouterr()
            exec(compile(code, str(page), "exec"), names)
            if shown:
                assert capsys.readouterr().out.strip() == shown
    finally:
        CUSTOM.clear()  # what a page registers is no operator of the table


def test_blocks_and_what_they_print_are_told_apart() -> None:
    text = (
        "```python\nprint(1)\n```\n\n    1\n\nProse.\n\n```python\nx = 2\n```\n\nMore.\n\n    sh\n"
    )
    assert list(blocks(text)) == [("print(1)\n", "1"), ("x = 2\n", "")]


def test_some_pages_have_code() -> None:
    assert {"README", "tutorial", "pytorch", "onnx", "native"} <= {page.stem for page in WITH_CODE}
