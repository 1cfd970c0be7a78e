"""The runtimes that can be measured, and what each needs.

A peer's module imports its runtime at the top, so it is loaded by name, when it is asked for.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
_HERE = "cuvil.integrations.bench"


@dataclass(frozen=True)
class Peer:
    """``module`` opens it, ``needs`` must be importable, ``reads`` names the file it is made from,
    ``packages`` are what has to be installed where it runs.

    ``builder`` is the module whose ``build`` makes a file with ``suffix`` of that first ("": it
    loads the file itself), ``per_threads`` says that it does so for a number of threads. ``apart``
    is for what would disturb others in one process. ``precise`` is False where it may compute in
    less than the model's own precision.
    """

    name: str
    module: str
    needs: str
    reads: str
    packages: tuple[str, ...]
    builder: str = ""
    suffix: str = ""
    per_threads: bool = False
    apart: bool = False
    precise: bool = True

    def as_text(self) -> str:
        """One argument of a command line."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> Peer:
        """What :meth:`as_text` wrote."""
        fields = json.loads(text)
        return Peer(**{**fields, "packages": tuple(fields["packages"])})


def _peer(name: str, file: str, needs: str, reads: str, *packages: str, **more: Any) -> Peer:
    return Peer(name, f"{_HERE}.{file}", needs, reads, packages or (name,), **more)


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        peer.name: peer
        for peer in (
            _peer("cuvil", "artifact", "numpy", "package"),
            _peer("torch", "torch_eager", "torch", "torch"),
            _peer("torch.compile", "torch_compile", "torch", "torch", "torch"),
            _peer("aotinductor", "aoti", "torch", "program", "torch",
                  builder=f"{_HERE}.aoti_build", suffix=".pt2", per_threads=True),
            _peer("onnxruntime", "ort", "onnxruntime", "onnx"),
            _peer("openvino", "ov", "openvino", "onnx"),
            _peer("openvino-default", "ov_default", "openvino", "onnx", "openvino", precise=False),
            _peer("executorch", "executorch_xnnpack", "executorch", "program",
                  builder=f"{_HERE}.executorch_build", suffix=".pte", apart=True),
            _peer("tract", "tract_onnx", "tract", "onnx", apart=True),
            _peer("iree", "iree_cpu", "iree.runtime", "onnx", "iree-base-runtime",
                  builder=f"{_HERE}.iree_build", suffix=".vmfb", apart=True),
            _peer("tvm", "tvm_relax", "tvm", "onnx", "apache-tvm", "apache-tvm-ffi",
                  builder=f"{_HERE}.tvm_build", suffix=".so", apart=True),
        )
    }
)  # fmt: skip


@dataclass(frozen=True)
class Files:
    """One model in each form, as paths ("" where there is none; ``why`` by form says why not)."""

    package: str = ""
    torch: str = ""
    onnx: str = ""
    program: str = ""
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


def installed(peer: Peer) -> bool:
    """Whether this interpreter can import what the peer needs."""
    try:
        return find_spec(peer.needs) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def open_peer(peer: Peer, path: str, threads: int) -> Session:
    """Load the file that ``peer`` loads with that many threads. Raises Unavailable."""
    _require(peer)
    session: Session = importlib.import_module(peer.module).open(path, threads)
    return session


def build_for(peer: Peer, path: str, threads: int, to: str) -> None:
    """Make the file ``to`` that the peer loads of the one it reads. Raises Unavailable."""
    _require(peer)
    try:
        builder = importlib.import_module(peer.builder)
    except ModuleNotFoundError as error:
        raise Unavailable(f"{error.name}, which it is built with, is not installed") from None
    builder.build(path, threads, to)


def _require(peer: Peer) -> None:
    if not installed(peer):
        get = f" (pip install {' '.join(peer.packages)})" if peer.packages else ""
        raise Unavailable(f"{peer.needs} is not installed{get}")
