"""An artifact beside its peers: latency, accuracy, load time, memory, size."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.api.source import Source
from cuvil.api.verification import ATOL, RTOL
from cuvil.errors import CuvilError, InputError
from cuvil.errors.words import counted
from cuvil.integrations.bench.forms import Builds, files_for, size_of
from cuvil.integrations.bench.fresh import measure_fresh
from cuvil.integrations.bench.measure import Times, in_turns
from cuvil.integrations.bench.peers import PEERS, Peer, Unavailable
from cuvil.integrations.bench.seats import Apart, Here, Seat
from cuvil.integrations.bench.truth import Truth, as_is, in_float64
from cuvil.runtime.artifact import Artifact
from cuvil.verify.report import compare

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
Note = Callable[[str], None]
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Latency:
    """One peer on one set of inputs with a number of threads; ``error`` is the largest one of
    the source's output scale (None: not compared), ``missing`` says why there are no times."""

    peer: str
    threads: int
    inputs: str
    times: Times | None = None
    error: float | None = None
    missing: str = ""


@dataclass(frozen=True)
class Deployment:
    """What running the model somewhere takes: seconds, bytes. ``build`` is what making its file
    took before, where it needs one of its own."""

    peer: str
    load: float | None = None
    peak: int | None = None
    model_bytes: int | None = None
    runtime_bytes: int | None = None
    missing: str = ""
    build: float | None = None
    version: str = ""


@dataclass(frozen=True)
class Comparison:
    """All that was measured; ``source`` says what accuracy is measured against."""

    latencies: tuple[Latency, ...]
    deployments: tuple[Deployment, ...]
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data: seconds and bytes."""
        return asdict(self)


@dataclass
class _Case:
    """One set of inputs, also as a file, and the peers' files for it."""

    builds: Builds
    inputs: Inputs
    inputs_file: Path
    truth: Truth | None
    label: str
    pythons: Mapping[str, str] = field(default_factory=dict)


def benchmark(
    artifact: Artifact,
    against: Sequence[str] = (),
    threads: Sequence[int] = (1,),
    cases: Sequence[Inputs] = (),
    seconds: float = 2.0,
    deployment: bool = True,
    note: Note = lambda text: None,
    float64: bool = False,
    pythons: Mapping[str, str] = _NONE,
) -> Comparison:
    """Measure an artifact and its peers on each case, with each number of threads.

    ``against`` are names of PEERS; without any the artifact is measured alone. All peers of a
    case take turns for ``seconds`` each; those of ``pythons``, which names another interpreter
    for a peer, and those that disturb others do so from a process of their own. PyTorch models
    are exported at the case's own sizes, which is the best case for who reads them.
    ``deployment`` also measures each in a new process. ``float64`` measures accuracy against the
    source in that precision. ``note`` is told what is being done. Raises InputError for an
    unknown peer, or for peers beside an artifact that has no source.
    """
    unknown = [name for name in (*against, *pythons) if name not in PEERS]
    if unknown:
        raise InputError(f"there is no peer {unknown[0]!r}", hint=f"there are {', '.join(PEERS)}")
    source = artifact.source if isinstance(artifact.source, Source) else None
    peers = [PEERS["cuvil"], *(PEERS[n] for n in dict.fromkeys(against) if n != "cuvil")]
    if source is None and len(peers) > 1:
        raise InputError("peers need the model that the artifact was compiled from")
    latencies: list[Latency] = []
    deployments: list[Deployment] = []
    words = ""
    with tempfile.TemporaryDirectory(prefix="cuvil-bench-") as folder:
        for number, inputs in enumerate(cases):
            note(f"preparing {label_of(inputs)}")
            place = Path(folder) / str(number)
            truth = _truth(source, inputs, float64)
            words = truth.source if truth is not None else ""
            case = _prepare(artifact, source, peers, inputs, place, truth, pythons)
            for count in threads:
                latencies += _latencies(artifact, case, peers, count, seconds, note)
            if deployment and number == 0:
                for peer in peers:
                    note(f"loading {peer.name} in a process of its own")
                    deployments.append(_deployment(peer, case, threads[0]))
    return Comparison(tuple(latencies), tuple(deployments), words)


def label_of(inputs: Inputs) -> str:
    """``x[1, 3, 224, 224]``"""
    return ", ".join(f"{name}{list(array.shape)}" for name, array in inputs.items())


def _truth(source: Source | None, inputs: Inputs, float64: bool) -> Truth | None:
    if source is None:
        return None
    return in_float64(source, inputs) if float64 else as_is(source, inputs)


def _prepare(
    artifact: Artifact, source: Source | None, peers: Sequence[Peer], inputs: Inputs, folder: Path,
    truth: Truth | None, pythons: Mapping[str, str],
) -> _Case:  # fmt: skip
    folder.mkdir()
    place = folder / "inputs.npz"
    np.savez(place, **dict[str, Any](inputs))
    files = files_for(artifact, source, peers, inputs, folder)
    builds = Builds(files, folder, pythons)
    return _Case(builds, inputs, place, truth, label_of(inputs), pythons)


@contextmanager
def _as_missing(missing: dict[str, str], name: str) -> Iterator[None]:
    """Whatever a peer raises is why it is missing: it must not end the comparison. What Cuvil
    refuses was asked for wrongly, so that does end it."""
    try:
        yield
    except Exception as error:
        if name == "cuvil" and isinstance(error, CuvilError):
            raise
        missing[name] = _reason(error)


def _reason(error: Exception) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return text if isinstance(error, Unavailable) else f"{type(error).__name__}: {text}"


def _latencies(
    artifact: Artifact, case: _Case, peers: Sequence[Peer], threads: int, seconds: float, note: Note
) -> list[Latency]:
    missing: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    seats: dict[str, Seat] = {}
    with ExitStack() as stack:
        for peer in peers:
            note(f"preparing {peer.name}, {case.label}")
            with _as_missing(missing, peer.name):
                seat = _seat(peer, case, threads)
                stack.callback(seat.close)
                errors[peer.name] = _error(artifact, case, seat.outputs())
                seats[peer.name] = seat
        note(f"timing {case.label}, {counted(threads, 'thread')}")
        turns = {name: seat.turn for name, seat in seats.items()}
        lost: Callable[[str, Exception], None] = lambda name, error: missing.update(  # noqa: E731
            {name: _reason(error)}
        )
        times = in_turns(turns, seconds, lost)
        turns.clear()
        seats.clear()
    return [
        Latency(
            peer.name,
            threads,
            case.label,
            times.get(peer.name),
            errors.get(peer.name),
            missing.get(peer.name, ""),
        )
        for peer in peers
    ]


def _seat(peer: Peer, case: _Case, threads: int) -> Seat:
    path = case.builds.path(peer, threads)
    python = case.pythons.get(peer.name, "")
    if peer.apart or python:
        return Apart(peer, path, threads, case.inputs_file, python)
    return Here(peer, path, threads, case.inputs)


def _error(artifact: Artifact, case: _Case, found: Sequence[Array]) -> float | None:
    """The largest error of output scale."""
    if case.truth is None:
        return None
    names = [spec.name for spec in artifact.outputs]
    if len(found) != len(names):
        raise Unavailable(f"it gives {len(found)} outputs instead of {len(names)}")
    errors = compare(names, case.truth.outputs, found, ATOL, RTOL)
    return max((e.scaled for e in errors), default=0.0)


def _deployment(peer: Peer, case: _Case, threads: int) -> Deployment:
    missing: dict[str, str] = {}
    with _as_missing(missing, peer.name):
        path = case.builds.path(peer, threads)
        python = case.pythons.get(peer.name, "")
        found = measure_fresh(peer, path, threads, case.inputs_file, python)
        return Deployment(
            peer.name,
            found.load,
            found.peak,
            size_of(path),
            found.runtime_bytes or None,
            build=case.builds.seconds.get(peer.name),
            version=found.version,
        )
    return Deployment(peer.name, missing=missing[peer.name])
