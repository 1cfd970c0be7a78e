"""The .cuvilpkg file.

Little-endian. A header of 128 bytes, an index in JSON, then manifest, library and parts where the
index says, then, from the next multiple of 4096 on, the weights to the file's end:

    8s magic   I format version   I header bytes   Q file bytes   Q head bytes   Q index bytes
    32s SHA-256 of everything before the weights but this digest itself   56 bytes of zeros

"Head" is everything before the weights. The manifest holds the weights' hash64, so every byte of
the file is covered by a checksum. Magic, version and their places never change. Checksums find
damage, not malice: a package holds machine code, so load packages only from where you would
install a program from.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Union

import numpy as np

from cuvil.errors import ArtifactError
from cuvil.package.hash64 import hash64
from cuvil.package.manifest import FORMAT_VERSION, Manifest

MAGIC = b"\x89CUVIL\r\n"
_ELF = b"\x7fELF"
PAGE = 4096
_HEADER = struct.Struct("<8sIIQQQ32s56x")
_DIGEST_AT = 40
_AGAIN = "compile the model again, or copy the file again from where it came"

Buffer = Union[bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]
StrPath = Union[str, "os.PathLike[str]"]


class Package:
    """An opened package. The weights stay mapped, read-only, until :meth:`close`.

    ``weights_address`` is their place in memory (0 for none), ``weights`` the same as an array of
    bytes, ``parts`` the extra parts by name. ``bundle`` is the package that holds this one, None if
    it is a file of its own.
    """

    def __init__(
        self, path: Path, manifest: Manifest, library: bytes, parts: Mapping[str, bytes],
        mapping: mmap.mmap | None, weights: np.ndarray[Any, Any],
    ) -> None:  # fmt: skip
        self.path = path
        self.manifest = manifest
        self.library = library
        self.parts = dict(parts)
        self.bundle: Package | None = None
        self.weights = weights
        self.weights_address = int(weights.__array_interface__["data"][0]) if weights.size else 0
        self._mapping = mapping

    def check_weights(self, found: int | None = None) -> None:
        """Compare the weights' hash (``found`` if already computed) with the manifest's.

        Raises ArtifactError if they differ.
        """
        value = hash64(self.weights) if found is None else found
        if f"{value:016x}" != self.manifest.weights_hash64:
            raise bad_package(self.path, "its weights were altered or damaged")

    def close(self) -> None:
        """Unmap the weights; ``weights`` may not be used any more."""
        self.weights = np.empty(0, np.uint8)
        self.weights_address = 0
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            mapping.close()


def write_package(
    path: StrPath,
    manifest: Manifest,
    library: bytes,
    weights: Iterable[tuple[int, Buffer]] = (),
    parts: Mapping[str, bytes] | None = None,
    *,
    sync: bool = True,
) -> Manifest:
    """Write a package so that ``path`` is at every moment the old file or the whole new one.

    ``weights`` are (offset, data) segments in rising order, together at most
    ``manifest.weights_bytes`` long; what they leave out is zero. ``sync`` waits until the file is
    on the disk. Returns the manifest as written, with its digests. Raises ValueError for segments
    that overlap or reach too far, ArtifactError where the file can't be written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb+") as file:
            try:
                written = _write(file, manifest, library, weights, dict(parts or {}))
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, target)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise ArtifactError(
            f"cannot write {target}: {error.strerror or error}",
            hint="check that the folder exists, can be written and has space",
        ) from None
    return written


def _write(
    file: BinaryIO, manifest: Manifest, library: bytes, weights: Iterable[tuple[int, Buffer]],
    parts: Mapping[str, bytes],
) -> Manifest:  # fmt: skip
    # The manifest's length must be known before the weights are: digests have a fixed width.
    manifest = manifest.with_contents(
        library_sha256=hashlib.sha256(library).hexdigest(), weights_hash64="0" * 16
    )
    manifest_bytes = len(manifest.to_json().encode())
    sizes = {"manifest": manifest_bytes, "library": len(library)}
    index_bytes = 0
    while True:  # offsets are text in the index: its length may move them once or twice
        index = _layout(index_bytes, sizes, parts)
        index_text = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
        if len(index_text) == index_bytes:
            break
        index_bytes = len(index_text)
    head_bytes = _HEADER.size + index_bytes + sum(sizes.values()) + sum(map(len, parts.values()))
    if manifest.weights_bytes:
        head_bytes = -(-head_bytes // PAGE) * PAGE
    _write_weights(file, head_bytes, manifest.weights_bytes, weights)
    digest = _hash_weights(file, head_bytes, manifest.weights_bytes)
    manifest = manifest.with_contents(
        library_sha256=manifest.library_sha256, weights_hash64=f"{digest:016x}"
    )
    body = b"".join([index_text, manifest.to_json().encode(), library, *parts.values()])
    body = body.ljust(head_bytes - _HEADER.size, b"\0")
    fields = (MAGIC, FORMAT_VERSION, _HEADER.size, head_bytes + manifest.weights_bytes,
              head_bytes, index_bytes)  # fmt: skip
    sha = _head_digest(_HEADER.pack(*fields, b""), body)
    file.seek(0)
    file.write(_HEADER.pack(*fields, sha))
    file.write(body)
    return manifest


def _layout(
    index_bytes: int, sizes: Mapping[str, int], parts: Mapping[str, bytes]
) -> dict[str, Any]:
    at = _HEADER.size + index_bytes
    index: dict[str, Any] = {}
    for name, size in sizes.items():
        index[name] = [at, size]
        at += size
    places = {}
    for name, data in parts.items():
        places[name] = [at, len(data)]
        at += len(data)
    index["parts"] = places
    return index


def _write_weights(
    file: BinaryIO, base: int, total: int, weights: Iterable[tuple[int, Buffer]]
) -> None:
    end = 0
    for offset, data in weights:
        raw = _raw(data)
        if offset < end or offset + raw.nbytes > total:
            raise ValueError(
                f"weights segment {offset}..{offset + raw.nbytes} overlaps the one before (which "
                f"ends at {end}) or passes the end {total}"
            )
        end = offset + raw.nbytes
        file.seek(base + offset)
        file.write(raw)
    file.truncate(base + total)
    file.flush()


def _raw(data: Buffer) -> memoryview:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return memoryview(data).cast("B")


def _hash_weights(file: BinaryIO, base: int, total: int) -> int:
    if total == 0:
        return hash64(b"")
    with mmap.mmap(file.fileno(), base + total, prot=mmap.PROT_READ) as mapping:
        data = np.frombuffer(mapping, np.uint8, total, base)
        value = hash64(data)
        del data  # a mapping with views on it can't be closed
    return value


def _head_digest(header: bytes, body: bytes) -> bytes:
    hasher = hashlib.sha256(header[:_DIGEST_AT])
    hasher.update(header[_DIGEST_AT + 32 :])
    hasher.update(body)
    return hasher.digest()


def open_package(path: StrPath) -> Package:
    """Map a package and check all of it but the weights (see :meth:`Package.check_weights`).

    Raises ArtifactError, naming the file, if it is missing, not a package, truncated, altered or
    written by a newer version.
    """
    place = Path(path)
    descriptor = _open_file(place)
    try:
        size = os.fstat(descriptor).st_size
        head, index_bytes = _read_head(place, descriptor, size)
        index, manifest = _read_index(place, head, index_bytes)
        if len(head) + manifest.weights_bytes != size:
            raise bad_package(place, "its sizes contradict each other")
        library = _section(head, index["library"])
        parts = {name: _section(head, at) for name, at in index["parts"].items()}
        if not manifest.weights_bytes:
            return Package(place, manifest, library, parts, None, np.empty(0, np.uint8))
        mapping = mmap.mmap(descriptor, size, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
        _ask_for_huge_pages(mapping)
    except (OSError, OverflowError) as error:
        raise bad_package(place, f"it can't be read: {error}") from None
    finally:
        os.close(descriptor)
    weights = np.frombuffer(mapping, np.uint8, manifest.weights_bytes, len(head))
    return Package(place, manifest, library, parts, mapping, weights)


def _ask_for_huge_pages(mapping: mmap.mmap) -> None:
    """Large weights are read a third faster through huge pages, where the file system has them."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)


def bad_package(path: Path, why: str, hint: str = _AGAIN) -> ArtifactError:
    """The error for a package that can't be used."""
    return ArtifactError(f"cannot use the package {path}: {why}", hint=hint)


def _open_file(path: Path) -> int:
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        missing = getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR)
        why = "there is no such file" if missing else str(error)
        raise bad_package(path, why, "check the path") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise bad_package(path, "it is not a regular file", "give the path of a .cuvilpkg file")
    return descriptor


def _read_head(path: Path, descriptor: int, size: int) -> tuple[bytes, int]:
    """(everything before the weights, the index's length), with the head's checksum verified."""
    header = os.pread(descriptor, _HEADER.size, 0)
    if not header:
        raise bad_package(path, "it is empty")
    if header[:8] != MAGIC[: len(header)]:
        what = "it is a compiled library, not" if header[:4] == _ELF else "it is not"
        raise bad_package(path, f"{what} a Cuvil package", "give the path of a .cuvilpkg file")
    if len(header) < _HEADER.size:
        raise bad_package(path, f"it is truncated to {size} bytes")
    _, version, header_bytes, file_bytes, head_bytes, index_bytes, digest = _HEADER.unpack(header)
    if version != FORMAT_VERSION:
        raise bad_package(
            path, f"it has format version {version}; this cuvil reads version {FORMAT_VERSION}",
            "upgrade cuvil, or compile the model again with this version",
        )  # fmt: skip
    if file_bytes > size:
        raise bad_package(path, f"it is truncated: {size} of {file_bytes} bytes are there")
    if file_bytes < size:
        raise bad_package(path, f"it has {size - file_bytes} bytes too many")
    if header_bytes != _HEADER.size or not header_bytes + index_bytes <= head_bytes <= size:
        raise bad_package(path, "its header is damaged")
    body = _read(descriptor, _HEADER.size, head_bytes - _HEADER.size)
    if _head_digest(header, body) != digest:
        raise bad_package(path, "it was altered or damaged (its checksum does not match)")
    return header + body, index_bytes


def _read(descriptor: int, offset: int, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = os.pread(descriptor, count, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def _read_index(path: Path, head: bytes, index_bytes: int) -> tuple[dict[str, Any], Manifest]:
    try:
        index = json.loads(head[_HEADER.size : _HEADER.size + index_bytes])
        places = [index["manifest"], index["library"], *index["parts"].values()]
        fits = all(
            type(at) is int and type(size) is int and min(at, size) >= 0 and at + size <= len(head)
            for at, size in places
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise bad_package(path, "its index is damaged")
    try:
        manifest = Manifest.from_json(_section(head, index["manifest"]))
    except ArtifactError as error:
        raise bad_package(path, error.message, error.hint or _AGAIN) from None
    if hashlib.sha256(_section(head, index["library"])).hexdigest() != manifest.library_sha256:
        raise bad_package(path, "its library is not the one its manifest names")
    return index, manifest


def _section(head: bytes, place: list[int]) -> bytes:
    return head[place[0] : place[0] + place[1]]
