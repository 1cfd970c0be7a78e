"""The driver's side of a peer in a process of its own, which may be another Python's."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from cuvil.integrations.bench.peers import Peer, Unavailable

_ROOT = Path(__file__).resolve().parents[3]
_WORKER = "cuvil.integrations.bench.worker"
_ANSWER_SECONDS, _BUILD_SECONDS = 300.0, 900.0


def command_for(python: str, module: str, *arguments: str) -> list[str]:
    """What runs a module of this package; ``python`` "" is this interpreter."""
    return [python or sys.executable, "-m", module, *arguments]


def environment_for(python: str) -> dict[str, str]:
    """A child's environment: it finds this package; another Python finds its own packages."""
    own = [] if python else filter(None, sys.path)
    folders = dict.fromkeys([str(_ROOT), *own])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


class Remote:
    """One worker process; every method raises Unavailable with what went wrong in it.

    A process that does not answer in time is ended.
    """

    def __init__(self, peer: Peer, python: str = "", seconds: float = _ANSWER_SECONDS) -> None:
        self.seconds = seconds
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                command_for(python, _WORKER, peer.as_text()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment_for(python),
            )
        except OSError as error:
            self._log.close()
            raise Unavailable(f"{python} can't be run: {error.strerror}") from None
        self._rest = b""

    def build(self, path: str, threads: int, to: str) -> float:
        """Build the file that the peer loads; the seconds it took."""
        found = self._ask(_BUILD_SECONDS, do="build", path=path, threads=threads, to=to)
        return float(found["seconds"])

    def open(self, path: str, threads: int) -> None:
        """Load a model."""
        self._ask(self.seconds, do="open", path=path, threads=threads)

    def bind(self, inputs: Path) -> None:
        """Take the inputs of an .npz file for all calls."""
        self._ask(self.seconds, do="bind", inputs=str(inputs))

    def call(self, count: int) -> list[float]:
        """Seconds of so many calls."""
        seconds: list[float] = self._ask(self.seconds, do="call", count=count)["seconds"]
        return seconds

    def outputs(self) -> list[np.ndarray[Any, Any]]:
        """What a call returns."""
        with tempfile.TemporaryDirectory(prefix="cuvil-bench-") as folder:
            place = Path(folder) / "outputs.npz"
            count = self._ask(self.seconds, do="outputs", to=str(place))["count"]
            with np.load(place, allow_pickle=False) as loaded:
                return [loaded[f"arr_{i}"] for i in range(count)]

    def facts(self) -> tuple[str, int]:
        """The version of the peer that is installed there, and its bytes on disk."""
        found = self._ask(self.seconds, do="facts")
        return str(found["version"]), int(found["bytes"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _ask(self, seconds: float, **request: Any) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        except OSError:
            raise Unavailable(self._last_words()) from None
        answer: Mapping[str, Any] = json.loads(self._line(seconds, str(request["do"])))
        if "error" in answer:
            raise Unavailable(str(answer["error"]))
        return answer

    def _line(self, seconds: float, what: str) -> bytes:
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    self._process.kill()
                    raise Unavailable(f"{what} took more than {seconds:.0f} s")
                found = os.read(self._process.stdout.fileno(), 1 << 16)
                if not found:
                    raise Unavailable(self._last_words())
                self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return f"its process ended with {code}{said}"
