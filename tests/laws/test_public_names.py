"""The public names are loaded lazily, and type checkers see the same ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cuvil
from tests.laws.source import PACKAGE, Source, imports

_SOURCE = Source.of("__init__.py", (PACKAGE / "__init__.py").read_text())


def test_every_name_has_a_home_that_type_checkers_know() -> None:
    lazily = {f"{home}.{name}" for home, names in cuvil._HOMES.items() for name in names}
    typed = {item.name for item in imports(_SOURCE.tree) if item.typing_only}
    assert lazily == typed
    assert {name.rpartition(".")[2] for name in lazily} | {"__version__"} == set(cuvil.__all__)


def test_names_resolve_to_the_things_themselves() -> None:
    for home, names in cuvil._HOMES.items():
        path = PACKAGE.parent / home.replace(".", "/")
        if path.with_suffix(".py").exists():
            for name in names:
                found = getattr(cuvil, name)
                assert found.__name__ == name and found.__module__.startswith("cuvil.")


def test_functions_win_over_folders_of_the_same_name() -> None:
    code = "import cuvil; cuvil.compile; assert callable(cuvil.verify), cuvil.verify"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cuvil.nothing  # noqa: B018
    assert dir(cuvil) == cuvil.__all__
