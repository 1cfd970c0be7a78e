"""Packages of the small models, one compilation a test run, and a cache apart from the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.models import make_package


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all workers of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    if folder.name.startswith("popen-"):  # pytest-xdist gives each worker a folder of its own
        folder = folder.parent
    return folder / "e2e-cache"


@pytest.fixture(autouse=True)
def _apart(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(session_cache))


@pytest.fixture(scope="session")
def packages(
    tmp_path_factory: pytest.TempPathFactory, session_cache: Path
) -> Iterator[dict[str, Path]]:
    """Paths of the compiled small models by name."""
    folder = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUVIL_CACHE_DIR", str(session_cache))
        names = ("transformer", "convnet")
        yield {name: make_package(name, folder / f"{name}.cuvilpkg") for name in names}


@pytest.fixture
def transformer_package(packages: dict[str, Path]) -> Path:
    return packages["transformer"]


@pytest.fixture
def convnet_package(packages: dict[str, Path]) -> Path:
    return packages["convnet"]
