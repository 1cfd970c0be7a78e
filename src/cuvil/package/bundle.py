"""A package that holds artifacts of one model for several targets.

It is an ordinary package without a library. Its parts are the held packages' manifests, libraries
and parts, under the target's name; its weights are theirs, each from a multiple of a page on, equal
ones once. ``extra["targets"]`` says in the manifest what lies where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError
from cuvil.package.format import PAGE, Package, StrPath, bad_package, write_package
from cuvil.package.manifest import Manifest

BUNDLE = "bundle"  # its manifest's kind
_SEVERAL = "several"  # its manifest's target
_MANIFEST, _LIBRARY = "manifest", "library"


def write_bundle(path: StrPath, packages: Mapping[str, Package]) -> Manifest:
    """Write the packages, by target name, into one; returns its manifest.

    Raises ArtifactError where the file can't be written.
    """
    parts: dict[str, bytes] = {}
    entries = []
    segments: list[tuple[int, np.ndarray[Any, Any]]] = []
    for name, package in packages.items():
        kept = {_MANIFEST: package.manifest.to_json().encode(), _LIBRARY: package.library}
        parts |= {f"{name}/{part}": data for part, data in kept.items()}
        parts |= {f"{name}/parts/{part}": data for part, data in package.parts.items()}
        place = _place(segments, package.weights)
        entries.append(
            {"name": name, "parts": sorted(package.parts), "weights": [place, package.weights.size]}
        )
    first = next(iter(packages.values())).manifest
    manifest = replace(
        first,
        target=_SEVERAL,
        cpu="",
        cpu_features=(),
        extra={"kind": BUNDLE, "targets": entries},
        weights_bytes=_end(segments),
    )
    return write_package(path, manifest, b"", segments, parts)


def _end(segments: list[tuple[int, np.ndarray[Any, Any]]]) -> int:
    return segments[-1][0] + segments[-1][1].size if segments else 0


def _place(
    segments: list[tuple[int, np.ndarray[Any, Any]]], weights: np.ndarray[Any, Any]
) -> int:
    """Where these weights are among the segments; they become one if they are new."""
    if not weights.size:
        return 0
    for at, known in segments:
        if np.array_equal(known, weights):
            return at
    at = -(-_end(segments) // PAGE) * PAGE
    segments.append((at, weights))
    return at


def held_packages(package: Package) -> dict[str, Package]:
    """The packages in a bundle, by target name, in its order; empty for any other package.

    They share its mapping, so it stays open as long as one of them is used. Raises ArtifactError
    for a bundle that contradicts itself.
    """
    if package.manifest.extra.get("kind") != BUNDLE:
        return {}
    entries = package.manifest.extra.get("targets")
    try:
        return {entry["name"]: _held(package, entry) for entry in entries or ()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise bad_package(package.path, "its list of targets is damaged") from None
    except ArtifactError as error:
        raise bad_package(package.path, error.message) from None


def _held(package: Package, entry: Mapping[str, Any]) -> Package:
    name = entry["name"]
    at, size = entry["weights"]
    manifest = Manifest.from_json(package.parts[f"{name}/{_MANIFEST}"])
    library = package.parts[f"{name}/{_LIBRARY}"]
    whole = type(at) is int and type(size) is int
    fits = whole and at >= 0 and at % PAGE == 0 and at + size <= package.weights.size
    if not fits or size != manifest.weights_bytes:
        raise ArtifactError(f"the weights for {name} are not where it says")
    if hashlib.sha256(library).hexdigest() != manifest.library_sha256:
        raise ArtifactError(f"the library for {name} is not the one its manifest names")
    parts = {part: package.parts[f"{name}/parts/{part}"] for part in entry["parts"]}
    weights = package.weights[at : at + size]
    held = Package(package.path, manifest, library, parts, None, weights)
    held.bundle = package
    return held
