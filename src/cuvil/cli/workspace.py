"""How the plan of memory of an artifact is shown: from what its manifest says, nothing is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from cuvil.cli.memory import memory_line, memory_of
from cuvil.cli.models import asked_sizes
from cuvil.cli.text import bytes_text, table
from cuvil.errors import CuvilError
from cuvil.errors.words import counted
from cuvil.ir.signature import Signature
from cuvil.package.manifest import Manifest
from cuvil.runtime.memory_use import planned_use
from cuvil.sym.expr import evaluate
from cuvil.verify.inputs import allowed_sizes, spread_of_sizes

_WIDEST = 160  # characters of an expression that is shown


def planned_memory(manifest: Manifest, at: str, threads: int) -> dict[str, Any]:
    """The workspace as an expression, and what it comes to at the sizes asked for, or at the
    least, usual and greatest ones; empty where the package does not say. Raises InputError or
    ShapeConstraintError for sizes that the model does not take."""
    space = manifest.extra.get("workspace")
    if not isinstance(space, Mapping):
        return {}
    uses = [planned_use(manifest, sizes, threads) for sizes in _sizes(manifest.signature, at)]
    uses.sort(key=lambda use: (use.peak, use.intermediates))
    shown = [{k: v for k, v in use.as_dict().items() if k != "held"} for use in uses]
    return {"workspace": space["bytes"], "threads": threads, "at": shown}


def shown_memory(manifest: Manifest, planned: Mapping[str, Any]) -> list[RenderableType]:
    """That as a table; a model in C has its static arena on one line."""
    fixed = memory_of(manifest)
    if fixed:
        return ["", Text(memory_line(fixed))]
    if not planned:
        return []
    late = " (sizes that data decides are not in it)" if manifest.signature.late else ""
    rows = [_row(entry) for entry in planned["at"]]
    headers = ["memory of a call", ">workspace", ">intermediates", ">saved by sharing", ">outputs"]
    shown: list[RenderableType] = ["", table(headers, rows)]
    text = str(planned["workspace"])
    symbolic = bool(manifest.signature.early) and len(text) <= _WIDEST
    formula = f"workspace = {text} bytes, " if symbolic else "workspace "
    return [*shown, Text(f"{formula}with {counted(planned['threads'], 'thread')}{late}")]


def _row(entry: Mapping[str, Any]) -> Sequence[object]:
    sizes = ", ".join(f"{name}={size}" for name, size in entry["symbols"].items())
    amounts = (entry[key] for key in ("peak", "intermediates", "saved", "outputs"))
    return [sizes or "fixed shapes", *map(bytes_text, amounts)]


def _sizes(signature: Signature, at: str) -> list[dict[str, int]]:
    if at or not signature.early:
        sizes = asked_sizes(signature, at)
        signature.bind([[evaluate(d, sizes) for d in s.dims] for s in signature.inputs])
        return [sizes]
    try:
        found = spread_of_sizes(signature, {})[:1]
    except CuvilError:
        found = []
    ends = [{s.name: max(s.min, 1) for s in signature.early}]
    if all(s.max is not None for s in signature.early):
        ends.append({s.name: s.highest for s in signature.early})
    found += [sizes for sizes in ends if sizes not in found and allowed_sizes(signature, sizes)]
    return found
