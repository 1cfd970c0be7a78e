"""Load time and peak memory of one peer, in a process of its own.

``python -m cuvil.integrations.bench.fresh PEER FILE THREADS INPUTS.npz`` prints one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.integrations.bench.peers import PEERS, Peer, Unavailable, open_peer

_TIMEOUT = 300.0
_ROOT = Path(__file__).resolve().parents[3]


def measure_fresh(peer: Peer, path: str, threads: int, inputs: Path) -> dict[str, float]:
    """``load`` (imports, loading and the first output) and ``call`` (one more) in seconds, and
    ``peak`` resident memory in bytes. Raises Unavailable with the last line the process wrote.
    """
    command = [sys.executable, "-m", __name__, peer.name, path, str(threads), str(inputs)]
    folders = [str(_ROOT), *filter(None, sys.path)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(folders))},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"it took more than {_TIMEOUT:.0f} s in a process of its own") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"in a process of its own: {lines[-1]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main(name: str, path: str, threads: str, inputs: str) -> None:
    """The child's side."""
    with np.load(inputs, allow_pickle=False) as loaded:
        arrays: dict[str, Any] = {key: loaded[key] for key in loaded.files}
    start = time.perf_counter()
    call = open_peer(PEERS[name], path, int(threads)).bind(arrays)
    call()
    loaded_at = time.perf_counter()
    call()
    end = time.perf_counter()
    found = {"load": loaded_at - start, "call": end - loaded_at, "peak": _peak_bytes()}
    sys.stdout.write(json.dumps(found) + "\n")


def _peak_bytes() -> int:
    # Not getrusage: its maximum survives exec, so a child would inherit its parent's.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
