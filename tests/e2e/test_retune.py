"""Retuning a real artifact: what is recorded, that every way is right, that no call waits."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.codegen import versions
from cuvil.errors import ArtifactError, InputError, TargetError, VerificationError
from cuvil.target.registry import find_target, target_names
from cuvil.tune.retuner import WINDOW
from cuvil.tune.store import WinnerStore
from cuvil.tune.watch import Watcher

RETUNE: dict[str, Any] = {"options": {"retune": True}, "threads": 1}


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide = torch.nn.Linear(96, 640)
        self.narrow = torch.nn.Linear(640, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.narrow(torch.nn.functional.gelu(self.wide(x)))) + x


MODEL = Layer().eval()
SIZES = {"x": {0: cuvil.Dim("rows", min=1, max=512)}}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    """Compiled, its thread stopped; what wins is kept in a folder of its own."""
    artifact = cuvil.compile(MODEL, (torch.randn(3, 96),), dynamic_dims=SIZES, **RETUNE)
    artifact.retuner.stop()
    artifact.retuner.retuner.store = WinnerStore(tmp_path / "kept")
    with artifact:
        yield artifact


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 96, generator=torch.Generator().manual_seed(count))


def test_calls_are_recorded_by_range(made: Any) -> None:
    table = made.retuner.retuner.table
    ranges = made.retuner.retuner.plan.ranges
    assert [dict(when) for when in ranges] == [
        {"rows": (1, 2)}, {"rows": (2, 16)}, {"rows": (16, 64)}, {"rows": (64, 513)}, {}
    ]  # fmt: skip
    for span, sizes in enumerate(((1,), (2, 15), (16, 63), (64, 512))):
        for count in sizes:
            made(rows(count))
        assert table.taken(span) == len(sizes)
        found = table.latest(span, 10)
        assert [call.sizes for call in found] == [{"rows": count} for count in sizes]
        assert all(0 < call.seconds < 10 for call in found)
    assert table.taken(4) == 0
    for _ in range(300):  # more than the library keeps
        made(rows(1))
    assert table.taken(0) == 301 and len(table.latest(0, 1000)) == 128


def test_every_way_is_right_in_every_range(made: Any) -> None:
    """Against f64, on both sides of each end."""
    inner = made.retuner.retuner
    wide = Layer().double().eval()
    wide.load_state_dict({k: v.double() for k, v in MODEL.state_dict().items()})
    counts = (1, 2, 15, 16, 63, 64, 200)
    wanted = {n: wide(rows(n).double()).detach().numpy() for n in counts}
    assert len(inner.plan.calls) == 2
    for way in range(max(len(call.ways) for call in inner.plan.calls)):
        for span, (number, call) in itertools.product(range(5), enumerate(inner.plan.calls)):
            inner.table.choose(span, number, min(way, len(call.ways) - 1))
            assert inner.table.way(span, number) == min(way, len(call.ways) - 1)
        for count in counts:
            np.testing.assert_allclose(made(rows(count).numpy()), wanted[count], atol=2e-5)


def test_measuring_leaves_results_alone_and_keeps_to_its_time(made: Any) -> None:
    inner = made.retuner.retuner
    before = made(rows(20))
    bench = inner.table.bench({"rows": 20})
    spent = []
    for _ in range(50):  # whatever else runs here may take the time of one
        start = time.perf_counter()
        times = bench.measure(0, [0, 1, 2], 0.005, 10_000)
        spent.append((time.perf_counter() - start, len(times)))
        assert times.shape == (len(times), 3) and (times > 0).all()
    assert min(spent)[0] < 0.006 and max(rounds for _, rounds in spent) > 5
    assert bench.measure(0, [0], 0.0, 10).shape[0] <= 1
    assert bench.measure(99, [0], 0.005, 10).shape == (0, 1)  # there is no such call
    inner.tune(2, {"rows": 20})
    torch.testing.assert_close(made(rows(20)), before, rtol=1e-5, atol=1e-6)
    assert inner.table.bench({"rows": 513}) is None and inner.table.bench({"rows": 0}) is None


class Slow:
    """A table whose kernels take a second to measure."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.began = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    def bench(self, sizes: Mapping[str, int]) -> Any:
        return self

    def measure(self, call: int, ways: Sequence[int], seconds: float, rounds: int) -> Any:
        self.began.set()
        time.sleep(1.0)
        return np.array([[1.0, *[0.1] * (len(ways) - 1)]] * 10)


def test_no_call_waits_for_measuring(made: Any) -> None:
    inner = made.retuner.retuner
    slow = inner.table = Slow(inner.table)
    inner._ranges[1].baseline = 1e-30  # whatever a call takes is slow
    for _ in range(WINDOW):
        made(rows(8))
    watcher = Watcher(inner, interval=0.0)
    watcher.start()
    try:
        assert slow.began.wait(10)
        taken, x = 0, rows(8).numpy()
        wanted, end = made(x), time.perf_counter() + 0.5
        while time.perf_counter() < end:
            np.testing.assert_array_equal(made(x), wanted)
            taken += 1
        assert taken > 100  # half a second of calls, all while the first kernel is measured
        deadline = time.monotonic() + 10
        while not watcher.changes and time.monotonic() < deadline:
            made(x)
        assert watcher.changes and inner.table.way(1, 0) != 0
        np.testing.assert_allclose(made(x), wanted, rtol=1e-5, atol=1e-6)
    finally:
        watcher.stop()


def test_many_threads_call_while_ways_change(made: Any) -> None:
    table, stop, wrong = made.retuner.retuner.table, threading.Event(), []
    wanted = {n: MODEL(rows(n)).detach().numpy() for n in (1, 8, 20)}

    def call(count: int) -> None:
        x = rows(count).numpy()
        while not stop.is_set():
            if not np.allclose(made(x), wanted[count], atol=2e-5):
                wrong.append(count)

    threads = [threading.Thread(target=call, args=(n,)) for n in wanted]
    for thread in threads:
        thread.start()
    for number in range(300):
        table.choose(number % 4, number % 2, number % 4)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_next_process_takes_what_was_chosen(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = made.retuner.retuner
    inner.table = Slow(inner.table)
    inner.tune(1, {"rows": 8})
    made.save(tmp_path / "layer.cuvilpkg")
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / "kept"))
    with cuvil.load(tmp_path / "layer.cuvilpkg", threads=1) as again:
        ways = [again.retuner.retuner.table.way(1, call) for call in range(2)]
        assert ways == [inner.table.way(1, call) for call in range(2)] != [0, 0]
        assert again.retuner.changes == []


def test_a_closed_artifact_ends_its_thread(made: Any, tmp_path: Path) -> None:
    made.save(tmp_path / "layer.cuvilpkg")
    again = cuvil.load(tmp_path / "layer.cuvilpkg")
    watcher = again.retuner
    watcher.stop()
    ended = Watcher(watcher.retuner, interval=0.01)
    ended.start()
    model = weakref.ref(again.library_model())
    again.close()
    ended._thread.join(10)
    assert not ended._thread.is_alive()
    with pytest.raises(ArtifactError, match="closed"):
        watcher.retuner.table.taken(0)
    gc.collect()
    assert model() is None


def test_a_way_that_is_wrong_is_found_when_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    real = versions._ways

    def broken(*arguments: Any) -> Any:
        found = real(*arguments)
        for version in found:
            version.kernel.launch = version.kernel.launch.replace("args.m = ", "args.m = 0 * ")
        return found

    monkeypatch.setattr(versions, "_ways", broken)
    with pytest.raises(VerificationError):
        cuvil.compile(MODEL, (rows(3),), dynamic_dims=SIZES, cache=False, **RETUNE)


def test_versions_and_retuning_go_together() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.softmax(-1) * 2

    options = {"variants": {"n": [4, [16, None]]}, "retune": 2}
    with cuvil.compile(
        Rows(), (torch.randn(3, 7),), dynamic_dims={"x": {0: "rows", 1: "n"}}, threads=1,
        options=options,
    ) as made:  # fmt: skip
        inner = made.retuner.retuner
        made.retuner.stop()
        assert inner.plan.seconds == 0.002
        assert [dict(when) for when in inner.plan.ranges] == [{"n": (4, 5)}, {"n": (16, None)}, {}]
        assert inner.table.way(0, 0) == 1 and inner.table.way(1, 0) == 0  # n = 4 has a version
        for n in (3, 4, 5, 15, 16, 17):
            x = torch.randn(2, n)
            torch.testing.assert_close(made(x), x.softmax(-1) * 2)
        assert [inner.table.taken(span) for span in range(3)] == [1, 2, 3]


def test_a_model_of_one_size_and_one_that_is_not_retuned(tmp_path: Path) -> None:
    with cuvil.compile(MODEL, (rows(3),), **RETUNE) as made:
        made.retuner.stop()
        made(rows(3))
        assert made.retuner.retuner.table.taken(0) == 1
    with cuvil.compile(MODEL, (rows(3),), threads=1) as plain:
        assert plain.retuner is None
        assert b"cuvil_retune" not in plain.library_model().package.library


@pytest.mark.parametrize("asked", [0, -1, "yes", float("nan"), float("inf"), [1]])
def test_wrong_use(asked: Any) -> None:
    with pytest.raises(InputError, match="the option retune is") as caught:
        cuvil.compile(MODEL, (rows(3),), options={"retune": asked})
    assert "milliseconds" in str(caught.value)


def test_a_target_without_a_process_is_refused() -> None:
    targets = [find_target(name) for name in target_names()]
    other = [t.name for t in targets if t.kind != "library" or t.variants]
    for name in other:
        with pytest.raises(TargetError, match="can't be retuned"):
            cuvil.compile(MODEL, (rows(3),), target=name, verify=False, options={"retune": True})
