"""The operator cases of the onnx package, and what Cuvil makes of them.

A case is captured as it is where that is possible, else with values of its inputs given at compile
time. It is right if the reference interpreter and the compiled code both give what the case
expects. Cases are compiled many at a time, in one library.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

from cuvil.api.manifest import signature_of
from cuvil.errors import CuvilError, ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.clone import clone_op
from cuvil.ir.core import Block, Function, Module, Op, Value
from cuvil.reference.interpreter import run_module
from cuvil.runtime.host import HostPlan
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, substitute, symbol
from tools.onnx_truth import CORRECTIONS
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
_DRAWN = re.compile("test_bernoulli|test_training_dropout_(default|mask)|test_training_dropout$")
_LATER = ("none", "some", "rest", "all")


def is_drawn(name: str) -> bool:
    """Whether a case's expected values are random numbers."""
    return bool(_DRAWN.match(name))


@dataclass(frozen=True)
class NodeCase:
    """A model with inputs by name and expected outputs; a sequence is a list of arrays."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Any]
    outputs: Sequence[Any]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """Domain and name of what is tested; "" for a graph of several operators."""
        nodes = self.model.graph.node
        node = nodes[0] if len(nodes) == 1 else None
        return f"{node.domain or 'ai.onnx'}.{node.op_type}" if node is not None else ""

    @property
    def version(self) -> int:
        """The opset version of the operator's domain."""
        domain = self.model.graph.node[0].domain
        return next((o.version for o in self.model.opset_import if o.domain == domain), 0)

    @property
    def drawn(self) -> bool:
        """Whether the expected values are random numbers of another generator."""
        return is_drawn(self.name)

    def problem(self, got: Sequence[Any]) -> str:
        """How outputs differ from the expected ones, as the onnx package compares them."""
        try:
            if self.drawn:
                _check_drawn(self.name, self.inputs, got, self.outputs)
            else:
                assert _form(got) == _form(self.outputs), "another number of tensors"
                wanted = _flat(self.outputs)
                Runner.assert_similar_outputs(wanted, _flat(got), self.rtol, self.atol)
        except AssertionError as error:
            return " ".join(str(error).split())[:200] or "it differs"
        return ""


def _form(value: Any) -> Any:
    """What lists a value is made of."""
    if isinstance(value, (list, tuple)):
        return [_form(item) for item in value]
    return None if value is None else "tensor"


def _flat(value: Any) -> list[Array]:
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in _flat(item)]
    return [] if value is None else [value]


def _check_drawn(
    name: str, inputs: Mapping[str, Any], got: Sequence[Array], want: Sequence[Array]
) -> None:
    """Shapes and dtypes; and values that a draw can give: 0 and 1, or 0 and the scaled input."""
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in want], "other types"
    x = next(iter(inputs.values()))
    if "bernoulli" in name:
        assert np.isin(got[0].astype(np.float64), (0, 1)).all() and 0 < got[0].sum() < got[0].size
        return
    kept = got[0] != 0
    ratio = float(np.reshape(inputs["r"], ())) if "r" in inputs else 0.5
    np.testing.assert_allclose(got[0][kept], (x / (1 - ratio))[kept], rtol=1e-6)
    assert abs(kept.mean() - (1 - ratio)) < 0.25, "the ratio is another one"
    if len(got) > 1:
        assert (got[1].astype(bool) == kept).all(), "the mask is another one"


def _plain(item: Any) -> Any:
    if isinstance(item, onnx.TensorProto):
        item = numpy_helper.to_array(item)
    if isinstance(item, (list, tuple)):
        return [_plain(x) for x in item]
    return item if item is None else np.asarray(item)


@functools.lru_cache(maxsize=1)
def node_cases() -> tuple[NodeCase, ...]:
    """All of them, in order of name."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = []
        for case in collect_testcases(None):
            names = [v.name for v in case.model.graph.input]
            for i, (inputs, outputs) in enumerate(case.data_sets):
                values = dict(zip(names, map(_plain, inputs), strict=True))
                name = case.name if i == 0 else f"{case.name} {i}"
                wanted: Sequence[Any] = [_plain(o) for o in outputs]
                if name in CORRECTIONS:
                    wanted = CORRECTIONS[name][0](case.model, values)
                found.append(NodeCase(name, case.model, values, wanted, case.rtol, case.atol))
    return tuple(sorted(found, key=lambda c: c.name))


@dataclass
class Outcome:
    """What became of a case. ``fixed`` says which inputs had to be constants: none, some, rest or
    all; ``refused`` and ``wrong`` say why it is not right."""

    case: NodeCase
    fixed: str = "none"
    refused: str = ""
    wrong: str = ""

    @property
    def fault(self) -> str:
        """Why it is not right, or nothing."""
        return self.refused or self.wrong


@dataclass
class _Captured:
    outcome: Outcome
    module: Module
    inputs: dict[str, Any]

    @property
    def case(self) -> NodeCase:
        return self.outcome.case

    def regrouped(self, found: Sequence[Array]) -> list[Any]:
        """Flat outputs as the case has them: a sequence is a list."""
        counts = self.module.source.get("contents", {})
        rest, out = list(found), []
        for value in self.case.model.graph.output:
            count = counts.get(value.name, -1)
            if count is None:
                out.append(None)
            else:
                items = [rest.pop(0) for _ in range(abs(count))]
                out.append(items if count >= 0 else items[0])
        return out


def outcomes(cases: Sequence[NodeCase], folder: Path, batch: int = 300) -> list[Outcome]:
    """What becomes of the cases, interpreted and compiled; ``folder`` keeps objects."""
    found, captured = [], []
    for case in cases:
        outcome, made = _interpreted(case)
        found.append(outcome)
        captured += [] if made is None else [made]
    alone = [c for c in captured if c.module.call.get("host")]
    together = [c for c in captured if not c.module.call.get("host")]
    for start in range(0, len(together), batch):
        _run_compiled(together[start : start + batch], folder)
    for one in alone:
        _run_alone(one)
    return found


def interpreted(case: NodeCase) -> Outcome:
    """What becomes of a case by the reference interpreter alone."""
    return _interpreted(case)[0]


def _interpreted(case: NodeCase) -> tuple[Outcome, _Captured | None]:
    outcome, made = _capture(case)
    if made is not None:
        wrong = case.problem(made.regrouped(_interpret(made.module, made.inputs)))
        outcome.wrong = f"interpreted: {wrong}" if wrong else ""
    return outcome, made


def _choices(inputs: Mapping[str, Any]) -> Iterator[dict[str, Array]]:
    """Inputs to fix: none, those that may be shapes or conditions, all but the first, all."""
    arrays = {
        k: v for k, v in inputs.items() if isinstance(v, np.ndarray) and v.dtype.kind not in "OUST"
    }
    yield {}
    yield {k: v for k, v in arrays.items() if v.dtype.kind in "ib"}
    yield {k: v for k, v in arrays.items() if k != next(iter(inputs))}
    yield arrays


def _content(value: Any) -> list[tuple[int, ...]] | None:
    """The shapes of the tensors that an input holds."""
    if value is None:
        return None
    return [x.shape for x in value] if isinstance(value, list) else [value.shape]


def _capture(case: NodeCase) -> tuple[Outcome, _Captured | None]:
    outcome = Outcome(case)
    contents = {
        v.name: _content(case.inputs[v.name])
        for v in case.model.graph.input
        if not v.type.HasField("tensor_type")
    }
    for word, fixed in zip(_LATER, _choices(case.inputs), strict=True):
        try:
            module = capture_onnx(case.model, fixed_inputs=fixed, input_contents=contents)
            signature_of(module.main)
        except UnsupportedOpError as error:
            outcome.refused = outcome.refused or _reasons(error)
            continue
        except ShapeConstraintError as error:
            outcome.refused = outcome.refused or error.message
            continue
        outcome.refused, outcome.fixed = "", word
        given: dict[str, Any] = {}
        for name, value in case.inputs.items():
            if isinstance(value, list):
                given.update((f"{name}_{i}", x) for i, x in enumerate(value))
            elif name not in fixed and value is not None:
                given[name] = value
        return outcome, _Captured(outcome, module, given)
    return outcome, None


def _reasons(error: UnsupportedOpError) -> str:
    """Each reason once, the most telling one: an operator's own before its inputs'."""
    nodes = [n for n in error.nodes if n.op != "input"] or error.nodes
    return "; ".join(dict.fromkeys(n.reason for n in nodes))


def _interpret(module: Module, inputs: Mapping[str, Any]) -> list[Array]:
    """Outputs in order: numbers by the reference, strings by the captured host steps."""
    tree = module.call.get("host")
    if tree is None:
        return run_module(module, inputs)
    plan = HostPlan.read(tree, signature_of(module.main))
    strings = {spec.name for spec in plan.inputs if spec.dtype == "str"}
    given = {k: np.asarray(v, dtype=object) if k in strings else v for k, v in inputs.items()}
    codes = plan.codes()
    made = run_module(module, plan.numbers(given, codes))
    found: dict[str, Any] = dict(zip(module.main.output_names, made, strict=True))
    found.update(plan.run({k: given[k] for k in strings}))
    found.update(plan.decoded(found, codes))
    return [found[spec.name] for spec in plan.outputs]


def merged(modules: Sequence[Module]) -> Module:
    """One function that does what all of them do; names of the i-th begin with ``c<i>_``."""
    block, outputs = Block(), []
    inputs: list[str] = []
    names: list[str] = []
    symbols: dict[str, tuple[int, int | None]] = {}
    constraints: list[Constraint] = []
    for i, module in enumerate(modules):
        function = module.main
        table: dict[str, Dim] = {s: symbol(f"c{i}_{s}") for s in function.symbols}
        symbols |= {f"c{i}_{s}": ends for s, ends in function.symbols.items()}
        constraints += [
            Constraint(substitute(c.left, table), c.relation, substitute(c.right, table), c.origin)
            for c in function.constraints
        ]
        values: dict[Value, Value] = {}
        for name, value in zip(function.input_names, function.inputs, strict=True):
            values[value] = block._add_arg(value.type.substitute(table), f"c{i}_{name}")
            inputs.append(f"c{i}_{name}")
        for op in function.body.ops:
            if op is function.body.terminator:
                outputs += [values.get(v, v) for v in op.operands]
                names += [f"c{i}_{name}" for name in function.output_names]
            else:
                block._append(clone_op(op, values, table))
    block._append(Op("func.return", outputs, ()))
    return Module(Function("main", block, inputs, names, symbols, constraints), "cases")


def _run_compiled(group: Sequence[_Captured], folder: Path) -> None:
    """Note what differs. A group that can't be compiled or run is halved to find the culprit."""
    if not group:
        return
    module = merged([c.module for c in group])
    inputs = {f"c{i}_{k}": v for i, c in enumerate(group) for k, v in c.inputs.items()}
    try:
        with quick_build(module, folder, 0) as artifact:
            found = artifact.run(inputs)
    except CuvilError as error:
        if len(group) > 1:
            half = len(group) // 2
            _run_compiled(group[:half], folder)
            _run_compiled(group[half:], folder)
        else:
            group[0].outcome.wrong = f"compiled: {error}".splitlines()[0][:200]
        return
    for i, one in enumerate(group):
        outputs = [np.array(found[f"c{i}_{n}"]) for n in one.module.main.output_names]
        _note(one, outputs)


def _note(one: _Captured, outputs: Sequence[Array]) -> None:
    wrong = one.case.problem(one.regrouped(outputs))
    if wrong and not one.outcome.wrong:
        one.outcome.wrong = f"compiled: {wrong}"


def _run_alone(one: _Captured) -> None:
    """Through the public interface: what runs in Python is no part of a library."""
    import cuvil

    with cuvil.compile(one.case.model) as artifact:
        found = artifact.run(one.inputs)
        _note(one, [found[spec.name] for spec in artifact.outputs])
