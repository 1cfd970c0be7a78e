"""Which kernel is wrong: each one against the reference, on the inputs that it really got.

The fused module is built once more with every kernel's results as outputs. What is fused is decided
before, so the kernels are those of the artifact; only their places in memory differ. A kernel is
judged on the artifact's own values, not the reference's, so an error does not spread: those
reported are wrong by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.ir.clone import clone_module
from cuvil.ir.core import Function, Module, Op, Value
from cuvil.reference.interpreter import Kept, run_op, sizes_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.verify.report import LayerError, OutputError, compare

Array = np.ndarray[Any, Any]
_FREE = ("constant", "reshape")
_SHOWN_PLACES = 3


@dataclass(frozen=True)
class Exposed:
    """A fused module that also returns every kernel's results.

    ``results`` are (kernel number, op of ``module``, index of the result, output name).
    """

    module: Module
    results: tuple[tuple[int, Op, int, str], ...]


def expose(fused: Module) -> Exposed:
    """A copy of a module at stage "fused" that returns the results of its kernels as well."""
    module = clone_module(fused)
    main = module.main
    results = []
    values: list[Value] = []
    for number, op in enumerate(_kernels(main)):
        for index, value in enumerate(op.results):
            results.append((number, op, index, f"{number}.{index}"))
            values.append(value)
    end = main.body.terminator
    rewriter = Rewriter(main)
    rewriter.at_end(main.body, end.loc)
    old = list(end.operands)
    rewriter.erase(end)
    rewriter.op("func.return", [*old, *values], result_types=())
    names = [f"out.{i}" for i in range(len(old))] + [name for *_, name in results]
    whole = Function(main.name, main.body, main.input_names, names, main.symbols, main.constraints)
    return Exposed(Module(whole, module.name, module.stage), tuple(results))


def _kernels(function: Function) -> Iterator[Op]:
    for op in function.body.ops:
        if op.results and op.short not in _FREE:
            yield op


def check_layers(
    exposed: Exposed,
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    atol: float,
    rtol: float,
) -> list[LayerError]:
    """Each kernel's worst output. ``run`` gives the outputs by name of the artifact built from
    ``exposed.module``, ``symbols`` are the sizes that the inputs have."""
    found = run(inputs)
    given = {(id(op), index): found[name] for _, op, index, name in exposed.results}
    main = exposed.module.main
    known: dict[int, Array] = {
        id(v): np.asarray(inputs[n]) for n, v in zip(main.input_names, main.inputs, strict=True)
    }
    last = {id(value): op for op in main.body.ops for value in (*op.operands, *op.results)}
    layers = []
    number = 0
    sizes = dict(symbols)
    kept: Kept = {}
    for op in main.body.ops:
        if op.name == "func.return":
            break
        operands = [known[id(v)] for v in op.operands]
        sizes.update(sizes_of(op, operands))
        expected = run_op(op, operands, sizes, kept)
        if not op.results:
            continue
        if op.short in _FREE:
            actual = expected
        else:
            actual = [given.get((id(op), i), x) for i, x in enumerate(expected)]
            layers.append(_layer(number, op, compare(_names(op), expected, actual, atol, rtol)))
            number += 1
        known.update((id(v), x) for v, x in zip(op.results, actual, strict=True))
        for value in op.operands:
            if last[id(value)] is op:
                known.pop(id(value), None)
    return layers


def _names(op: Op) -> list[str]:
    return [value.name or str(index) for index, value in enumerate(op.results)]


def _layer(number: int, op: Op, errors: list[OutputError]) -> LayerError:
    worst = max(errors, key=lambda e: (not e.passed, e.scaled))
    return LayerError(number, kernel_name(op), tuple(ops_inside(op)), places(op), worst)


def kernel_name(op: Op) -> str:
    """What a kernel is called: the name that fusion gave it, or its operator's."""
    return str(op.attrs["name"]) if op.short == "fused" else op.short


def ops_inside(op: Op) -> list[str]:
    """The operators of a kernel in order, movements and constants left out."""
    if op.short != "fused":
        return [op.short]
    hidden = ("yield", "constant", "broadcast", "reshape", "transpose")
    inside = [o.short for o in op.regions[0].ops]
    return [n for n in inside if n not in hidden] or inside[:1]


def places(op: Op) -> str:
    """The first few places in the source that a kernel's operators come from."""
    inner = op.regions[0].ops if op.short == "fused" else [op]
    names = list(dict.fromkeys(str(o.loc) for o in inner if str(o.loc)))
    more = f" and {len(names) - _SHOWN_PLACES} more" if len(names) > _SHOWN_PLACES else ""
    return ", ".join(names[:_SHOWN_PLACES]) + more
