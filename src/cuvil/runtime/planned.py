"""The bytes of a call's workspace by the package's expression: without the end that 64 bits have,
in which the library counts."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.ir.signature import size_at
from cuvil.package.manifest import Manifest

# Below this size of every symbol, six of them multiplied do not come near the end of 64 bits.
LARGE_SIZE = 1 << 10


def planned_bytes(manifest: Manifest, table: Mapping[str, int], threads: int) -> int:
    """The bytes at these sizes; 0 where they are small, or where a package of an earlier version
    does not say."""
    space = manifest.extra.get("workspace")
    if max(table.values(), default=0) < LARGE_SIZE or not isinstance(space, Mapping):
        return 0
    known = {**dict.fromkeys(manifest.signature.late, 0), **table, space["threads"]: threads}
    return size_at(space["bytes"], known) or 0
