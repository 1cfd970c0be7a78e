"""The names of a built program's inputs, in order, in a file beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_names(path: str | Path, names: Sequence[str]) -> None:
    """Keep them for a file at ``path``."""
    _beside(path).write_text(json.dumps(list(names)), encoding="utf-8")


def read_names(path: str | Path) -> list[str]:
    """Those that were kept. Raises OSError if there are none."""
    names: list[str] = json.loads(_beside(path).read_text(encoding="utf-8"))
    return names


def inputs_of(graph: Any) -> list[str]:
    """The names of an ONNX graph's inputs that have to be given."""
    weights = {x.name for x in graph.initializer}
    return [x.name for x in graph.input if x.name not in weights]


def _beside(path: str | Path) -> Path:
    return Path(path).with_suffix(".names.json")
