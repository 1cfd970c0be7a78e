"""One model in every form that a peer reads, as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from cuvil.api.source import Source
from cuvil.integrations.bench.peers import Files, Peer, Unavailable
from cuvil.integrations.bench.remote import Remote
from cuvil.runtime.artifact import Artifact

_TORCH_FORMS = {"torch", "onnx", "program"}


def files_for(
    artifact: Artifact,
    source: Source | None,
    peers: Sequence[Peer],
    inputs: Mapping[str, Any],
    folder: Path,
) -> Files:
    """Save the artifact and whatever else the peers read, at the sizes of ``inputs``."""
    package = folder / "model.cuvilpkg"
    artifact.save(package)
    files = Files(package=os.fspath(package))
    if source is None:
        return files
    wanted = {peer.reads for peer in peers}
    if source.module.source.get("frontend") == "onnx":
        files = replace(
            files, why=dict.fromkeys(("torch", "program"), "the model is an ONNX model")
        )
        return replace(files, onnx=_onnx_file(source.origin, folder)) if "onnx" in wanted else files
    if wanted & _TORCH_FORMS:
        outputs = [spec.name for spec in artifact.outputs]
        return _torch_files(files, source.origin, inputs, outputs, folder, wanted)
    return files


def _onnx_file(model: Any, folder: Path) -> str:
    """The path itself where the model is one, so that data beside it is found."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, (bytes, bytearray)) else model.SerializeToString())
    return os.fspath(path)


def _torch_files(
    files: Files, origin: Any, inputs: Mapping[str, Any], outputs: Sequence[str], folder: Path,
    wanted: set[str],
) -> Files:  # fmt: skip
    # They import torch at the top, which is there if the source is a PyTorch model.
    torch_file = import_module("cuvil.integrations.bench.torch_file")
    bundle = torch_file.bundle_of(origin)

    def onnx(path: Path) -> None:
        exporter = import_module("cuvil.integrations.bench.onnx_export")
        exporter.export_onnx(bundle, inputs, outputs, path)

    def program(path: Path) -> None:
        import_module("cuvil.integrations.bench.flat").save_program(bundle, inputs, path)

    makers: dict[str, tuple[str, Callable[[Path], None]]] = {
        "torch": ("model.pt", lambda path: torch_file.save_bundle(bundle, path)),
        "onnx": ("model.onnx", onnx),
        "program": ("program.pt2", program),
    }
    made: dict[str, str] = {}
    why: dict[str, str] = {}
    for form in sorted(wanted & _TORCH_FORMS):
        name, make = makers[form]
        try:
            make(folder / name)
            made[form] = os.fspath(folder / name)
        except Unavailable as error:
            why[form] = str(error)
    return replace(files, **made, why=why)


class Builds:
    """What peers load of one model: files as they are, or built once, in processes of their own."""

    def __init__(self, files: Files, folder: Path, pythons: Mapping[str, str]) -> None:
        self.files, self.folder, self.pythons = files, folder, pythons
        self.seconds: dict[str, float] = {}
        self._paths: dict[tuple[str, int], str] = {}
        self._why: dict[tuple[str, int], str] = {}

    def path(self, peer: Peer, threads: int) -> str:
        """The file that the peer loads for that many threads. Raises Unavailable."""
        source = self.files.of(peer)
        if not peer.builder:
            return source
        key = (peer.name, threads if peer.per_threads else 0)
        if key not in self._paths and key not in self._why:
            try:
                self._paths[key] = self._build(peer, source, threads)
            except Unavailable as error:
                self._why[key] = str(error)
        if key in self._why:
            raise Unavailable(self._why[key])
        return self._paths[key]

    def _build(self, peer: Peer, source: str, threads: int) -> str:
        to = self.folder / f"{peer.name}-{threads}{peer.suffix}"
        with Remote(peer, self.pythons.get(peer.name, "")) as worker:
            self.seconds[peer.name] = worker.build(source, threads, str(to))
        return str(to)


def size_of(path: str) -> int:
    """Bytes of a model's file and of the weights that lie beside it."""
    place = Path(path)
    beside = {".pt": place.with_suffix(".pt2"), ".onnx": place.with_name(place.name + ".data")}
    more = beside.get(place.suffix)
    return sum(p.stat().st_size for p in (place, more) if p is not None and p.exists())
