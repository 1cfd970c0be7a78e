"""A peer in a process of its own, driven through pipes: one JSON object a line each way.

``python -m cuvil.integrations.bench.worker PEER``, the peer as text, answers every request with an
object; one with ``error`` says what went wrong. The requests, by ``do``: ``build`` (path, threads,
to), ``open`` (path, threads), ``bind`` (inputs, an .npz file), ``call`` (count; answers the seconds
of each), ``outputs`` (to, an .npz file), ``facts`` (answers version and bytes of what is
installed). The end of the input ends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cuvil.integrations.bench.installed import installed_bytes, version_of
from cuvil.integrations.bench.measure import settle
from cuvil.integrations.bench.peers import Peer, Unavailable, build_for, open_peer


class Worker:
    """Answers requests about one peer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.session: Any = None
        self.run: Callable[[], Any] | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request; whatever the peer raises becomes its error."""
        do = request.pop("do")
        try:
            found: dict[str, Any] = getattr(self, f"_{do}")(**request)
        except Exception as error:
            text = str(error).strip().split("\n", 1)[0]
            plain = isinstance(error, Unavailable)
            return {"error": text if plain else f"{type(error).__name__}: {text}"}
        return found

    def _build(self, path: str, threads: int, to: str) -> dict[str, Any]:
        start = time.perf_counter()
        build_for(self.peer, path, threads, to)
        return {"seconds": time.perf_counter() - start}

    def _open(self, path: str, threads: int) -> dict[str, Any]:
        self.session = open_peer(self.peer, path, threads)
        return {}

    def _bind(self, inputs: str) -> dict[str, Any]:
        with np.load(inputs, allow_pickle=False) as loaded:
            self.run = self.session.bind({key: loaded[key] for key in loaded.files})
        return {}

    def _call(self, count: int) -> dict[str, Any]:
        assert self.run is not None
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            self.run()
            seconds.append(time.perf_counter() - start)
        settle()
        return {"seconds": seconds}

    def _outputs(self, to: str) -> dict[str, Any]:
        assert self.run is not None
        arrays = self.session.arrays(self.run())
        np.savez(to, *map(np.asarray, arrays))
        return {"count": len(arrays)}

    def _facts(self) -> dict[str, Any]:
        return {"version": version_of(self.peer), "bytes": installed_bytes(self.peer)}


def main(peer: str) -> None:
    """Serve until the input ends. What the peer prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(Peer.of_text(peer))
    for line in sys.stdin:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
