"""Content-addressed store of object files: what was compiled once is never compiled again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

_DIGEST = hashlib.sha256().digest_size


def digest_of(parts: Iterable[str | bytes]) -> str:
    """A key for a sequence of texts; no two different sequences give the same bytes to hash."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``path`` so that others see all of it or nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class ObjectStore:
    """Blobs by key in a folder; a blob that was altered on disk counts as absent."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / key[2:]

    def get(self, key: str) -> bytes | None:
        """The blob, or None if there is none that is whole."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        digest, blob = data[:_DIGEST], data[_DIGEST:]
        return blob if hashlib.sha256(blob).digest() == digest else None

    def put(self, key: str, blob: bytes) -> None:
        """Store a blob; a folder that can't be written only costs the reuse."""
        try:
            write_atomic(self._path(key), hashlib.sha256(blob).digest() + blob)
        except OSError:
            return
