"""cuvil targets: the machines and forms that can be built for."""

from __future__ import annotations

from typing import Any

from cuvil.api.running import running_of
from cuvil.cli.text import short_cpu, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import TargetError
from cuvil.runtime.save import forms_of
from cuvil.target.registry import find_target, target_names


@verb
def targets() -> Outcome:
    """List the targets: what is built for each, what runs that here, and what is missing for it.

    Every target can be built on every machine. A result is verified where something here runs it.

    Example:

      cuvil targets --json
    """
    entries = [_entry(name) for name in target_names()]
    rows = [
        (
            e["name"],
            e["triple"],
            short_cpu(e["cpu"]),
            " ".join(e["forms"]),
            e["runs_in"] if e["runs_here"] else "no",
            e["missing"] or "",
        )
        for e in entries
    ]
    headers = ["target", "triple", "CPU", "saved as", "runs here", "missing"]
    return Outcome({"targets": entries}, (table(headers, rows),))


def _entry(name: str) -> dict[str, Any]:
    try:
        target = find_target(name)
    except TargetError as error:  # "native", on a machine that nothing is built for
        unknown = {"triple": "", "cpu": "", "kind": "", "forms": [], "runs_in": ""}
        return {"name": name, **unknown, "runs_here": False, "missing": error.message}
    running = running_of(target)
    return {
        "name": name,
        "triple": target.triple,
        "cpu": target.mcpu,
        "kind": target.kind,
        "forms": list(forms_of(target.kind)),
        "vector_bytes": target.vec_bytes,
        "tile": [target.mr, target.nr],
        "cpu_features": list(target.cpu_features),
        "runs_here": running.fault is None,
        "runs_in": running.where,
        "missing": running.fault,
    }
