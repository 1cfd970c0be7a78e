"""The runtimes that can be measured, and what each needs.

A peer's module imports its runtime at the top, so it is loaded by name, when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
_HERE = "cuvil.integrations.bench"
_OWN = Path(__file__).resolve().parents[2]
_OWN_SUFFIXES = (".py", ".hpp", ".h", ".cpp")


@dataclass(frozen=True)
class Peer:
    """``module`` opens it, ``needs`` must be importable, ``reads`` names the file it loads,
    ``packages`` are what has to be installed where it runs."""

    name: str
    module: str
    needs: str
    reads: str
    packages: tuple[str, ...]


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        peer.name: peer
        for peer in (
            Peer("cuvil", f"{_HERE}.artifact", "numpy", "package", ("cuvil",)),
            Peer("torch", f"{_HERE}.torch_eager", "torch", "torch", ("torch",)),
            Peer("torch.compile", f"{_HERE}.torch_compile", "torch", "torch", ("torch",)),
            Peer("onnxruntime", f"{_HERE}.ort", "onnxruntime", "onnx", ("onnxruntime",)),
            Peer("openvino", f"{_HERE}.ov", "openvino", "onnx", ("openvino",)),
        )
    }
)


@dataclass(frozen=True)
class Files:
    """One model in each form, as paths ("" where there is none; ``why`` by form says why not)."""

    package: str = ""
    torch: str = ""
    onnx: str = ""
    why: Mapping[str, str] = field(default_factory=dict)

    def of(self, peer: Peer) -> str:
        """The file a peer reads. Raises Unavailable if it is missing."""
        path = str(getattr(self, peer.reads))
        if not path:
            raise Unavailable(self.why.get(peer.reads, f"there is no {peer.reads} form"))
        return path

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "why": dict(self.why)}


class Unavailable(Exception):
    """A peer can't run this model here; the message says why."""


class Session(Protocol):
    """A model loaded by a peer."""

    def bind(self, inputs: Mapping[str, Array]) -> Callable[[], Any]:
        """A call on these inputs, already in the peer's own form."""

    def arrays(self, outputs: Any) -> Sequence[Array]:
        """What such a call returned, flat, as NumPy arrays."""


def open_peer(peer: Peer, path: str, threads: int) -> Session:
    """Load the file that ``peer`` reads with that many threads. Raises Unavailable."""
    if find_spec(peer.needs) is None:
        raise Unavailable(f"{peer.needs} is not installed")
    session: Session = importlib.import_module(peer.module).open(path, threads)
    return session


def installed_bytes(peer: Peer) -> int:
    """The size on disk of what the peer has to have installed, without its dependencies."""
    total = 0
    for name in peer.packages:
        if name == "cuvil":  # it may be run from its source tree
            total += sum(p.stat().st_size for p in _OWN.rglob("*") if p.suffix in _OWN_SUFFIXES)
            continue
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            place = file.locate()
            try:
                total += place.stat().st_size  # type: ignore[attr-defined]
            except OSError:
                continue  # listed and not there
    return total
