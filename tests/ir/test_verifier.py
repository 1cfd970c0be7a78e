"""The verifier accepts what the builder makes and names each fault it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Block, Module, Op
from cuvil.ir.types import F32, F64, TensorType
from cuvil.ir.verifier import verify_module
from cuvil.sym.expr import add, symbol
from cuvil.sym.parse import parse_constraint
from tests.ir.samples import N, S, rules, sample, yield_from
from tests.ir.test_text import _large


def _chain() -> Module:
    """exp, tanh, add of both."""
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((N,), F32))
    a = e.op("exp", x)
    b = e.op("tanh", a)
    return e.finish([e.op("add", a, b)], ["y"])


def _ops(module: Module) -> list[Op]:
    return list(module.main.body.ops)


def test_sample_modules_are_well_formed() -> None:
    verify_module(_chain(), rules)
    verify_module(sample())


def _use_before_definition(module: Module) -> None:
    first, _, last = _ops(module)[:3]
    first._set_operand(0, last.result)


def _unknown_use(module: Module) -> None:
    op = _ops(module)[1]
    op.operands[0].uses.pop((id(op), 0))


def _stale_use(module: Module) -> None:
    a, b = _ops(module)[:2]
    a.operands[0].uses[(id(b), 7)] = b


def _broken_link(module: Module) -> None:
    _ops(module)[1].prev = None


def _wrong_last(module: Module) -> None:
    module.main.body.last = _ops(module)[-1]
    _ops(module)[2].next = None


def _early_return(module: Module) -> None:
    body = module.main.body
    body._insert_before(_ops(module)[0], Op("func.return", module.main.inputs))


def _undeclared_symbol(module: Module) -> None:
    del module.main.symbols["n"]


def _undeclared_symbol_in_attribute(module: Module) -> None:
    _ops(module)[0].attrs["shape"] = (symbol("other"),)


def _wrong_type(module: Module) -> None:
    _ops(module)[0].result.type = TensorType((N,), F64)


def _wrong_owner(module: Module) -> None:
    a, b = _ops(module)[:2]
    a.result.owner = b


def _unknown_op(module: Module) -> None:
    _ops(module)[0].name = "cuvil.nothing"


def _input_names(module: Module) -> None:
    module.main.input_names.append("z")


def _two_outputs_of_one_name(module: Module) -> None:
    last = module.main.body.terminator
    last._set_operands([*last.operands, last.operands[0]])
    module.main.output_names = ["y", "y"]


def _no_return(module: Module) -> None:
    module.main.body.terminator._drop()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_use_before_definition, "operand 0 of cuvil.exp is not defined before it"),
        (_unknown_use, "operand 0 of cuvil.tanh does not list this use"),
        (_stale_use, "lists 2 uses, has 1"),
        (_broken_link, "cuvil.tanh has a broken link"),
        (_wrong_last, "the block's last op is not the end of its list"),
        (_early_return, "func.return is followed by another op"),
        (_undeclared_symbol, "the symbol n in n is not declared"),
        (_undeclared_symbol_in_attribute, "the symbol other in other is not declared"),
        (_wrong_type, "the types of cuvil.exp differ from what its rule infers: .*f64.* and .*f32"),
        (_wrong_owner, "result 0 of cuvil.exp has a wrong owner"),
        (_unknown_op, "the type rule of cuvil.nothing refuses it: there is no operator"),
        (_input_names, "2 input names for 1 input"),
        (_two_outputs_of_one_name, "two outputs have one name"),
        (_no_return, "does not end with func.return"),
    ],
)
def test_each_fault_is_named(damage: Callable[[Module], None], message: str) -> None:
    module = _chain()
    damage(module)
    with pytest.raises(InvalidModelError, match=message) as caught:
        verify_module(module, rules)
    assert caught.value.stage == "verify the graph"
    assert len(str(caught.value).splitlines()) < 14


def test_stage_spec_gives_the_reason() -> None:
    module = _chain()
    verify_module(module, legal=lambda op: None)
    with pytest.raises(InvalidModelError, match="cuvil.tanh is not legal here: no tanh today"):
        verify_module(module, legal=lambda op: "no tanh today" if op.short == "tanh" else None)


def _region(wrong: str) -> Module:
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((N,), F32))
    y = e.op("exp", x)
    inner = Block([x.type.with_dtype(F64) if wrong == "arguments" else x.type])
    inside = Op("cuvil.tanh", [y if wrong == "capture" else inner.args[0]], [x.type])
    inner._append(inside)
    if wrong != "terminator":
        yield_from(inner, inside.result)
    result = TensorType((3,), F32) if wrong == "yield" else x.type
    fused = e.builder.op("fused", [x], regions=[inner], result_types=[result])
    if wrong == "parent":
        inner.parent = None
    return e.finish([fused.result], ["y"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("capture", "operand 0 of cuvil.tanh is not defined before it"),
        ("terminator", "a block must end with cuvil.yield"),
        ("yield", "the yielded types differ"),
        ("arguments", "the arguments' types differ"),
        ("parent", "a block does not know the op that holds it"),
    ],
)
def test_region_faults_are_named(wrong: str, message: str) -> None:
    verify_module(_region(""))
    with pytest.raises(InvalidModelError, match=message):
        verify_module(_region(wrong))


def test_types_equal_through_constraints_are_accepted() -> None:
    e = Emitter({"n": (1, None), "s": (1, None)})
    x = e.input("x", TensorType((add(N, 1),), F32))
    op = e.builder.op("exp", [x], result_types=[TensorType((S,), F32)])
    module = e.finish([op.result], ["y"])
    with pytest.raises(InvalidModelError, match="differ from what its rule infers"):
        verify_module(module, rules)
    module.main.constraints.append(parse_constraint("s == n + 1"))
    verify_module(module, rules)


def test_rules_do_not_change_the_function() -> None:
    e = Emitter({"n": (1, None), "s": (1, None)})
    x = e.input("x", TensorType((N, S), F32))
    op = e.builder.op(
        "reshape", [x], {"shape": (S, N)}, result_types=[TensorType((S, N), F32)]
    )
    other = e.builder.op(
        "reshape", [op.result], {"shape": (S, S)}, result_types=[TensorType((S, S), F32)]
    )
    module = e.finish([other.result], ["y"])
    module.main.constraints.clear()
    verify_module(module, rules)
    assert module.main.constraints == []
    assert set(module.main.symbols) == {"n", "s"}


def test_large_modules_verify_fast() -> None:
    """Some 30 ms without types; the bound only catches a change of order."""
    module = _large(5000)
    start = time.perf_counter()
    verify_module(module)
    assert time.perf_counter() - start < 0.5
