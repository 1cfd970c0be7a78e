"""Every file of tests is run: none stands in a folder that pytest leaves out."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def test_no_folder_of_tests_is_left_out(request: pytest.FixtureRequest) -> None:
    patterns = request.config.getini("norecursedirs")
    files = list(TESTS.rglob("test_*.py"))
    left_out = {
        str(path.relative_to(TESTS))
        for path in files
        for folder in path.relative_to(TESTS).parts[:-1]
        if any(fnmatch(folder, pattern) for pattern in patterns)
    }
    assert len(files) > 100 and not left_out
