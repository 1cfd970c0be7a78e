"""Winners of earlier tunings, one file each in the cache folder: machines and versions apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cuvil.build.cache import TUNING
from cuvil.build.store import digest_of, write_atomic
from cuvil.errors import InputError
from cuvil.tune.table import Found, read_found


@dataclass(frozen=True)
class Place:
    """Where something is measured: ``version`` changes whenever the code of kernels may."""

    cpu: str
    target: str
    threads: int
    version: str


@dataclass(frozen=True)
class Winner:
    """An entry of the store."""

    found: Found
    cpu: str
    threads: int
    path: Path
    used: float


class WinnerStore:
    """Winners under ``root``/tuning. A file that can't be read counts as absent, a folder that
    can't be written only costs the reuse."""

    def __init__(self, root: Path) -> None:
        self.folder = root / TUNING

    def get(self, kernel: str, sizes: Mapping[str, int], place: Place) -> Found | None:
        """What was found for a kernel at these sizes and this place."""
        winner = _read(self._path(kernel, sizes, place))
        if winner is None or winner.found.kernel != kernel:
            return None
        return winner.found

    def put(self, found: Found, place: Place) -> None:
        """Remember what was found."""
        tree = {**asdict(found), "cpu": place.cpu, "threads": place.threads}
        path = self._path(found.kernel, found.sizes, place)
        try:
            write_atomic(path, json.dumps(tree, sort_keys=True).encode("ascii"))
        except OSError:
            return

    def ls(self) -> list[Winner]:
        """All entries, the newest first."""
        return sorted(self._all(), key=lambda w: (-w.used, w.path.name))

    def _all(self) -> Iterator[Winner]:
        for path in self.folder.glob("*/*.json"):
            winner = _read(path)
            if winner is not None:
                yield winner

    def _path(self, kernel: str, sizes: Mapping[str, int], place: Place) -> Path:
        facts = (place.cpu, place.target, str(place.threads), place.version)
        key = digest_of([kernel, json.dumps(sorted(sizes.items())), *facts])
        return self.folder / key[:2] / f"{key[2:34]}.json"


def _read(path: Path) -> Winner | None:
    try:
        tree = json.loads(path.read_text(encoding="ascii"))
        changed = path.stat().st_mtime
        cpu, threads = tree.pop("cpu"), tree.pop("threads")
        found = read_found(tree)
    except (OSError, ValueError, KeyError, AttributeError, InputError):
        return None
    if not isinstance(cpu, str) or type(threads) is not int:
        return None
    return Winner(found, cpu, threads, path, changed)
