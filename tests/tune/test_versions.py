"""Which versions a compilation keeps, with kernels and a clock that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.passes.variants import Variant, When
from cuvil.sym.expr import symbol
from cuvil.tune.retuner import KernelCall, RetunePlan
from cuvil.tune.versions import measure_versions, typical_sizes

ONE: When = {"n": (1, 2)}
SOME: When = {"n": (2, 16)}
MANY: When = {"n": (16, None)}
WAYS = (Variant({}), Variant(ONE), Variant({}, {"row_limit": 7}))
KERNEL = KernelCall("kernel", "k.1", WAYS, ("n",))
SIZES = [{"n": 1, "m": 3}, {"n": 6, "m": 3}, {"n": 32, "m": 3}, None]


class Table:
    """A kernel call takes what ``cost`` says of its number, its way and n; each run moves the
    clock."""

    def __init__(self, cost: Any) -> None:
        self.cost = cost
        self.threads = 1
        self.now = 0.0
        self.n = 0
        self.measured: list[tuple[int, int, tuple[int, ...]]] = []

    def clock(self) -> float:
        return self.now

    def bench(self, sizes: Mapping[str, int]) -> Table:
        self.n = sizes["n"]
        return self

    def measure(self, call: int, ways: Sequence[int], seconds: float, rounds: int) -> Any:
        self.measured.append((call, self.n, tuple(ways)))
        row = [self.cost(call, way, self.n) for way in ways]
        count = min(rounds, int(seconds / sum(row)))
        self.now += count * sum(row)
        return np.array([row] * count).reshape(-1, len(row))

    def taken(self, span: int) -> int:
        raise NotImplementedError

    latest = way = choose = taken  # type: ignore[assignment]


def plan(*calls: KernelCall) -> RetunePlan:
    return RetunePlan((ONE, SOME, MANY, {}), calls, symbol("n"))


def test_what_gains_more_than_the_bar_is_kept_range_by_range() -> None:
    faster = {(1, 1): 0.9, (2, 6): 0.94, (2, 32): 0.96}
    table = Table(lambda call, way, n: 1e-3 * faster.get((way, n), 1.0))
    found = measure_versions(plan(KERNEL), table, SIZES, 10.0, table.clock)
    assert [(m.when, m.version) for m in found] == [
        (ONE, Variant(ONE)), (SOME, Variant(SOME, {"row_limit": 7})), (MANY, None)
    ]  # fmt: skip
    # The version for n = 1 is no way of another range.
    assert [ways for _, _, ways in table.measured] == [(0, 1, 2), (0, 2), (0, 2)]
    assert found[0].seconds == {"default": 1e-3, "default where n = 1": 0.9e-3, "row_limit=7": 1e-3}
    assert found[0].as_dict()["chosen"] == {"when": {"n": (1, 2)}}


def test_equal_kernels_and_ranges_that_a_kernel_does_not_see_are_measured_once() -> None:
    other = KernelCall("other", "o.1", (Variant({}), Variant({}, {"row_limit": 7})), ("m",))
    ranges: tuple[When, ...] = tuple({**n, "m": (3, 4)} for n in (ONE, SOME))
    table = Table(lambda call, way, n: 1e-3)
    both = RetunePlan((*ranges, {}), (KERNEL, other, KERNEL), symbol("n"))
    measure_versions(both, table, [SIZES[0], SIZES[1], None], 10.0, table.clock)
    assert [(call, n) for call, n, _ in table.measured] == [(0, 1), (1, 1), (0, 6)]


def test_a_kernel_without_symbols_has_no_ranges() -> None:
    table = Table(lambda call, way, n: 1e-3)
    fixed = KernelCall("fixed", "f.1", WAYS, ())
    assert measure_versions(plan(fixed), table, SIZES, 10.0, table.clock) == []
    assert table.measured == []


def test_the_time_is_kept_and_what_did_not_fit_is_left() -> None:
    table = Table(lambda call, way, n: 1e-3)
    many = [KernelCall(f"k{i}", f"k{i}.1", WAYS, ("n",)) for i in range(50)]
    found = measure_versions(plan(*many), table, SIZES, 1.0, table.clock)
    assert 0.9 < table.now <= 1.0 and 5 < len(found) < 20
    slow = Table(lambda call, way, n: 1.0)  # too few rounds to tell
    assert measure_versions(plan(KERNEL), slow, SIZES, 10.0, slow.clock) == []


def test_typical_sizes_are_in_their_ranges_and_allowed() -> None:
    signature = Signature(
        (TensorSpec("x", "f32", ("n", "m")),), (TensorSpec("y", "f32", ("n", "m")),),
        (SymbolSpec("n", 1, 4096), SymbolSpec("m", 1, 64)), (ConstraintSpec("n % 2 == 0", "test"),),
    )  # fmt: skip
    ranges: tuple[When, ...] = (ONE, SOME, {"n": (16, 64)}, {"n": (64, None)}, {})
    made = RetunePlan(ranges, (), symbol("n"))
    assert typical_sizes(made, signature, {"m": 7}) == [
        None,  # n is even
        {"n": 6, "m": 7}, {"n": 32, "m": 7}, {"n": 128, "m": 7},
        None,  # nothing is left for the last one
    ]  # fmt: skip
