"""The README's measured table: its markers are there, and only what is between them changes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("readme_table", ROOT / "bench/readme_table.py")
assert _SPEC is not None and _SPEC.loader is not None
readme_table = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(readme_table)


def test_only_the_table_is_replaced() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = readme_table.replaced(text, "a table")
    before, _, after = changed.partition("a table")
    assert text.startswith(before) and text.endswith(after) and "a table" not in text
    assert readme_table.replaced(changed, "a table") == changed


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers"):
        readme_table.replaced("text <!-- measured: begin --> text", "a table")


def test_the_table_has_a_line_for_each_model() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [title for title in readme_table.MODELS.values() if f"| {title} |" not in text]
    assert not missing
