"""An artifact to a file; the suffix chooses the form."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuvil.errors import ArtifactError, TargetError
from cuvil.package.format import Package, StrPath, write_package

_HEADER = Path(__file__).resolve().parent.parent / "native" / "abi.h"
FORMS = (".cuvilpkg", ".so")


def save_package(package: Package, path: StrPath) -> list[Path]:
    """Write ``package`` to ``path``; returns the files written.

    ``.cuvilpkg`` is the package itself. ``.so`` is the library for C programs, with the weights in
    a file beside it (suffix ``.weights``, to be mapped and given to cuvil_create) and the header
    (suffix ``.h``). Raises TargetError for another suffix, ArtifactError where the file can't be
    written. Every file appears whole or not at all.
    """
    target = Path(path)
    if target.suffix == ".cuvilpkg":
        weights = [(0, package.weights)] if package.weights.size else []
        write_package(target, package.manifest, package.library, weights, package.parts)
        return [target]
    if target.suffix != ".so":
        raise TargetError(
            f"cannot save {target.name}: the form {target.suffix or 'without a suffix'!r} is not "
            "available for this artifact",
            hint=f"the forms are {', '.join(FORMS)}",
        )
    parts: list[tuple[Path, Iterable[Any]]] = [(target, [package.library])]
    if package.weights.size:
        parts.append((target.with_suffix(".weights"), [package.weights.data]))
    parts.append((target.with_suffix(".h"), [_HEADER.read_bytes()]))
    for place, pieces in parts:
        _write(place, pieces)
    return [place for place, _ in parts]


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
