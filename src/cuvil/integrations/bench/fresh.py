"""Load time and peak memory of one peer, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cuvil.integrations.bench.peers import Peer, Unavailable
from cuvil.integrations.bench.remote import Remote, command_for, environment_for

_CHILD = "cuvil.integrations.bench.alone"
_TIMEOUT = 300.0


@dataclass(frozen=True)
class Fresh:
    """``load`` (imports, loading and the first output) and ``call`` (one more) in seconds,
    ``peak`` resident memory in bytes; the size and version of the runtime that is installed."""

    load: float
    call: float
    peak: int
    runtime_bytes: int
    version: str


def measure_fresh(peer: Peer, path: str, threads: int, inputs: Path, python: str = "") -> Fresh:
    """Measure in a new process. Raises Unavailable with the last line the process wrote."""
    command = command_for(python, _CHILD, peer.as_text(), path, str(threads), str(inputs))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, env=environment_for(python)
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"it took more than {_TIMEOUT:.0f} s in a process of its own") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"in a process of its own: {lines[-1]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    with Remote(peer, python) as worker:
        version, size = worker.facts()
    return Fresh(**found, runtime_bytes=size, version=version)
