"""Where to build when the cache folder is of no use, and whether what is built is whole."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cuvil.build.cache import Cache
from cuvil.errors import TargetError
from cuvil.package.format import open_package

log = logging.getLogger("cuvil")


@contextlib.contextmanager
def working_folder(cache: Cache) -> Iterator[Path | None]:
    """None where the cache can be written; else, with a warning, a folder for the meantime."""
    fault = cache.fault()
    if fault is None:
        yield None
        return
    log.warning(
        "building without a cache: the folder %s can't be used (%s); set CUVIL_CACHE_DIR to one "
        "that can be written", cache.root, fault.strerror or fault,
    )  # fmt: skip
    with temporary_folder() as folder:
        yield folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end. Raises TargetError where none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="cuvil-", ignore_cleanup_errors=True)
    except OSError as error:
        raise TargetError(
            f"there is no folder to build in: {error.strerror or error}",
            hint="set CUVIL_CACHE_DIR, or TMPDIR, to a folder that can be written and has space",
            stage="build",
        ) from None
    with made as name:
        yield Path(name)

def check_package(path: Path) -> None:
    """Raise ArtifactError unless the package is whole, its weights too."""
    package = open_package(path)
    try:
        package.check_weights()
    finally:
        package.close()
