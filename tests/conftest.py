"""What tests of several folders need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder with the ONNX models of other packages: CUVIL_TEST_MODELS, else .models.

    ``make test`` fetches them, so tests that need them fail where they are missing.
    """
    asked = os.environ.get("CUVIL_TEST_MODELS", "")
    folder = Path(asked) if asked else ROOT / ".models"
    if not folder.is_dir():
        pytest.fail(f"no models in {folder}: run `python tools/fetch_models.py .models`")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A temporary folder that all workers of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    if folder.name.startswith("popen-"):  # pytest-xdist gives each worker a folder of its own
        folder = folder.parent
    return folder
