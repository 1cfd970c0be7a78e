"""How the versions of kernels are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from cuvil.cli.text import table
from cuvil.errors import ArtifactError
from cuvil.package.manifest import Manifest
from cuvil.passes.knobs import choice_text
from cuvil.passes.variants import range_text, read_variant, when_text
from cuvil.runtime.described import BY_SIZE


def dispatch_table(manifest: Manifest) -> list[RenderableType]:
    """Which version of a kernel runs at which sizes, in the order in which they are asked; nothing
    for a package without versions."""
    made = manifest.extra.get(BY_SIZE)
    if made is None:
        return []
    try:
        return ["", *_shown(made)]
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ArtifactError(f"the table of kernels by size can't be read: {error!r}") from None


def _shown(made: Mapping[str, Any]) -> list[RenderableType]:
    spans = [(name, span) for name, found in made["ranges"].items() for span in found]
    asked = ", ".join(range_text(name, (low, high)) for name, (low, high) in spans)
    left = f"; {made['left_out']} had no room" if made["left_out"] else ""
    if not made["kernels"]:
        return [Text(f"kernels by size, {asked}: no kernel's code differs{left}")]
    rows = []
    for name, entries in made["kernels"].items():
        for entry in entries:
            tuned = f" ({choice_text(entry['tune'])})" if entry.get("tune") else ""
            when = when_text(read_variant(entry).when)
            rows.append((_short(name), when, _short(entry["kernel"]) + tuned))
        rows.append(("", "else", _short(name)))
    return [Text(f"kernels by size, {asked}{left}"), table(["kernel", "at sizes", "runs"], rows)]


def _short(name: str) -> str:
    return name.removeprefix("k_")
