"""Copies print like their source, share only weights, and take substitutions whole."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_block, clone_module, clone_op
from cuvil.ir.core import Module, Value
from cuvil.ir.printer import print_module
from cuvil.ir.types import F32, TensorType
from cuvil.ir.verifier import verify_module
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import mul, symbol
from cuvil.sym.parse import parse_constraint
from tests.ir.samples import N, S, rules, sample


def test_a_copy_prints_like_its_source_and_shares_no_op() -> None:
    module = sample()
    values: dict[Value, Value] = {}
    copy = clone_module(module, values)
    assert print_module(copy, locations=True) == print_module(module, locations=True)
    assert not {id(op) for op in copy.main.walk()} & {id(op) for op in module.main.walk()}
    assert all(values[a] is b for a, b in zip(module.main.inputs, copy.main.inputs, strict=True))
    assert next(copy.main.walk()).attrs["value"] is next(module.main.walk()).attrs["value"]
    verify_module(copy)
    copy.main.body.terminator._drop()
    verify_module(module)


def _rows() -> Module:
    e = Emitter({"n": (1, 8), "s": (1, None)})
    x = e.input("x", TensorType((N, S), F32))
    flat = e.reshape(x, (mul(N, S),))
    return e.finish([flat, e.dims([N, S])], ["y", "sizes"], [parse_constraint("n * s <= 24")])


def test_symbols_become_numbers_everywhere() -> None:
    copy = clone_module(_rows(), substitution={"n": 2, "s": 3})
    verify_module(copy, rules)
    assert copy.main.symbols == {} and copy.main.constraints == []
    assert copy.main.inputs[0].type.shape == (2, 3)
    assert "#cuvil.dim" not in print_module(copy)
    x = np.ones((2, 3), np.float32)
    for a, b in zip(run_module(copy, {"x": x}), run_module(_rows(), {"x": x}), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_new_symbol_keeps_the_old_bounds() -> None:
    copy = clone_module(
        _rows(), substitution={"n": mul(symbol("k"), 2)}, new_symbols={"k": (1, None)}
    )
    verify_module(copy, rules)
    assert set(copy.main.symbols) == {"k", "s"}
    assert {str(c) for c in copy.main.constraints} == {
        "2 * k >= 1", "2 * k <= 8", "2 * k * s <= 24",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"n": 9}, "n <= 8|9 <= 8"),
        ({"n": 5, "s": 5}, r"n \* s <= 24 does not hold with n = 5, s = 5"),
    ],
)
def test_impossible_sizes_are_refused(table: dict[str, int], message: str) -> None:
    with pytest.raises(ShapeConstraintError, match=message):
        clone_module(_rows(), substitution=table)


def test_blocks_and_ops_take_replacements_for_outer_values() -> None:
    e = Emitter()
    x = e.input("x", TensorType((2,), F32))
    y = e.input("y", TensorType((2,), F32))
    op = e.op("exp", x).op
    assert op is not None
    assert clone_op(op, {x: y}).operands == [y]
    assert clone_op(op, {}).operands == [x]
    assert clone_op(op, {}, operands=[y]).operands == [y]
    block = clone_block(e.block, {})
    assert [v.name for v in block.args] == ["x", "y"]
