"""A folder imports lower levels and itself; third parties stay in their rooms; no cycles."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from tests.laws.source import Source, expect_none, imports, sources

# From the bottom up; a line never imports its neighbours.
LEVELS = (
    ("version", "native"),
    ("errors",),
    ("sym", "options"),
    ("ir",),
    ("ops", "target"),
    ("analysis", "rewrite", "reference"),
    ("passes", "frontends"),
    ("codegen",),
    ("build", "package"),
    ("runtime",),
    ("verify", "runners"),
    ("tune",),
    ("api",),
    ("integrations",),
    ("cli", "__init__"),
    ("__main__",),
)
LEVEL = {room: i for i, line in enumerate(LEVELS) for room in line}
RUNTIME_USES = {
    "runtime", "package", "errors", "options", "version", "cuvil.ir.types", "cuvil.ir.signature",
    "cuvil.ir.text_pattern",
}  # fmt: skip

# Which rooms may import a third party. "*" is every room.
FRAMEWORKS = ("frontends", "integrations")
ROOMS: Mapping[str, tuple[str, ...]] = {
    "numpy": ("*",),
    "ml_dtypes": ("*",),
    "torch": FRAMEWORKS,
    "torchvision": FRAMEWORKS,
    "transformers": FRAMEWORKS,
    "onnx": FRAMEWORKS,
    "google": FRAMEWORKS,
    "tensorflow": FRAMEWORKS,
    "sympy": FRAMEWORKS,
    "onnxruntime": ("integrations",),
    "openvino": ("integrations",),
    "executorch": ("integrations",),
    "iree": ("integrations",),
    "tract": ("integrations",),
    "tvm": ("integrations",),
    "z3": ("sym",),
    "typer": ("cli",),
    "rich": ("cli",),
    "ziglang": ("build",),
}
# Imported inside functions, because they may not be installed. Everything else stands at the top
# of its file, but for the table in api, which loads the rooms it needs for a model.
OPTIONAL = ("ml_dtypes", "z3")
LAZY_ROOMS = ("api",)


def level_faults(source: Source) -> list[str]:
    """Imports of this file that climb, cross, or leave the runtime's small world."""
    found = []
    if source.room not in LEVEL:
        return [f"{source.path}: the folder {source.room} has no level"]
    for item in imports(source.tree):
        if item.name.startswith("."):
            found.append(f"{source.at(item.node)}: write imports in full, not {item.name}")
            continue
        parts = item.name.split(".")
        if parts[0] != "cuvil" or len(parts) == 1:
            continue
        room = parts[1]
        if room not in LEVEL:
            found.append(f"{source.at(item.node)}: {item.name} is in no known folder")
        elif room != source.room and LEVEL[room] >= LEVEL[source.room]:
            found.append(f"{source.at(item.node)}: {source.room} may not import {room}")
        elif source.room == "runtime" and not {room, ".".join(parts[:3])} & RUNTIME_USES:
            found.append(f"{source.at(item.node)}: runtime may not import {item.name}")
    return found


def third_party_faults(source: Source) -> list[str]:
    """Third parties outside their rooms, and imports that are not at the top."""
    found = []
    for item in imports(source.tree):
        top = item.name.split(".")[0]
        if item.lazy and top not in OPTIONAL and source.room not in LAZY_ROOMS:
            found.append(f"{source.at(item.node)}: import {top} at the top of the file")
        if top in OPTIONAL and not item.lazy and not item.typing_only:
            found.append(f"{source.at(item.node)}: {top} may be missing: import it in its function")
        if top in ("cuvil", "") or top in sys.stdlib_module_names:
            continue
        rooms = ROOMS.get(top, ())
        if "*" not in rooms and source.room not in rooms:
            found.append(f"{source.at(item.node)}: {source.room} may not import {top}")
    return found


def cycles(files: tuple[Source, ...]) -> list[str]:
    """Modules that import each other when loaded."""
    names = {s.module for s in files}
    graph = {
        s.module: {
            known
            for item in imports(s.tree)
            if not item.lazy and not item.typing_only
            for known in [item.name if item.name in names else item.name.rpartition(".")[0]]
            if known in names and known != s.module
        }
        for s in files
    }
    found, done, path = [], set[str](), list[str]()

    def visit(name: str) -> None:
        if name in path:
            found.append(" -> ".join([*path[path.index(name) :], name]))
            return
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)
    return found


def test_levels() -> None:
    expect_none(fault for s in sources() for fault in level_faults(s))


def test_third_parties_and_lazy_imports() -> None:
    expect_none(fault for s in sources() for fault in third_party_faults(s))


def test_no_cycles() -> None:
    expect_none(cycles(sources()))


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("ir/a.py", "from cuvil.ops.base import OpDef", "ir may not import ops"),
        ("ops/a.py", "from cuvil.target.base import Target", "ops may not import target"),
        ("runtime/a.py", "from cuvil.ir.core import Op", "runtime may not import cuvil.ir.core"),
        ("runtime/a.py", "def f():\n import cuvil.sym.expr", "runtime may not import cuvil.sym"),
        ("ir/a.py", "from .core import Op", "write imports in full"),
        ("corner/a.py", "", "has no level"),
        ("ir/a.py", "import cuvil.corner", "in no known folder"),
    ],
)
def test_level_faults_are_seen(path: str, text: str, message: str) -> None:
    (fault,) = level_faults(Source.of(path, text))
    assert message in fault


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("ops/a.py", "import torch", "ops may not import torch"),
        ("verify/a.py", "if TYPE_CHECKING:\n from onnx import ModelProto", "may not import onnx"),
        ("sym/a.py", "import z3", "z3 may be missing"),
        ("ir/a.py", "def f():\n import json", "import json at the top"),
        ("ir/a.py", "import requests", "ir may not import requests"),
    ],
)
def test_third_party_faults_are_seen(path: str, text: str, message: str) -> None:
    (fault,) = third_party_faults(Source.of(path, text))
    assert message in fault


def test_allowed_imports_pass() -> None:
    for path, text in (
        ("api.py", "def f():\n from cuvil.frontends.onnx import reader"),
        ("frontends/a.py", "import torch\nfrom cuvil.analysis.x import y"),
        ("sym/a.py", "def f():\n import z3"),
        ("runtime/a.py", "from cuvil.ir.types import DType"),
    ):
        source = Source.of(path, text)
        assert level_faults(source) == [] and third_party_faults(source) == []


def test_a_cycle_is_seen() -> None:
    a = Source.of("ir/a.py", "from cuvil.ir.b import x")
    b = Source.of("ir/b.py", "import cuvil.ir.a")
    assert cycles((a, b)) == ["cuvil.ir.a -> cuvil.ir.b -> cuvil.ir.a"]
