"""What versions of kernels for some sizes gain: `python bench/dynamic.py --variants`.

Four artifacts of a model take turns in one run, on one thread, whose own time is counted: for any
size, with versions for the sizes that are measured, with what measuring kept of them, and made for
that size alone. "mlp" is the feed-forward half of two BERT layers, whose time is products; the rows
of "short rows" are softmaxes along a symbolic dim, whose loops a version knows the length of.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import cuvil
from bench.bars import Bar
from cuvil.integrations.bench.measure import interleaved
from cuvil.runtime.artifact import Artifact

LIMIT = 1.05  # of the time of what is made for one size
SIZE_LIMIT = 2.0  # of the library for any size
Sizes = Mapping[str, int]


class FeedForward(torch.nn.Module):
    """Twice: up to four times the width, GELU, down again, the input added, normalised."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = torch.nn.ModuleList(torch.nn.Linear(width, 4 * width) for _ in range(2))
        self.down = torch.nn.ModuleList(torch.nn.Linear(4 * width, width) for _ in range(2))
        self.norm = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down, norm in zip(self.up, self.down, self.norm, strict=True):
            x = norm(x + down(torch.nn.functional.gelu(up(x))))
        return x


class ShortRows(torch.nn.Module):
    """A softmax along a short last dimension, and its squares turned."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        soft = x.softmax(-1)
        return (soft * soft).transpose(0, 1).contiguous()


@dataclass(frozen=True)
class Case:
    """``names`` are the symbolic dims by axis, ``sizes`` what is measured, ``asked`` the sizes with
    versions; ``versions_gain``: what is made for one size is faster than what serves any."""

    model: Callable[[], torch.nn.Module]
    shape: Callable[[Sizes], tuple[int, ...]]
    names: Mapping[int, str]
    sizes: Sequence[Sizes]
    asked: Mapping[str, list[int]]
    versions_gain: bool = False


CASES: Mapping[str, Case] = {
    "mlp": Case(
        FeedForward, lambda s: (s["batch"], 768), {0: "batch"}, ({"batch": 1}, {"batch": 32}),
        {"batch": [1, 4, 8, 16, 32]},
    ),
    "short rows": Case(
        ShortRows, lambda s: (s["rows"], s["n"]), {0: "rows", 1: "n"},
        ({"rows": 4096, "n": 4}, {"rows": 4096, "n": 16}), {"rows": [4096], "n": [4, 16]},
        versions_gain=True,
    ),
}  # fmt: skip


def artifacts(case: Case, sizes: Sizes) -> dict[str, Artifact]:
    """The four, by what they are."""
    model = case.model().eval()
    x = torch.randn(case.shape(sizes))
    dims = {"x": dict(case.names)}
    kinds: dict[str, dict[str, Any]] = {
        "any": {"dynamic_dims": dims},
        "versions": {"dynamic_dims": dims, "options": {"variants": dict(case.asked)}},
        "measured": {"dynamic_dims": dims, "options": {"variants": "auto"}},
        "one": {},
    }
    return {kind: cuvil.compile(model, (x,), threads=1, **how) for kind, how in kinds.items()}


def recording_bar(seconds: float) -> Bar:
    """What recording a call adds to it, without Python around: the least times of a thousand."""
    x, y = np.ones((3, 8), np.float32), np.empty((3, 4), np.float32)
    calls: dict[str, Callable[[], object]] = {}
    kept = []
    for kind, options in (("plain", {}), ("recorded", {"retune": True})):
        made = cuvil.compile(
            torch.nn.Linear(8, 4).eval(), (torch.from_numpy(x),), dynamic_dims={"input": {0: "n"}},
            threads=1, options=options,
        )  # fmt: skip
        made(x)
        model, room = made.library_model(), np.zeros(1 << 12, np.uint8)
        (plan,) = model.plans.values()
        places = [np.array([a.ctypes.data], np.uint64) for a in (x, y)]
        start = -(-room.ctypes.data // 64) * 64
        kept.append((made, room, places))
        given = (model.address, *(p.ctypes.data for p in places), plan.symbols, start, None)
        calls[kind] = functools.partial(_thousand, model.run, given)
    times = interleaved(calls, seconds, time.thread_time)
    return Bar("recording a call", (times["recorded"].min - times["plain"].min) * 1e6, 300.0, "ns")


def _thousand(run: Callable[..., object], given: tuple[Any, ...]) -> None:
    for _ in range(1000):
        run(*given)


def variant_bars(seconds: float) -> Iterator[Bar]:
    """The ratios of each case and size, how much larger the code is, and what recording costs."""
    yield recording_bar(seconds)
    for name, case in CASES.items():
        for sizes in case.sizes:
            made = artifacts(case, sizes)
            x = np.random.default_rng(0).standard_normal(case.shape(sizes), dtype=np.float32)
            calls = {kind: functools.partial(artifact, x) for kind, artifact in made.items()}
            times = interleaved(calls, seconds, time.thread_time)
            said = ", ".join(f"{n} {s}" for n, s in sizes.items())
            ratio = {kind: t.median / times["one"].median for kind, t in times.items()}
            print(
                f"  {name} at {said}: made for it {times['one'].median * 1e6:.1f} us; over that: "
                + ", ".join(f"{kind} {value:.3f}" for kind, value in ratio.items()),
                flush=True,
            )
            if not case.versions_gain:
                yield Bar(f"{name} at {said}: any size over one", ratio["any"], LIMIT, "")
            for kind in ("versions", "measured") if case.versions_gain else ("versions",):
                yield Bar(f"{name} at {said}: {kind} over one", ratio[kind], LIMIT, "")
            code = [len(made[k].library_model().package.library) for k in ("any", "versions")]
            yield Bar(f"{name}: code with versions over without", code[1] / code[0], SIZE_LIMIT, "")
            for artifact in made.values():
                artifact.close()
