"""An artifact to a file; the suffix chooses the form."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuvil.errors import ArtifactError, TargetError
from cuvil.errors.arguments import PATH
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, StrPath, write_package
from cuvil.package.onnx_model import model_pieces
from cuvil.runtime.web_form import web_files

_HEADER = Path(__file__).resolve().parent.parent / "native" / "abi.h"
Files = list[tuple[Path, Iterable[Any]]]


@dataclass(frozen=True)
class Form:
    """One form: the kind of target that is saved so, the target that is built when another's
    artifact is to be saved so (empty: none), the files' pieces for a package and a path, and the
    suffixes of files that may stand beside the main one."""

    kind: str
    target: str
    files: Callable[[Package, Path], Files]
    beside: tuple[str, ...]


def _library(package: Package, path: Path) -> Files:
    """The library for C programs, the weights to be mapped and given to it, the header."""
    files: Files = [(path, [package.library])]
    if package.weights.size:
        files.append((path.with_suffix(".weights"), [package.weights.data]))
    return [*files, (path.with_suffix(".h"), [_HEADER.read_bytes()])]


def _c_source(package: Package, path: Path) -> Files:
    """The source, and its header under the name that the source then includes."""
    header = path.with_suffix(".h")
    source = bytes(package.library).replace(b'"model.h"', f'"{header.name}"'.encode(), 1)
    return [(path, [source]), (header, [bytes(package.parts["model.h"])])]


def _onnx(package: Package, path: Path) -> Files:
    """The model; its weights beside it where one file can't hold them."""
    beside = path.with_suffix(".weights")
    pieces, apart = model_pieces(package, beside.name)
    return [(path, pieces), *([(beside, [package.weights.data])] if apart else [])]


PACKAGE = ".cuvilpkg"
_FORMS: Mapping[str, Form] = {
    ".so": Form("library", "", _library, (".weights", ".h")),
    ".ll": Form("llvm", "llvm", _library, (".weights", ".h")),
    ".wasm": Form("wasm", "wasm", web_files, (".weights",)),
    ".c": Form("c", "c", _c_source, (".h",)),
    ".onnx": Form("onnx", "onnx", _onnx, (".weights",)),
}
FORMS = (PACKAGE, *_FORMS)


def target_of_form(suffix: str) -> str:
    """The target that a form implies; empty where any may be saved so."""
    form = _FORMS.get(suffix)
    return "" if form is None else form.target


def forms_of(kind: str) -> tuple[str, ...]:
    """The suffixes that a kind of target may be saved with."""
    return (PACKAGE, *(suffix for suffix, form in _FORMS.items() if form.kind == kind))


def _kind(package: Package) -> str:
    return str(package.manifest.extra.get("kind", "library"))


def save_artifact(package: Package, source: Any, path: StrPath) -> list[Path]:
    """Write ``package`` to ``path`` in the form of its suffix; returns the files written.

    A package that came in a bundle is saved as the whole of it. A form of another kind of target is
    taken from the bundle, or built from ``source``, what the package was compiled from. Raises
    TargetError for another suffix, or a form that can't be had from this package, ArtifactError
    where the file can't be written. Every file appears whole or not at all.
    """
    PATH("path", path)
    place = Path(path)
    kind = _kind(package)
    form = _FORMS.get(place.suffix)
    if package.bundle is not None and place.suffix == PACKAGE:
        return save_package(package.bundle, place)
    if package.bundle is not None and form is not None and form.kind != kind:
        held = [p for p in held_packages(package.bundle).values() if _kind(p) == form.kind]
        triple = package.manifest.target  # of two, that for the same machine
        if held:
            return save_package(max(held, key=lambda p: p.manifest.target == triple), place)
    retarget = None if place.suffix in forms_of(kind) else getattr(source, "retarget", None)
    if form is not None and form.target and retarget is not None:
        files: list[Path] = retarget(form.target).save(place)
        return files
    return save_package(package, place, rebuilt=retarget is not None)


def save_package(package: Package, path: StrPath, rebuilt: bool = False) -> list[Path]:
    """Write ``package`` to ``path``; returns the files written. ``rebuilt`` is whether the model is
    at hand, from which forms of other targets are built: the error names them.

    ``.cuvilpkg`` is the package itself. ``.so`` is the library for C programs, with the weights in
    a file beside it (suffix ``.weights``, to be mapped and given to cuvil_create) and the header
    (suffix ``.h``). ``.wasm`` are modules, weights and a loader (see web_form.py). Raises
    TargetError for another suffix, ArtifactError where the file can't be written.
    Raises ArtifactError too where a file would replace another form's, with other contents.
    Every file appears whole or not at all.
    """
    target = Path(path)
    if target.suffix == PACKAGE:
        weights = [(0, package.weights)] if package.weights.size else []
        write_package(target, package.manifest, package.library, weights, package.parts)
        return [target]
    kind = _kind(package)
    form = _FORMS.get(target.suffix)
    if form is None or form.kind != kind:
        hint = f"the forms are {', '.join(_forms_at_hand(package, rebuilt))}"
        if form is not None:
            hint += f"; for {target.suffix} compile with target={form.target or 'native'!r}"
        raise TargetError(
            f"cannot save {target.name}: the form {target.suffix or 'without a suffix'!r} is not "
            "available for this artifact",
            hint=hint,
        )
    parts = form.files(package, target)
    for place, pieces in parts[1:]:
        _check_owner(target, place, pieces)
    for place, pieces in parts:
        _write(place, pieces)
    return [place for place, _ in parts]


def _check_owner(main: Path, place: Path, pieces: Iterable[Any]) -> None:
    """Raise ArtifactError where a file beside ``main`` is another form's too, with other contents:
    ``net.so`` and ``net.c`` both want a ``net.h``."""
    owners = [
        main.with_suffix(suffix)
        for suffix, form in _FORMS.items()
        if suffix != main.suffix and place.suffix in form.beside
    ]
    owner = next((path for path in owners if path.exists()), None)
    if owner is not None and place.exists() and not _holds(place, pieces):
        raise ArtifactError(
            f"cannot write {place}: {owner} has one of that name, with other contents",
            hint="save under another name or in another folder, or remove the other files",
        )


def _holds(path: Path, pieces: Iterable[Any]) -> bool:
    """Whether a file has these contents."""
    try:
        with open(path, "rb") as file:
            same = all(file.read(len(data)) == bytes(data) for data in pieces)
            return same and not file.read(1)
    except OSError:
        return False


def _forms_at_hand(package: Package, rebuilt: bool) -> tuple[str, ...]:
    """The suffixes that a package, or the bundle it is from, can be saved with."""
    held = () if package.bundle is None else held_packages(package.bundle).values()
    kinds = {_kind(package), *map(_kind, held)}
    had = (s for s, form in _FORMS.items() if form.kind in kinds or (rebuilt and form.target))
    return (PACKAGE, *had)


def _write(path: Path, pieces: Iterable[Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            for piece in pieces:
                file.write(piece)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise ArtifactError(
            f"cannot write {path}: {error.strerror or error}",
            hint="check that the folder exists, can be written and has space",
        ) from None
