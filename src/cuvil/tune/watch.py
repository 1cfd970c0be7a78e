"""A thread that retunes an artifact beside its calls."""

from __future__ import annotations

import logging
import threading

from cuvil.errors import ArtifactError
from cuvil.options import Options
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.cpu import cpu_name
from cuvil.runtime.ways import Ways
from cuvil.tune.retuner import Change, RetunePlan, Retuner
from cuvil.tune.store import Place, WinnerStore

log = logging.getLogger("cuvil")

RETUNE = "retune"  # of a manifest's extra
INTERVAL = 1.0
"""Seconds between two looks."""


class Watcher:
    """Looks at an artifact's calls from time to time until it is closed, or :meth:`stop`.

    The artifact is not kept alive, and its calls never wait for this: the library records them, and
    what is chosen is a byte that the next call reads.
    """

    def __init__(self, retuner: Retuner, interval: float = INTERVAL) -> None:
        self.retuner = retuner
        self.interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cuvil-retune", daemon=True)

    def start(self) -> None:
        """Begin; what an earlier process chose is taken at once."""
        self.retuner.restore()
        if self.retuner.plan.calls:
            self._thread.start()

    def stop(self) -> None:
        """End, and wait until it has."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def changes(self) -> list[Change]:
        """What was chosen in this process."""
        return list(self.retuner.changes)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self.interval):
                for change in self.retuner.step():
                    log.info(
                        "%s runs by %s instead of %s", change.kernel, change.after, change.before
                    )
        except (ArtifactError, MemoryError) as error:
            log.debug("retuning ends: %s", error)


def watch(artifact: Artifact) -> None:
    """Retune an artifact that was compiled for it, from now on; nothing for any other."""
    tree = artifact.manifest.extra.get(RETUNE)
    if tree is None:
        return
    manifest = artifact.manifest
    place = Place(
        cpu_name(), f"{manifest.target} {manifest.cpu}", artifact.threads, manifest.library_sha256
    )
    store = WinnerStore(Options.from_environment().cache_dir)
    watcher = Watcher(Retuner(RetunePlan.read(tree), Ways(artifact), place, store))
    watcher.start()
    artifact.retuner = watcher
