"""Whoever takes turns: a peer in this process, or one behind pipes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cuvil.integrations.bench.measure import timed
from cuvil.integrations.bench.peers import Peer, open_peer
from cuvil.integrations.bench.remote import Remote

Array = np.ndarray[Any, Any]


class Seat(Protocol):
    """A model that is loaded and has its inputs."""

    def turn(self, count: int) -> list[float]:
        """Seconds of so many calls."""

    def outputs(self) -> list[Array]:
        """What a call returns, flat."""

    def close(self) -> None:
        """Let go of it."""


class Here:
    """In this process."""

    def __init__(self, peer: Peer, path: str, threads: int, inputs: Mapping[str, Array]) -> None:
        self.session = open_peer(peer, path, threads)
        self.call = self.session.bind(inputs)
        self.turn = timed(self.call)

    def outputs(self) -> list[Array]:
        return [np.asarray(x) for x in self.session.arrays(self.call())]

    def close(self) -> None:
        del self.session, self.call, self.turn


class Apart:
    """In a process of its own."""

    def __init__(self, peer: Peer, path: str, threads: int, inputs: Path, python: str) -> None:
        self.worker = Remote(peer, python)
        try:
            self.worker.open(path, threads)
            self.worker.bind(inputs)
        except BaseException:
            self.worker.close()
            raise
        self.turn, self.outputs, self.close = (
            self.worker.call,
            self.worker.outputs,
            self.worker.close,
        )
