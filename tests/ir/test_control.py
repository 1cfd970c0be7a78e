"""Control flow in the IR: regions are isolated, and typed by their op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.errors import InvalidModelError, ShapeConstraintError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.control import FOR, IF, STEP, WHILE, Loop, inner_checks, region_views
from cuvil.ir.core import Block, Module, Value
from cuvil.ir.dot import print_dot
from cuvil.ir.types import BOOL, F32, I64, TensorType
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol

N = symbol("n")
T = TensorType((N,), F32)


def _emitter() -> tuple[Emitter, Value]:
    e = Emitter({"n": (0, None)})
    return e, e.input("x", T)


def sum_of_rows() -> Module:
    """x plus the sum of the rows x * step, n trips, and the rows."""
    e, x = _emitter()
    with e.region([STEP, T]) as region:
        step, total = region.own
        row = e.map("mul", x, e.cast(step, F32))
        e.close([e.op("add", total, row), row])
    rows = T.with_shape((N, N))
    return e.finish(e.loop(FOR, [], [x], region, [T, rows], trips=N), ["sum", "rows"])


def test_a_loop_is_read_in_parts() -> None:
    module = sum_of_rows()
    check_graph(module)
    (view,) = region_views(module.main)
    loop = Loop(view.op)
    assert (loop.carried, loop.trips, loop.conditional) == (1, N, False)
    assert [v.name for v in loop.inits] == [v.name for v in loop.captures] == ["x"]
    assert [len(x) for x in (loop.next, loop.rows, loop.stacks, loop.results)] == [1, 1, 1, 1]
    assert view.symbols is module.main.symbols
    x = np.arange(3, dtype=np.float32)
    total, rows = run_module(module, {"x": x})
    np.testing.assert_array_equal(rows, [x * 0, x, x * 2])
    np.testing.assert_array_equal(total, x + x * 3)
    total, rows = run_module(module, {"x": x[:0]})
    assert total.shape == (0,) and rows.shape == (0, 0)


def test_a_while_stops_at_its_limit_or_condition() -> None:
    e, x = _emitter()
    limit, flag = e.input("limit", STEP), e.input("flag", TensorType((), BOOL))
    with e.region([STEP, T]) as region:
        step, value = region.own
        e.close([e.with_scalar("lt", step, 4), e.with_scalar("add", value, 1.0)])
    module = e.finish(e.loop(WHILE, [limit, flag], [x], region, [T]), ["y"])
    check_graph(module)
    for most, go, trips in ((0, True, 0), (3, True, 3), (9, True, 5), (9, False, 0), (-1, True, 0)):
        given = {"x": np.zeros(2, np.float32), "limit": np.array(most), "flag": np.array(go)}
        np.testing.assert_array_equal(run_module(module, given)[0], [trips, trips])


def _branch(then: Callable[[Emitter, Value], Value]) -> Module:
    e, x = _emitter()
    flag = e.input("flag", TensorType((), BOOL))
    regions = []
    for body in (then, lambda e, x: e.op("neg", x)):
        with e.region() as region:
            e.close([body(e, x)])
        regions.append(region)
    return e.finish(e.branch(flag, regions, [T]), ["y"])


def _of_four(e: Emitter, x: Value) -> Value:
    e.context.require(N, "==", 4, "the branch takes four")
    return e.op("exp", e.reshape(x, (4,)))


def test_what_a_region_requires_holds_there_alone() -> None:
    """exp gives [4], which is [n] where n == 4: only the branch that says so is checked."""
    module = clone_module(_branch(_of_four))
    check_graph(module)
    assert module.main.constraints == []
    assert [str(c) for c in inner_checks(module.main)] == ["n == 4"]
    three = np.ones(3, np.float32)
    np.testing.assert_array_equal(run_module(module, {"x": three, "flag": np.array(False)})[0], -1)
    with pytest.raises(ShapeConstraintError, match="n == 4 does not hold with n = 3"):
        run_module(module, {"x": three, "flag": np.array(True)})


def test_a_type_that_no_requirement_proves_is_a_fault() -> None:
    module = _branch(lambda e, x: e.op("exp", e.slice(x, 0, 0, 2)))
    with pytest.raises(InvalidModelError, match="yielded types differ"):
        check_graph(module)


def test_regions_see_nothing_but_their_arguments() -> None:
    e, x = _emitter()
    flag = e.input("flag", TensorType((), BOOL))
    blocks = [Block(), Block()]
    for block in blocks:
        e.builder.fill(block, None)
        e.builder.op("cuvil.yield", [x], result_types=())
    e.builder.fill(e.block, None)
    op = e.builder.op(IF, [flag], regions=blocks, result_types=[T])
    with pytest.raises(InvalidModelError, match="operand 0 of cuvil.yield is not defined before"):
        check_graph(e.finish(op.results, ["y"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [(IF, "two regions"), (FOR, "number of carried"), (WHILE, "number of carried")],
)
def test_a_malformed_op_is_a_fault(name: str, message: str) -> None:
    e, x = _emitter()
    with e.region() as region:
        e.close([e.op("exp", x)])
    flag = e.scalar(True, BOOL)
    op = e.builder.op(name, [flag, x], regions=[region.block], result_types=[T])
    with pytest.raises(InvalidModelError, match=message):
        check_graph(e.finish(op.results, ["y"]))


def test_a_while_has_no_rows() -> None:
    e, x = _emitter()
    with e.region([STEP, T]) as region:
        e.close([e.scalar(True, BOOL), region.own[1], region.own[1]])
    lead = [e.scalar(3, I64), e.scalar(True, BOOL)]
    rows = T.with_shape((3, N))
    module = e.finish(e.loop(WHILE, lead, [x], region, [T, rows]), ["y", "rows"])
    with pytest.raises(InvalidModelError, match="the number of its trips is not known"):
        check_graph(module)


def test_constants_and_sizes_are_made_anew_inside() -> None:
    e, x = _emitter()
    two, size = e.scalar(2.0, F32), e.cast(e.dims([N], scalar=True), F32)
    flag = e.input("flag", TensorType((), BOOL))
    regions = []
    for _ in range(2):
        with e.region() as region:
            e.close([e.map("add", x, e.map("mul", two, size))])
        regions.append(region)
    module = e.finish(e.branch(flag, regions, [T]), ["y"])
    check_graph(module)
    assert [region.captures for region in regions] == [[x], [x]]


def test_regions_are_clusters_in_a_drawing() -> None:
    text = print_dot(_branch(_of_four))
    assert text.count("subgraph cluster") == 2 and '"then"' in text and '"else"' in text
    assert "require" not in text
