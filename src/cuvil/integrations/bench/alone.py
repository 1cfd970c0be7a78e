"""A process that does nothing but run one peer, so that its memory and start can be measured.

``python -m cuvil.integrations.bench.alone PEER FILE THREADS INPUTS.npz`` prints one JSON object:
``load`` (imports, loading and the first output) and ``call`` (one more) in seconds, ``peak``
resident memory in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.integrations.bench.peers import Peer, Unavailable, open_peer


def main(peer: str, path: str, threads: str, inputs: str) -> None:
    """See the top of this file."""
    with np.load(inputs, allow_pickle=False) as loaded:
        arrays: dict[str, Any] = {key: loaded[key] for key in loaded.files}
    start = time.perf_counter()
    call = open_peer(Peer.of_text(peer), path, int(threads)).bind(arrays)
    call()
    loaded_at = time.perf_counter()
    call()
    end = time.perf_counter()
    peak = _peak_bytes()
    found = {"load": loaded_at - start, "call": end - loaded_at, "peak": peak}
    sys.stdout.write(json.dumps(found) + "\n")


def _peak_bytes() -> int:
    # Not getrusage: its maximum survives exec, so a child would inherit its parent's.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Unavailable as error:
        sys.exit(str(error))
