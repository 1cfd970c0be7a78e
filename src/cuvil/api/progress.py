"""The stages of a compilation as they begin and end, with the seconds each took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Union

log = logging.getLogger("cuvil")

# Called with (stage, None) when a stage begins and (stage, seconds) when it ends.
Progress = Callable[[str, Union[float, None]], None]


class Stages:
    """Times the stages of one compilation; ``seconds`` by name, a stage entered twice summed."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what runs inside as the stage ``name``."""
        if self.progress is not None:
            self.progress(name, None)
        start = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
            log.debug("%s took %.3f s", name, taken)
            if self.progress is not None:
                self.progress(name, taken)
