"""Makes a failing graph small: the first value that is wrong, with what leads to it cut short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cuvil.errors import CuvilError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Value
from cuvil.reference.interpreter import run_module
from tests.ops.values import Array

Fails = Callable[[Module, Mapping[str, Array]], bool]


@dataclass
class Case:
    """A module with the inputs that it fails on."""

    module: Module
    inputs: dict[str, Array]


def shrink(case: Case, fails: Fails, budget: int = 60) -> Case:
    """A smaller case that still fails; at most ``budget`` attempts."""
    left = [budget]

    def attempt(candidate: Case | None) -> bool:
        if candidate is None or left[0] <= 0:
            return False
        left[0] -= 1
        try:
            return fails(candidate.module, candidate.inputs)
        except CuvilError:
            return False

    for number in range(_count(case.module)):
        candidate = _rebuilt(case, number, frozenset())
        if attempt(candidate):
            assert candidate is not None
            case = candidate
            break
    return _cut(case, attempt)


def _cut(case: Case, attempt: Callable[[Case | None], bool]) -> Case:
    """Replace results by inputs of the same elements, latest first, where it still fails."""
    number = _count(case.module) - 2
    while number >= 0:
        candidate = _rebuilt(case, None, frozenset({number}))
        if attempt(candidate):
            assert candidate is not None
            case = candidate
            number = min(number, _count(case.module) - 1)
        number -= 1
    return case


def _values(module: Module) -> list[Value]:
    return [r for op in module.main.body.ops for r in op.results]


def _count(module: Module) -> int:
    return len(_values(module))


def _rebuilt(case: Case, output: int | None, cut: frozenset[int]) -> Case | None:
    """The module that ends at value ``output`` (None: at the same outputs), where the values
    numbered in ``cut`` are inputs; what nothing needs is left out."""
    main = case.module.main
    values = _values(case.module)
    numbers = {id(v): i for i, v in enumerate(values)}
    arrays: dict[int, Array] = {}
    run_module(case.module, case.inputs, watch=lambda v, a: arrays.update({id(v): a}))
    wanted = [values[output]] if output is not None else list(main.outputs)
    needed = _needed(wanted, {id(values[i]) for i in cut})
    e = Emitter(dict(main.symbols))
    made: dict[int, Value] = {}
    inputs: dict[str, Array] = {}
    for name, value in zip(main.input_names, main.inputs, strict=True):
        if id(value) in needed or not value.type.is_static:
            made[id(value)] = e.input(name, value.type)
            inputs[name] = case.inputs[name]
    for op in main.body.ops:
        if not any(id(r) in needed for r in op.results):
            continue
        if any(numbers[id(r)] in cut for r in op.results):
            if op.short == "constant":
                return None
            for r in op.results:
                name = f"cut{numbers[id(r)]}_{len(inputs)}"
                made[id(r)] = e.input(name, r.type)
                inputs[name] = arrays[id(r)]
            continue
        results = e.results(op.short, *(made[id(v)] for v in op.operands), **op.attrs)
        made.update({id(r): v for r, v in zip(op.results, results, strict=True)})
    module = e.finish([made[id(v)] for v in wanted], [f"y{i}" for i in range(len(wanted))])
    return Case(module, inputs)


def _needed(wanted: list[Value], cut: set[int]) -> set[int]:
    seen: set[int] = set()
    work = list(wanted)
    while work:
        value = work.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if value.op is not None and id(value) not in cut:
            work += value.op.operands
    return seen
