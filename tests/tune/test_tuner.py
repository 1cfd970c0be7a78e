"""What tuning decides, with a clock and a measurer that are made up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.types import F32, TensorType
from cuvil.passes.knobs import TUNE, contraction_of
from cuvil.passes.pipeline import lower
from cuvil.passes.tuning import fused_ops
from cuvil.sym.expr import Dim, symbol
from cuvil.target.registry import find_target
from cuvil.tune.kernels import calls_of, tunable_kernels
from cuvil.tune.store import Place, WinnerStore
from cuvil.tune.tuner import FEWEST_RUNS, Tuner, decide

Array = np.ndarray[Any, Any]
V4 = find_target("x86_64_v4")
PLACE = Place("A CPU", "x86_64 v4", 1, "1")


def test_the_fastest_is_taken_if_it_is_faster_by_more_than_the_bar() -> None:
    assert decide(np.array([[1.0, 0.96, 0.9]] * 5)) == 2
    assert decide(np.array([[1.0, 0.975, 1.2]] * 5)) == 0
    assert decide(np.array([[1.0]] * 5)) == 0


def test_a_single_fast_run_decides_nothing() -> None:
    times = np.array([[1.0, 1.0]] * 9)
    times[4, 1] = 0.5
    assert decide(times) == 0
    slow_start = np.array([[1.5, 1.0]] * 9)  # mostly faster, but not at its best
    slow_start[3, 0] = 0.99
    assert decide(slow_start) == 0


def module_of(*columns: int, m: Dim = 64) -> Module:
    """Products with that many columns, fused; the largest takes the most time."""
    e = Emitter({"m": (1, 64)})
    outs = []
    for i, n in enumerate(columns):
        x = e.input(f"x{i}", TensorType((m, 1024), F32))
        outs.append(e.op("matmul", x, e.weight(np.zeros((1024, n), np.float32))))
    return lower(e.finish(outs, [f"y{i}" for i in range(len(columns))]), "fused")


class Bench:
    """Each build takes a second of its clock, each run as long as it is told to. What a way takes
    is asked of ``cost``, by the kernel's columns and its choice."""

    def __init__(self, cost: Callable[[int, dict[str, Any]], float]) -> None:
        self.cost = cost
        self.now = 0.0
        self.built: list[list[tuple[int, dict[str, Any]]]] = []
        self.given: list[float] = []
        self.steps: list[str] = []

    def clock(self) -> float:
        return self.now

    def measure(self, module: Module) -> Callable[[float], Array]:
        self.now += 1.0
        calls = []
        for op in fused_ops(module):
            main = contraction_of(op)
            assert main is not None
            calls.append((int(str(main.type.shape[-1])), dict(op.attrs.get(TUNE, {}))))
        self.built.append(calls)

        def run(seconds: float) -> Array:
            self.given.append(seconds)
            self.now += seconds
            return np.array([[self.cost(*call) for call in calls]] * FEWEST_RUNS)

        return run

    @contextmanager
    def step(self, text: str) -> Any:
        self.steps.append(text)
        yield

    def tuner(self, store: WinnerStore | None = None, place: Place = PLACE) -> Tuner:
        return Tuner(V4, place, self.measure, store, self.clock, self.step)


def rows_are_better(columns: int, choice: dict[str, Any]) -> float:
    return 0.5 if "row_limit" in choice and columns > 200 else 1.0


def test_each_kernel_gets_what_is_best_for_it() -> None:
    bench = Bench(rows_are_better)
    table = bench.tuner().run(module_of(100, 300), {}, 20.0)
    large, small = table.kernels
    assert large.choice == {"row_limit": 14} and small.choice == {}
    assert large.seconds["default"] == 1.0 and large.seconds["row_limit=14"] == 0.5
    assert table.choices == {large.kernel: {"row_limit": 14}}
    assert (table.cpu, table.threads) == ("A CPU", 1)
    assert large.name == "matmul" and large.count == 1


def test_equal_kernels_are_measured_once() -> None:
    bench = Bench(rows_are_better)
    (found,) = bench.tuner().run(module_of(300, 300), {}, 20.0).kernels
    assert found.count == 2 and len(bench.built) == 1


def test_every_way_is_called_and_the_computed_one_twice() -> None:
    kernels = tunable_kernels(module_of(100, 300), {}, V4, parallel=False)
    calls = calls_of(kernels)
    for number, kernel in enumerate(kernels):
        ways = [way for owner, way in calls if owner == number]
        assert sorted(ways) == sorted([0, *range(len(kernel.ways))])
        middle = [i for i, way in enumerate(ways) if way == 0]
        assert middle[1] >= len(ways) // 2


def test_the_largest_come_first_and_the_time_is_kept() -> None:
    bench = Bench(rows_are_better)
    table = bench.tuner().run(module_of(100, 300, 3000), {}, 1.2)
    assert {columns for columns, _ in bench.built[0]} == {3000}  # for more there is no time
    assert len(table.kernels) < 3 and bench.now < 4.0
    assert bench.steps[0].startswith("tune matmul, ")


def test_the_last_batch_gets_the_time_that_is_left() -> None:
    bench = Bench(rows_are_better)
    bench.tuner().run(module_of(100, 300), {}, 20.0)
    assert bench.given == [19.0] and len(bench.built) == 1


def test_winners_are_kept_for_the_next_time_at_the_same_place(tmp_path: Path) -> None:
    store = WinnerStore(tmp_path)
    first, second = Bench(rows_are_better), Bench(rows_are_better)
    table = first.tuner(store).run(module_of(300), {}, 20.0)
    assert second.tuner(store).run(module_of(300), {}, 20.0) == table and not second.built
    (kept,) = store.ls()
    assert kept.found == table.kernels[0] and kept.cpu == "A CPU" and kept.threads == 1
    for other in (Place("B", "x86_64 v4", 1, "1"), Place("A CPU", "x86_64 v4", 1, "2")):
        elsewhere = Bench(rows_are_better)
        elsewhere.tuner(store, other).run(module_of(300), {}, 20.0)
        assert len(elsewhere.built) == 1
    kept.path.write_text("{")
    assert len(store.ls()) == 2  # the others
    again = Bench(rows_are_better)
    again.tuner(store).run(module_of(300), {}, 20.0)
    assert again.built


def test_symbols_are_measured_at_their_sizes_and_late_ones_are_left_out() -> None:
    bench = Bench(rows_are_better)
    (found,) = bench.tuner().run(module_of(300, m=symbol("m")), {"m": 17}, 20.0).kernels
    assert found.sizes == {"m": 17}
    assert bench.tuner().run(module_of(300, m=symbol("m")), {}, 20.0).kernels == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_tried_where_there_are_several(threads: int) -> None:
    bench = Bench(lambda columns, choice: 0.5 if choice.get("serial") else 1.0)
    place = Place("A CPU", "x86_64 v4", threads, "1")
    (found,) = bench.tuner(place=place).run(module_of(300), {}, 20.0).kernels
    assert found.choice == ({"serial": True} if threads > 1 else {})


def test_a_build_that_takes_no_time_is_no_fault() -> None:
    bench = Bench(rows_are_better)
    tuner = Tuner(V4, PLACE, bench.measure, None, lambda: 0.0)
    table = tuner.run(module_of(*range(300, 900, 100)), {}, 1.0)
    assert len(table.kernels) == 6
