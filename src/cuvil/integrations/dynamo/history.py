"""What became of the graphs that TorchDynamo handed over, and of their calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class GraphRecord:
    """One graph. ``compile_id`` is Dynamo's own (frame/recompilation); ``reason`` says why it runs
    in PyTorch, empty if it was compiled.

    ``symbols`` maps each symbolic size to its range and where it is read; ``fixed`` are sizes that
    Dynamo asked to be dynamic and then fixed, with the place in the user's code; ``notes`` what
    PyTorch still does beside the artifact. ``refused`` counts calls that ran in PyTorch, by reason.
    """

    compile_id: str
    nodes: int
    signature: str = ""
    reason: str = ""
    symbols: dict[str, str] = field(default_factory=dict)
    constraints: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    calls: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        return not self.reason

    def refuse(self, why: str) -> None:
        """Count a call that ran in PyTorch."""
        self.refused[why] = self.refused.get(why, 0) + 1

    def __str__(self) -> str:
        head = f"graph {self.compile_id}, {self.nodes} nodes: "
        if self.reason:
            lines = [head + f"in PyTorch: {self.reason}"]
        else:
            lines = [head + f"compiled in {self.seconds:.1f} s, {self.calls} calls"]
            lines += [f"  {self.signature}"] if self.signature else []
        lines += [f"  {name}: {text}" for name, text in self.symbols.items()]
        lines += [f"  guard: {text}" for text in self.constraints]
        lines += [f"  fixed: {text}" for text in self.fixed]
        lines += [f"  {text}" for text in self.notes]
        lines += [f"  {n} calls in PyTorch: {why}" for why, n in self.refused.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """All graphs since the last :func:`clear_report`, and Dynamo's breaks by their reason."""

    graphs: tuple[GraphRecord, ...] = ()
    breaks: Mapping[str, int] = field(default_factory=dict)

    @property
    def compiles(self) -> int:
        """How many artifacts were compiled."""
        return sum(g.compiled for g in self.graphs)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        graphs = [{"compiled": g.compiled, **asdict(g)} for g in self.graphs]
        return {"compiles": self.compiles, "graphs": graphs, "breaks": dict(self.breaks)}

    def __str__(self) -> str:
        count = len(self.graphs)
        lines = [f"{self.compiles} of {count} graph{'s' * (count != 1)} compiled"]
        lines += [str(g) for g in self.graphs]
        lines += [f"break ({n}): {why.splitlines()[0]}" for why, n in self.breaks.items()]
        return "\n".join(lines)


class History:
    """The records of a process, as Dynamo's own caches are a process's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs: list[GraphRecord] = []

    def note(self, record: GraphRecord) -> None:
        with self._lock:
            self._graphs.append(record)

    def graphs(self) -> tuple[GraphRecord, ...]:
        with self._lock:
            return tuple(self._graphs)

    def forget(self) -> None:
        with self._lock:
            self._graphs.clear()


HISTORY = History()
