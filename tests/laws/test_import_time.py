"""``import cuvil`` is quick and brings no framework, and nor do the rooms below the frontends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.laws.source import PACKAGE, ROOT

MILLISECONDS = 100
HEAVY = ("torch", "onnx", "onnxruntime", "openvino", "tensorflow", "transformers", "z3")
COMMAND_LINE = ("typer", "rich")
_PROGRAM = """
import json, sys, time
sys.path.insert(0, {src!r})
start = time.perf_counter()
import {name}
print(json.dumps([1000 * (time.perf_counter() - start), sorted(sys.modules)]))
"""


def load(name: str) -> tuple[float, set[str]]:
    """Milliseconds to import ``name`` in a fresh process, and the modules that it brought."""
    program = _PROGRAM.format(src=str(ROOT / "src"), name=name)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    elapsed, modules = json.loads(run.stdout)
    return elapsed, set(modules)


def test_import_is_quick() -> None:
    assert min(load("cuvil")[0] for _ in range(4)) < MILLISECONDS


def test_import_brings_nothing() -> None:
    modules = load("cuvil")[1]
    assert not modules & {*HEAVY, *COMMAND_LINE, "numpy"}


@pytest.mark.parametrize("room", ["api", "runtime", "package", "ops", "passes", "verify"])
def test_no_framework_comes_with(room: str) -> None:
    files = [PACKAGE / f"{room}.py", *sorted((PACKAGE / room).glob("*.py"))]
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in files
        if path.exists()
    ]
    brought = load(", ".join(names))[1] if names else set()
    assert not brought & {*HEAVY, *COMMAND_LINE}


def test_the_check_can_fail() -> None:
    assert "json" in load("json")[1]
    assert load("time, cuvil; time.sleep(0.15)")[0] > MILLISECONDS
