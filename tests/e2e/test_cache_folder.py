"""A cache folder that is of no use costs the cache, not the build."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import cuvil
from cuvil.build import driver
from cuvil.errors import TargetError


def test_a_file_in_the_way_only_costs_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / "file" / "cache"))
    x = torch.randn(2, 3)
    model = torch.nn.Linear(3, 2)
    with caplog.at_level(logging.WARNING, "cuvil"):
        found = cuvil.compile(model, (x,), threads=1)(x)
    torch.testing.assert_close(found, model(x).detach())
    (record,) = [r for r in caplog.records if r.name == "cuvil"]
    text = record.getMessage()
    assert str(tmp_path / "file" / "cache") in text and "CUVIL_CACHE_DIR" in text
    assert "Not a directory" in text


def test_no_folder_at_all_is_an_error_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(TargetError, match="no folder to build in") as caught:
        cuvil.compile(torch.nn.Linear(3, 2), (torch.randn(2, 3),), threads=1)
    assert "CUVIL_CACHE_DIR" in caught.value.hint


def _fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> TargetError:
    real = driver.subprocess.run

    def run(command: list[str], **how: Any) -> Any:
        return real([sys.executable, "-c", body], **how)

    monkeypatch.setattr(driver.subprocess, "run", run)
    with pytest.raises(TargetError) as caught:
        driver.compile_object("int x;", "unit", [], tmp_path, tmp_path)
    return caught.value


def test_a_killed_compiler_is_told_by_its_signal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kill = f"import os; os.kill(os.getpid(), {int(signal.SIGBUS)})"
    error = _fails(monkeypatch, tmp_path, kill)
    assert f"killed by signal {int(signal.SIGBUS)}" in error.message
    assert f"no space is left in {tmp_path}" in error.message and "CUVIL_CACHE_DIR" in error.hint


def test_a_full_disk_is_told_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = _fails(monkeypatch, tmp_path, "raise SystemExit('error: No space left on device')")
    assert f"no space left in {tmp_path}" in error.message and "CUVIL_CACHE_DIR" in error.hint
