"""What the retuner decides, with a table and times that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ArtifactError
from cuvil.passes.variants import Variant
from cuvil.runtime.ways import Taken
from cuvil.sym.expr import symbol
from cuvil.tune.retuner import SECONDS, WINDOW, KernelCall, RetunePlan, Retuner, way_text
from cuvil.tune.store import Place, WinnerStore

PLACE = Place("A CPU", "x86_64 v4", 1, "1")
WAYS = (
    Variant({}), Variant({"n": (1, 2)}), Variant({}, {"row_limit": 7}),
    Variant({}, {"serial": True}),
)  # fmt: skip
SMALL, LARGE, REST = 0, 1, 2
PLAN = RetunePlan(
    ({"n": (1, 2)}, {"n": (16, None)}, {}),
    (
        KernelCall("first", "a", WAYS, ("n",)),
        KernelCall("second", "b", (Variant({}),), ("n",)),
        KernelCall("third", "a", WAYS, ("n",)),
    ),
    symbol("n"),
)


class Made:
    """A table whose calls are told to it, and kernels that take what ``cost`` says of a way."""

    def __init__(self, cost: Mapping[int, float], threads: int = 1) -> None:
        self.cost = cost
        self.threads = threads
        self.calls: dict[int, list[Taken]] = {0: [], 1: [], 2: []}
        self.chosen: dict[tuple[int, int], int] = {}
        self.measured: list[tuple[int, tuple[int, ...], Mapping[str, int]]] = []
        self.reads = 0
        self.sizes: Mapping[str, int] = {}
        self.refused: set[int] = set()

    def call(self, span: int, n: int, seconds: float, count: int = WINDOW) -> None:
        self.calls[span] += [Taken(seconds, {"n": n})] * count

    def taken(self, span: int) -> int:
        return len(self.calls[span])

    def latest(self, span: int, count: int) -> list[Taken]:
        self.reads += 1
        return self.calls[span][-count:]

    def way(self, span: int, call: int) -> int:
        return self.chosen.get((span, call), 0)

    def choose(self, span: int, call: int, way: int) -> None:
        self.chosen[span, call] = way

    def bench(self, sizes: Mapping[str, int]) -> Made | None:
        self.sizes = sizes
        return None if sizes["n"] in self.refused else self

    def measure(self, call: int, ways: Sequence[int], seconds: float, rounds: int) -> Any:
        """Each round takes the sum of its ways' times, as long as it fits."""
        assert seconds == SECONDS
        self.measured.append((call, tuple(ways), self.sizes))
        row = [self.cost[way] for way in ways]
        return np.array([row] * min(rounds, int(seconds / sum(row)))).reshape(-1, len(row))


def retuner(table: Made, store: WinnerStore | None = None) -> Retuner:
    return Retuner(PLAN, table, PLACE, store)


def test_nothing_is_looked_at_before_a_window_is_full() -> None:
    table = Made({})
    table.call(LARGE, 16, 1.0, WINDOW - 1)
    assert retuner(table).step() == [] and table.reads == 0


def test_slow_calls_lead_to_measuring_and_the_fastest_way_runs() -> None:
    table = Made({0: 1e-4, 2: 0.5e-4, 3: 1e-4})
    made = retuner(table)
    table.call(LARGE, 16, 1e-3)
    assert made.step() == [] and table.measured == []  # that is the baseline
    table.call(LARGE, 16, 1.4e-3)
    assert made.step() == [] and table.measured == []  # not slow enough
    table.call(LARGE, 16, 1.6e-3)
    (change,) = made.step()
    # One thread: "serial" would change nothing; n = 1 is another range; equal kernels count once.
    assert table.measured == [(0, (0, 2), {"n": 16})]
    assert table.chosen == {(LARGE, 0): 2, (LARGE, 2): 2}
    assert (change.kernel, change.before, change.after) == ("first", "default", "row_limit=7")
    assert change.seconds == {"default": 1e-4, "row_limit=7": 0.5e-4}
    assert made.changes == [change]


def test_five_slow_calls_of_a_hundred_are_enough_and_fewer_are_not() -> None:
    for slow, looked in ((3, 0), (4, 1)):
        table = Made({0: 1e-4, 2: 1e-4})
        made = retuner(table)
        table.call(LARGE, 16, 1e-3)
        made.step()
        table.call(LARGE, 16, 1e-3, WINDOW - slow)
        table.call(LARGE, 16, 2e-3, slow)
        made.step()
        assert len(table.measured) == looked


def test_larger_sizes_are_no_slower_calls() -> None:
    table = Made({})
    made = retuner(table)
    table.call(LARGE, 16, 1e-3)
    made.step()
    table.call(LARGE, 64, 4e-3)  # as long for each unit of work
    made.step()
    assert table.measured == []


def test_ranges_are_apart_and_have_their_own_versions() -> None:
    table = Made({0: 1e-4, 1: 0.2e-4, 2: 1e-4, 3: 0.1e-4}, threads=2)
    made = retuner(table)
    for seconds in (1e-3, 2e-3):
        table.call(SMALL, 1, seconds)
        table.call(LARGE, 16, 1e-3)
        made.step()
    assert table.measured == [(0, (0, 1, 2, 3), {"n": 1})]
    assert set(table.chosen) == {(SMALL, 0), (SMALL, 2)} and set(table.chosen.values()) == {3}


def test_after_measuring_a_new_baseline_is_learned() -> None:
    table = Made({0: 1e-4, 2: 1e-4})
    made = retuner(table)
    for _ in range(4):  # stays slow: measured once
        table.call(LARGE, 16, 1e-3 if not made._ranges[LARGE].seen else 2e-3)
        made.step()
    assert len(table.measured) == 1 and table.chosen == {}


def test_a_kernel_that_does_not_fit_is_left_as_it_is() -> None:
    table = Made({0: SECONDS, 2: 1e-9})  # less than a round fits
    assert retuner(table).tune(LARGE, {"n": 16}) == [] and table.chosen == {}
    table = Made({0: SECONDS / 5, 2: SECONDS / 6})  # too few rounds to tell
    assert retuner(table).tune(LARGE, {"n": 16}) == [] and table.chosen == {}


def test_a_small_gain_is_no_reason() -> None:
    table = Made({0: 1e-4, 2: 0.96e-4})
    assert retuner(table).tune(LARGE, {"n": 16}) == [] and table.chosen == {}


def test_sizes_that_the_model_refuses_are_not_measured() -> None:
    table = Made({0: 1e-4, 2: 1e-5})
    table.refused.add(17)  # two calls that ended at once may leave such sizes
    assert retuner(table).tune(LARGE, {"n": 17}) == [] and table.measured == []


def test_what_won_is_kept_and_taken_by_the_next_process(tmp_path: Path) -> None:
    store = WinnerStore(tmp_path)
    retuner(Made({0: 1e-4, 2: 1e-5}), store).tune(LARGE, {"n": 16})
    table = Made({})
    assert retuner(table, store).restore() == 2
    assert table.chosen == {(LARGE, 0): 2, (LARGE, 2): 2} and table.measured == []
    other = Made({})
    made = Retuner(PLAN, other, Place("Another CPU", "x86_64 v4", 1, "1"), store)
    assert made.restore() == 0 and other.chosen == {}
    (winner,) = store.ls()
    assert winner.found.choice == {"row_limit": 7}
    assert winner.found.sizes == {"n from": 16}


def test_a_version_without_a_knob_is_found_again(tmp_path: Path) -> None:
    store = WinnerStore(tmp_path)
    retuner(Made({0: 1e-4, 1: 1e-5, 2: 1e-4}), store).tune(SMALL, {"n": 1})
    table = Made({})
    assert retuner(table, store).restore() == 2 and table.chosen[SMALL, 0] == 1
    assert way_text(WAYS[1]) == "default where n = 1"


WRONG: list[Any] = [
    None, {}, {"ranges": [], "calls": [{}], "cost": "n", "seconds": 1},
    {"ranges": [{"n": [1]}], "calls": [], "cost": "n", "seconds": 1},
    {"ranges": [], "calls": [], "cost": None, "seconds": 1},
    {"ranges": [], "calls": [], "cost": "n +", "seconds": 1},
    {"ranges": [], "cost": "n", "seconds": 1,
     "calls": [{"kernel": "k", "key": "a", "symbols": [],
                "ways": [{"when": {}, "tune": {"x": 1}}]}]},
]  # fmt: skip


@pytest.mark.parametrize("tree", WRONG, ids=repr)
def test_a_damaged_table_is_refused(tree: object) -> None:
    with pytest.raises(ArtifactError, match="table of ways can't be read"):
        RetunePlan.read(tree)
