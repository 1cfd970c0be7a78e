"""What a long job is doing, on stderr: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_DELAY = 1.0  # seconds: shorter work shows nothing
_WORTH_A_LINE = 0.1  # seconds: shorter stages get no line


class StageProgress:
    """Called as the stages of a compilation begin and end; ``total`` is how many to expect."""

    def __init__(self, title: str, total: int = 8) -> None:
        self.title = title
        self.total = total
        self.console = Console(stderr=True)
        self.started = time.perf_counter()
        self._lock = threading.Lock()
        self._done = 0
        self._label = title
        self._bar: Progress | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> StageProgress:
        if self.console.is_terminal:
            self._timer = threading.Timer(_DELAY, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def __call__(self, stage: str, seconds: float | None) -> None:
        with self._lock:
            if seconds is None:
                self._label = f"{self.title}: {stage}"
            else:
                self._done += 1
            if self._bar is not None:
                done = min(self._done, self.total)
                self._bar.update(self._bar.task_ids[0], completed=done, description=self._label)
        if seconds is not None and seconds > _WORTH_A_LINE:
            self._line(f"{self.title}: {stage} {seconds:.1f} s")

    def note(self, text: str) -> None:
        """Say what is being done next, where it isn't a stage with an end."""
        self(text, None)
        self._line(f"{self.title}: {text}")

    def _line(self, text: str) -> None:
        late = time.perf_counter() - self.started > _DELAY
        if late and not self.console.is_terminal:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _show(self) -> None:
        with self._lock:
            columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn()
            bar = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
            bar.add_task(self._label, total=self.total, completed=self._done)
            bar.start()
            self._bar = bar
