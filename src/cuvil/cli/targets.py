"""cuvil targets: the machines that can be built for."""

from __future__ import annotations

import platform

from cuvil.cli.text import table
from cuvil.cli.verb import Outcome, verb
from cuvil.runtime.cpu import cpu_flags
from cuvil.target.registry import find_target, target_names


@verb
def targets() -> Outcome:
    """List the targets, and which of them this machine can run.

    Example:

      cuvil targets --json
    """
    flags = cpu_flags()
    entries = []
    for name in target_names():
        target = find_target(name)
        here = target.arch == platform.machine() and set(target.cpu_features) <= flags
        entries.append(
            {
                "name": name,
                "triple": target.triple,
                "cpu": target.mcpu,
                "vector_bytes": target.vec_bytes,
                "tile": [target.mr, target.nr],
                "cpu_features": list(target.cpu_features),
                "runs_here": here,
            }
        )
    rows = [
        (
            e["name"],
            e["triple"],
            e["cpu"],
            f"{8 * int(str(e['vector_bytes']))} bits",
            "yes" if e["runs_here"] else "no",
        )
        for e in entries
    ]
    headers = ["target", "triple", "CPU", ">vectors", "runs here"]
    return Outcome({"targets": entries}, (table(headers, rows),))
