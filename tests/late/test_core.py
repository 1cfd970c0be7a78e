"""Late symbols through the house: text, verifier, passes, memory, calls, errors."""

from __future__ import annotations

import contextlib
import gc
import threading

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.late import binders
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.ir.types import F32, I64, TensorType
from cuvil.passes.memory import plan_memory
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import remove_dead
from cuvil.rewrite.rewriter import Rewriter
from cuvil.runtime.artifact import Artifact
from cuvil.sym.expr import add, symbol
from tests.codegen.compile_graph import build


def picked() -> Module:
    """Rows of x[n, 3] whose first element is above 0, doubled; and how many there are."""
    e = Emitter({"n": (0, 100_000)})
    x = e.input("x", TensorType((symbol("n"), 3), F32))
    first = e.reshape(e.slice(x, 1, 0, 1), (symbol("n"),))
    at = e.positions(e.with_scalar("gt", first, 0), "kept", "the number of rows above 0")
    rows = e.with_scalar("mul", e.op("gather", x, at, axis=0), 2)
    return e.finish([rows, e.dims([at.type.shape[0]])], ["rows", "count"])


def bound(values: int = 2) -> Module:
    """x[6] in a shape that the input ``shape`` tells."""
    e = Emitter({})
    x = e.input("x", TensorType((6,), F32))
    shape = e.input("shape", TensorType((values,), I64))
    dims = e.bind(shape, ["rows", "columns"], "the target shape")
    return e.finish([e.with_scalar("add", e.reshape(x, dims), 1)], ["y"])


@pytest.fixture(scope="module")
def rows() -> Artifact:
    return build(picked())


@pytest.fixture(scope="module")
def shaped() -> Artifact:
    return build(bound())


def expected(x: np.ndarray) -> np.ndarray:
    return x[x[:, 0] > 0] * 2


def data(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def test_text_says_what_binds_what() -> None:
    text = print_module(picked())
    assert "binds = #cuvil.dims<[kept]>" in text
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("stage", ["captured", "canonical", "fused"])
def test_every_stage_is_well_formed_and_means_the_same(stage: str) -> None:
    module = picked()
    lower(module, stage, PassOptions())
    check_graph(module)
    x = data(50)
    got, count = run_module(module, {"x": x})
    np.testing.assert_array_equal(got, expected(x))
    assert count == [len(got)]


def test_a_late_symbol_may_not_be_used_before_it_is_bound() -> None:
    e = Emitter({})
    shape = e.input("shape", TensorType((1,), I64))
    (size,) = e.bind(shape, ["k"], "a size")
    early = e.op("iota", shape=(size,), axis=0, dtype=I64)
    module = e.finish([early], ["y"])
    check_graph(module)
    binder = next(op for op in module.main.body.ops if op.short == "sizes")
    Rewriter(module.main).move_before(binder, module.main.body.terminator)
    with pytest.raises(InvalidModelError, match="symbol k in k is not bound before it"):
        check_graph(module)


def test_an_unused_binder_goes_and_a_used_one_stays() -> None:
    e = Emitter({})
    shape = e.input("shape", TensorType((1,), I64))
    other = e.input("other", TensorType((1,), I64))
    (size,) = e.bind(shape, ["k"], "a size")
    e.bind(other, ["unused"], "a size")
    module = e.finish([e.dims([add(size, 1)])], ["y"])
    remove_dead(module.main.body, Rewriter(module.main))
    assert list(binders(module.main.body)) == ["k"]


def test_late_slots_are_apart_from_the_arena() -> None:
    module = lower(picked(), "fused", PassOptions())
    plan = plan_memory(module.main)
    late = {symbol("kept")}
    for number, size in enumerate(plan.slots):
        names = set() if isinstance(size, int) else {str(s) for s in late if str(s) in str(size)}
        assert bool(names) == (number in plan.late)


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 60_000])
def test_sizes_of_every_kind(rows: Artifact, n: int) -> None:
    for x in (data(n), np.abs(data(n)), -np.abs(data(n))):
        got, count = rows(x)
        np.testing.assert_array_equal(got, expected(x))
        assert got.flags.writeable and list(count) == [len(got)]


def test_the_signature_shows_late_symbols(rows: Artifact) -> None:
    assert str(rows.outputs[0]) == "rows: f32[kept, 3]"
    (late,) = [s for s in rows.manifest.signature.symbols if s.late]
    assert (late.name, late.source) == ("kept", "the number of rows above 0")
    assert rows.symbols_for({"x": (5, 3)}) == {"n": 5}


def test_out_is_for_sizes_known_before(rows: Artifact) -> None:
    x = data(4)
    with pytest.raises(InputError, match="'rows', whose size depends on data"):
        rows.run({"x": x}, out={"rows": np.empty((4, 3), np.float32)})
    count = np.empty(1, np.int64)
    found = rows.run({"x": x}, out={"count": count})
    assert found["count"] is count and count[0] == len(expected(x))


def test_large_results_outlive_the_artifact() -> None:
    artifact = build(picked())
    x = data(50_000)
    got, _ = artifact(x)
    artifact.close()
    del artifact
    gc.collect()
    np.testing.assert_array_equal(got, expected(x))


def test_sizes_that_are_given(shaped: Artifact) -> None:
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (6, 1), (1, 6)):
        np.testing.assert_array_equal(shaped(x, np.array(shape)), (x + 1).reshape(shape))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4, 2), "the constraint .* does not hold: rows = 4, columns = 2"),
        ((-2, -3), "the size rows is -2; allowed is 0 <= rows"),
        ((1 << 40, 1), "the size rows is 1099511627776"),
    ],
)
def test_sizes_that_break_a_rule_are_named(
    shaped: Artifact, shape: tuple[int, int], words: str
) -> None:
    with pytest.raises(ShapeConstraintError, match=words) as caught:
        shaped(np.zeros(6, np.float32), np.array(shape))
    assert "the target shape" in str(caught.value)


def test_sizes_too_large_for_any_memory_are_refused() -> None:
    e = Emitter({})
    shape = e.input("shape", TensorType((4,), I64))
    dims = e.bind(shape, ["a", "b", "c", "d"], "the shape")
    wide = e.op("broadcast", e.scalar(1, F32), shape=tuple(dims))
    artifact = build(e.finish([wide], ["y"]))
    most = (1 << 31) - 1
    with pytest.raises(ShapeConstraintError, match="too much memory"):
        artifact(np.array([most] * 4))
    with pytest.raises((MemoryError, ShapeConstraintError)):
        artifact(np.array([most, most, 8, 1]))
    assert artifact(np.array([2, 0, 3, 1])).shape == (2, 0, 3, 1)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_stays_flat(rows: Artifact) -> None:
    inputs = [data(20_000, seed) for seed in range(3)] + [data(n) for n in (0, 5, 700)]
    for x in inputs:
        rows(x)
    gc.collect()
    before = resident()
    for call in range(10_000):
        x = inputs[call % 6 if call % 50 == 0 else 3 + call % 3]
        rows(x)
    gc.collect()
    assert resident() - before < 4 << 20


def test_errors_leave_nothing_behind(shaped: Artifact) -> None:
    x, bad = np.zeros(6, np.float32), np.array([5, 5])
    with pytest.raises(ShapeConstraintError):
        shaped(x, bad)
    before = resident()
    for _ in range(2000):
        with contextlib.suppress(ShapeConstraintError):
            shaped(x, bad)
    assert resident() - before < 2 << 20


def test_threads_may_call_at_once(rows: Artifact) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for k in range(200):
            x = data(50 + 37 * (k % 7), seed + k)
            if not np.array_equal(rows(x)[0], expected(x)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
