"""Whole models are compiled into a cache of the test run, not the user's."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _apart(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(shared_folder / "models-cache"))
