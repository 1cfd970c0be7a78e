"""The page on targets has a row for each."""

from __future__ import annotations

from pathlib import Path

from cuvil.target.registry import target_names

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/targets.md"


def test_every_target_is_in_the_table() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    first = " ".join(line.split("|")[1] for line in rows)
    for name in target_names():
        family = f"`{name.split('-', 1)[0]}-...`"
        assert f"`{name}`" in first or family in first, f"add a row for {name} to {PAGE.name}"
