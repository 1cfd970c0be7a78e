"""Finished artifacts by key, in one folder that many processes may use at once."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cuvil.build.store import digest_of, write_atomic
from cuvil.errors import ArtifactError

TUNING = "tuning"
"""The folder of tuning's winners (tune/store.py), which are cleared with the rest."""
_SUFFIX = ".cuvilpkg"
_STALE_SECONDS = 3600.0
_MOST_CHECKED = 64  # of the newest example values by model: older ones are checked again
_PROBE_BYTES = 1 << 20  # about what a small model's objects take


@dataclass(frozen=True)
class CacheEntry:
    """One artifact; ``used`` is when it was last taken, in seconds since 1970."""

    key: str
    path: Path
    bytes: int
    used: float


class Cache:
    """Artifacts under ``root``/artifacts; entries appear whole or not at all.

    ``limit_bytes`` bounds their total: the least recently used ones go first.
    """

    def __init__(self, root: Path, limit_bytes: int | None = None) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self._entries = root / "artifacts"
        self._aliases = root / "aliases"
        self._checked = root / "checked"
        self._temporary = root / "tmp"

    def fault(self) -> OSError | None:
        """Why nothing can be written in the folder; None where a file of some size can be."""
        try:
            self._temporary.mkdir(parents=True, exist_ok=True)
            self._entries.mkdir(parents=True, exist_ok=True)
            probe = self._temporary / f"probe.{os.getpid()}.{os.urandom(4).hex()}"
            try:
                probe.write_bytes(bytes(_PROBE_BYTES))
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            return error
        return None

    def get(self, key: str, check: Callable[[Path], object] | None = None) -> Path | None:
        """The entry's path, or None. One that ``check`` refuses (ArtifactError) is dropped."""
        path = self._path(key)
        try:
            os.utime(path)
        except OSError:
            return None
        if check is not None:
            try:
                check(path)
            except ArtifactError:
                self.drop(key)
                return None
        return path

    def put(self, key: str, writer: Callable[[Path], object]) -> Path:
        """Let ``writer`` make a file at the path it is given; that file becomes the entry.

        Of two processes that put the same key both succeed and the later one stays. If the writer
        raises, nothing stays. Raises OSError where the folder can't be written.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary.mkdir(parents=True, exist_ok=True)
        self.remove_stale()
        place = self._temporary / f"{path.stem}.{os.getpid()}.{os.urandom(4).hex()}{_SUFFIX}"
        try:
            writer(place)
            os.replace(place, path)
        finally:
            place.unlink(missing_ok=True)
        if self.limit_bytes is not None:
            self._trim(self.limit_bytes, keep=path)
        return path

    def alias(self, key: str) -> str | None:
        """The key of the artifact that ``key`` stands for, where it is known and whole."""
        try:
            target, check = self._alias_path(key).read_text(encoding="ascii").split(" ")
        except (OSError, ValueError):
            return None
        return target if check == digest_of([key, target]) else None

    def set_alias(self, key: str, target: str) -> None:
        """Let ``key`` stand for the artifact ``target``; without a place it only isn't known."""
        text = f"{target} {digest_of([key, target])}"
        try:
            write_atomic(self._alias_path(key), text.encode("ascii"))
        except OSError:
            return

    def checked(self, key: str) -> list[str]:
        """Digests of the example values that what ``key`` stands for was verified on."""
        try:
            return _place(self._checked, key).read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return []

    def set_checked(self, key: str, digests: Iterable[str]) -> None:
        """Keep the last of these digests; without a place they only aren't known."""
        text = " ".join(list(dict.fromkeys(digests))[-_MOST_CHECKED:])
        with contextlib.suppress(OSError):
            write_atomic(_place(self._checked, key), text.encode("ascii"))

    def drop(self, key: str) -> None:
        """Remove one entry, if it is there and may be removed."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def ls(self) -> list[CacheEntry]:
        """All entries, the most recently used first."""
        found = []
        for path in self._entries.glob(f"*/*{_SUFFIX}"):
            try:
                status = path.stat()
            except OSError:
                continue  # another process dropped it
            key = path.parent.name + path.stem
            found.append(CacheEntry(key, path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.key))

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.bytes for entry in self.ls())

    def clear(self) -> int:
        """Remove all entries, compiled objects and tuning's winners; returns the bytes freed.

        What a running compiler is writing stays.
        """
        freed = sum(
            _remove_files(folder, float("inf"))
            for folder in (self._entries, self._aliases, self._checked,
                           self.root / "objects", self.root / TUNING)
        )  # fmt: skip
        return freed + self.remove_stale()

    def remove_stale(self, age_seconds: float = _STALE_SECONDS) -> int:
        """Remove temporary files that a killed process left; returns the bytes freed."""
        return _remove_files(self._temporary, time.time() - age_seconds)

    def _path(self, key: str) -> Path:
        return _place(self._entries, key).with_suffix(_SUFFIX)

    def _alias_path(self, key: str) -> Path:
        return _place(self._aliases, key)

    def _trim(self, limit: int, keep: Path) -> None:
        total = 0
        for entry in self.ls():
            total += entry.bytes
            if total > limit and entry.path != keep:
                entry.path.unlink(missing_ok=True)
                total -= entry.bytes


def _place(folder: Path, key: str) -> Path:
    if len(key) < 4 or not key.isascii() or not key.isalnum():
        raise ValueError(f"a cache key is letters and digits, at least 4, not {key!r}")
    return folder / key[:2] / key[2:]


def _remove_files(folder: Path, older_than: float) -> int:
    """Remove files last changed before that time and folders left empty; returns the bytes."""
    freed = 0
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(parent, name)
            try:
                status = path.lstat()
                if status.st_mtime < older_than:
                    path.unlink()
                    freed += status.st_size
            except OSError:
                continue  # gone already, or not ours to remove
        for name in folders:
            path = Path(parent, name)
            try:
                # A folder that was just made may be about to get its first file.
                if path.lstat().st_mtime < min(older_than, time.time() - _STALE_SECONDS):
                    path.rmdir()
            except OSError:
                continue  # not empty, or in use
    return freed
