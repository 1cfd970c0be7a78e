"""What is shown of a package that holds several targets."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from cuvil.cli.text import bytes_text, facts, public_signature, short_cpu, signature_text, table
from cuvil.cli.verb import Outcome
from cuvil.cli.workspace import planned_memory, shown_memory
from cuvil.package.format import Package
from cuvil.runtime.loader import best_target


def bundle_outcome(
    package: Package, held: Mapping[str, Package], at: str, threads: int
) -> Outcome:
    """The model's type, a line for each held package, and the memory of a call of the one that is
    loaded here."""
    manifest = package.manifest
    type_text = signature_text(public_signature(manifest))
    best = best_target({name: item.manifest for name, item in held.items()})
    size = package.path.stat().st_size
    memory = {name: planned_memory(item.manifest, at, threads) for name, item in held.items()}
    entries = [
        {
            **json.loads(item.manifest.to_json()),
            "name": name,
            "sizes": {
                "library": len(item.library),
                "weights": item.weights.size,
                **{part: len(data) for part, data in item.parts.items()},
            },
            "memory": memory[name],
        }
        for name, item in held.items()
    ]
    rows = [
        (
            name,
            ", ".join(filter(None, (item.manifest.target, short_cpu(item.manifest.cpu)))),
            bytes_text(len(item.library)),
            bytes_text(item.weights.size),
            "loaded here" if name == best else "",
        )
        for name, item in held.items()
    ]
    document = {
        "name": manifest.name,
        "type": type_text,
        "targets": entries,
        "loaded_here": best,
        "sizes": {"weights": manifest.weights_bytes, "file": size},
    }
    shown: list[RenderableType] = [Text(type_text)]
    if facts(manifest.signature):
        shown.append(Text("where " + "\n      ".join(facts(manifest.signature))))
    shown += ["", table(["target", "machine", ">code", ">weights", ""], rows)]
    shown.append(
        f"{bytes_text(size)} in all; weights that are equal are there once: "
        f"{bytes_text(manifest.weights_bytes)}"
    )
    if best is not None:
        shown += shown_memory(held[best].manifest, memory[best])
    return Outcome(document, tuple(shown))
