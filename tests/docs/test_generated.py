"""Pages that are written by a script are what it would write."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tools import cli_reference, op_table

TOOLS = [op_table, cli_reference]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda t: t.__name__)
def test_page_is_up_to_date(tool: ModuleType) -> None:
    assert tool.main(["--check"]) == 0, f"run: python -m {tool.__name__}"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda t: t.__name__)
def test_a_stale_page_is_noticed_and_written_anew(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "reference/page.md"
    monkeypatch.setattr(tool, "PAGE", page)
    assert tool.main(["--check"]) == 1
    assert tool.main([]) == 0 and tool.main(["--check"]) == 0
    page.write_text(page.read_text() + "\n")
    assert tool.main(["--check"]) == 1


def test_other_arguments_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    for tool in TOOLS:
        assert tool.main(["--fix"]) == 2
    assert "--check" in capsys.readouterr().out
