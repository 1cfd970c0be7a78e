"""An artifact beside its peers: latency, accuracy, load time, memory, size."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.api.source import Source
from cuvil.api.verification import ATOL, RTOL
from cuvil.errors import InputError
from cuvil.integrations.bench.fresh import measure_fresh
from cuvil.integrations.bench.measure import Times, interleaved
from cuvil.integrations.bench.peers import (
    PEERS,
    Files,
    Peer,
    Session,
    Unavailable,
    installed_bytes,
    open_peer,
)
from cuvil.runtime.artifact import Artifact
from cuvil.verify.report import compare

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
Note = Callable[[str], None]


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
    """What running the model somewhere takes: seconds, bytes."""

    peer: str
    load: float | None = None
    peak: int | None = None
    model_bytes: int | None = None
    runtime_bytes: int | None = None
    missing: str = ""


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
    files: Files
    inputs: Inputs
    expected: Sequence[Array] | None
    label: str = ""
    sessions: list[tuple[str, Session]] = field(default_factory=list)


def benchmark(
    artifact: Artifact,
    against: Sequence[str] = (),
    threads: Sequence[int] = (1,),
    cases: Sequence[Inputs] = (),
    seconds: float = 2.0,
    deployment: bool = True,
    note: Note = lambda text: None,
) -> Comparison:
    """Measure an artifact and its peers on each case, with each number of threads.

    ``against`` are names of PEERS; without any the artifact is measured alone. All peers of a
    case take turns in this process for ``seconds`` each. PyTorch models are exported to ONNX at
    the case's own sizes, which is the best case for who reads them. ``deployment`` also measures
    each in a process of its own. ``note`` is told what is being done. Raises InputError for an
    unknown peer, or for peers beside an artifact that has no source.
    """
    unknown = [name for name in against if name not in PEERS]
    if unknown:
        raise InputError(f"there is no peer {unknown[0]!r}", hint=f"there are {', '.join(PEERS)}")
    source = artifact.source if isinstance(artifact.source, Source) else None
    peers = [PEERS["cuvil"], *(PEERS[n] for n in dict.fromkeys(against) if n != "cuvil")]
    if source is None and len(peers) > 1:
        raise InputError("peers need the model that the artifact was compiled from")
    latencies: list[Latency] = []
    deployments: list[Deployment] = []
    with tempfile.TemporaryDirectory(prefix="cuvil-bench-") as folder:
        for number, inputs in enumerate(cases):
            note(f"preparing {label_of(inputs)}")
            case = _prepare(artifact, source, peers, inputs, Path(folder) / str(number))
            for count in threads:
                note(f"timing {case.label}, {count} thread(s)")
                latencies += _latencies(artifact, case, peers, count, seconds)
            if deployment and number == 0:
                place = Path(folder) / "inputs.npz"
                np.savez(place, **dict[str, Any](inputs))
                for peer in peers:
                    note(f"loading {peer.name} in a process of its own")
                    deployments.append(_deployment(peer, case.files, threads[0], place))
    return Comparison(tuple(latencies), tuple(deployments), _accuracy_source(source))


def label_of(inputs: Inputs) -> str:
    """``x[1, 3, 224, 224]``"""
    return ", ".join(f"{name}{list(array.shape)}" for name, array in inputs.items())


def _accuracy_source(source: Source | None) -> str:
    if source is None:
        return ""
    torch = source.module.source.get("frontend") != "onnx"
    return "the PyTorch model" if torch else "the reference interpreter on the ONNX model"


def _prepare(
    artifact: Artifact, source: Source | None, peers: Sequence[Peer], inputs: Inputs, folder: Path
) -> _Case:
    folder.mkdir()
    package = folder / "model.cuvilpkg"
    artifact.save(package)
    files = Files(package=os.fspath(package))
    if source is None:
        return _Case(files, inputs, None, label_of(inputs))
    wanted = {peer.reads for peer in peers}
    if source.module.source.get("frontend") == "onnx":
        files = replace(files, why={"torch": "the model is an ONNX model"})
        if "onnx" in wanted:
            files = replace(files, onnx=_onnx_file(source.origin, folder))
    elif wanted & {"torch", "onnx"}:
        outputs = [spec.name for spec in artifact.outputs]
        files = _torch_files(files, source.origin, inputs, outputs, folder, wanted)
    return _Case(files, inputs, source.run(inputs), label_of(inputs))


def _onnx_file(model: Any, folder: Path) -> str:
    """The path itself where the model is one, so that data beside it is found."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, (bytes, bytearray)) else model.SerializeToString())
    return os.fspath(path)


def _torch_files(
    files: Files, origin: Any, inputs: Inputs, outputs: Sequence[str], folder: Path,
    wanted: set[str],
) -> Files:  # fmt: skip
    # Both import torch at the top, which is there if the source is a PyTorch model.
    torch_file = import_module("cuvil.integrations.bench.torch_file")
    exporter = import_module("cuvil.integrations.bench.onnx_export")
    bundle = torch_file.bundle_of(origin)
    why: dict[str, str] = {}
    torch = onnx = ""
    if "torch" in wanted:
        try:
            torch_file.save_bundle(bundle, folder / "model.pt")
            torch = os.fspath(folder / "model.pt")
        except Unavailable as error:
            why["torch"] = str(error)
    if "onnx" in wanted:
        try:
            exporter.export_onnx(bundle, inputs, outputs, folder / "model.onnx")
            onnx = os.fspath(folder / "model.onnx")
        except Unavailable as error:
            why["onnx"] = str(error)
    return replace(files, torch=torch, onnx=onnx, why=why)


@contextmanager
def _as_missing(missing: dict[str, str], name: str) -> Iterator[None]:
    """Whatever a peer raises is why it is missing: it must not end the comparison."""
    try:
        yield
    except Exception as error:
        text = str(error).strip().split("\n", 1)[0]
        plain = isinstance(error, Unavailable)
        missing[name] = text if plain else f"{type(error).__name__}: {text}"


def _latencies(
    artifact: Artifact, case: _Case, peers: Sequence[Peer], threads: int, seconds: float
) -> list[Latency]:
    missing: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for peer in peers:
        with _as_missing(missing, peer.name):
            session = open_peer(peer, case.files.of(peer), threads)
            call = session.bind(case.inputs)
            errors[peer.name] = _error(artifact, case, session.arrays(call()))
            calls[peer.name] = call
    times = interleaved(calls, seconds)
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


def _error(artifact: Artifact, case: _Case, found: Sequence[Array]) -> float | None:
    """The largest error of output scale."""
    if case.expected is None:
        return None
    names = [spec.name for spec in artifact.outputs]
    if len(found) != len(names):
        raise Unavailable(f"it gives {len(found)} outputs instead of {len(names)}")
    return max((e.scaled for e in compare(names, case.expected, found, ATOL, RTOL)), default=0.0)


def _deployment(peer: Peer, files: Files, threads: int, inputs: Path) -> Deployment:
    missing: dict[str, str] = {}
    with _as_missing(missing, peer.name):
        path = files.of(peer)
        found = measure_fresh(peer, path, threads, inputs)
        size = sum(file.stat().st_size for file in _with_data(Path(path)))
        return Deployment(
            peer.name, found["load"], int(found["peak"]), size, installed_bytes(peer) or None
        )
    return Deployment(peer.name, missing=missing[peer.name])


def _with_data(path: Path) -> list[Path]:
    """A model file and the weights that lie beside it."""
    beside = {
        ".pt": path.with_suffix(".pt2"),
        ".onnx": path.with_name(path.name + ".data"),
    }.get(path.suffix)
    return [path, beside] if beside is not None and beside.exists() else [path]
