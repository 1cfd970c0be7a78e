"""What is installed of a peer here: its version, and how much room it takes."""

from __future__ import annotations

import contextlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from cuvil.integrations.bench.peers import Peer
from cuvil.version import __version__ as own_version

_OWN = Path(__file__).resolve().parents[2]
_OWN_SUFFIXES = (".py", ".hpp", ".h", ".cpp")


def version_of(peer: Peer) -> str:
    """The version of the first of its packages, "" if that is not installed."""
    if peer.name == "cuvil":
        return own_version
    with contextlib.suppress(PackageNotFoundError):
        return distribution(peer.packages[0]).version
    return ""


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
