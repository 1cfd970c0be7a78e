"""The stages of a compilation as they begin and end, and what happens inside them, timed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Union

from cuvil.runtime.chrome_trace import Slice

log = logging.getLogger("cuvil")

# Called with (stage, None) when a stage begins and (stage, seconds) when it ends.
Progress = Callable[[str, Union[float, None]], None]


class Stages:
    """Times the stages of one compilation; ``seconds`` by name, a stage entered twice summed.
    ``slices`` has each, and the passes and units inside, on a track for each thread."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.slices: list[Slice] = []
        self._tracks = {threading.get_ident(): 0}
        self._lock = threading.Lock()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Time what runs inside as the stage ``name``."""
        return self._timed(name, "stage", self._count)

    def part(self, name: str) -> AbstractContextManager[None]:
        """Tell of what runs inside a stage; its time is the stage's."""
        return self._timed(name, "pass", lambda name, taken: None)

    def _count(self, name: str, taken: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        log.debug("%s took %.3f s", name, taken)

    @contextmanager
    def _timed(
        self, name: str, category: str, count: Callable[[str, float], None]
    ) -> Iterator[None]:
        if self.progress is not None:
            self.progress(name, None)
        start = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self._add(name, category, start, end, {})
            count(name, end - start)
            if self.progress is not None:
                self.progress(name, end - start)

    def step(self, name: str, start: float, end: float, facts: Mapping[str, Any]) -> None:
        """Note a pass of the pipeline."""
        self._add(name, "pass", start, end, facts)

    def unit(self, name: str, start: float, end: float, facts: Mapping[str, Any]) -> None:
        """Note a unit that was compiled, or the linking; called by whichever thread did it."""
        self._add(name, "unit", start, end, facts)

    def _add(
        self, name: str, category: str, start: float, end: float, facts: Mapping[str, Any]
    ) -> None:
        with self._lock:
            track = self._tracks.setdefault(threading.get_ident(), len(self._tracks))
            self.slices.append(Slice(name, category, start, end, track, dict(facts)))
