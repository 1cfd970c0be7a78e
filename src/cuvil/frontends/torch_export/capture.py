"""PyTorch to Cuvil: ``capture_torch``."""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from cuvil.errors import InvalidModelError, ShapeConstraintError, UnsupportedOpError
from cuvil.errors.words import counted, kind_of
from cuvil.frontends.alone import ALONE
from cuvil.frontends.torch_export.convert import Converter
from cuvil.frontends.torch_export.emit import TorchEmitter
from cuvil.frontends.torch_export.examples import resized
from cuvil.frontends.torch_export.explain import other_types
from cuvil.frontends.torch_export.functional import decompose, functional, missing, written_buffers
from cuvil.frontends.torch_export.guards import (
    Kept,
    collect_guards,
    follows,
    outputs_agree,
    settle_small,
    sort_guards,
    strongest,
)
from cuvil.frontends.torch_export.naming import Naming, input_shapes
from cuvil.frontends.torch_export.program import (
    adopt_program,
    flat_examples,
    import_tracer,
    inference_mode_of,
    load_path,
    trace_module,
)
from cuvil.frontends.torch_export.quiet import quiet
from cuvil.frontends.torch_export.saved_guards import saved_guards
from cuvil.frontends.torch_export.symbols import implied
from cuvil.frontends.torch_export.traced import Traced
from cuvil.frontends.torch_export.unchecked import has_unchecked
from cuvil.frontends.torch_export.weights import Weights, dtype_from_torch
from cuvil.frontends.torchscript import Replay
from cuvil.ir.core import Location, Module, Value
from cuvil.ir.late import unread_symbols
from cuvil.ir.types import TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim
from cuvil.sym.facts import Facts
from cuvil.sym.solver import require_satisfiable

log = logging.getLogger("cuvil")

_ROUNDS = 4  # in which one operator is taken apart


def capture_torch(
    model: torch.nn.Module | ExportedProgram | str | Path,
    example_args: Sequence[Any] = (),
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    constraints: Sequence[Constraint] = (),
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Module:
    """Capture a model at stage "captured".

    ``model`` is a module (fx.GraphModule too), an ExportedProgram, or the path of a .pt2 file; the
    last two need no examples. ``dynamic`` names the dims that stay symbolic, see
    :func:`~cuvil.frontends.torch_export.spec.parse_dynamic`; every other dim is fixed to the
    example's size. The module is traced in evaluation mode and left as it was.

    Raises InvalidModelError, UnsupportedOpError (all nodes at once), ShapeConstraintError (a dim
    that the model fixes, or bounds that contradict one another) or InputError.
    """
    import_tracer()
    with ALONE.held(), quiet():
        if isinstance(model, (str, Path)):
            model = load_path(model)
        try:
            traced = _traced(
                model, example_args, example_kwargs, dynamic, constraints, input_names
            )
            return _Capture(traced, constraints, output_names).run()
        except InvalidModelError as error:
            if not isinstance(model, torch.nn.Module):
                raise
            names, leaves = flat_examples(model, example_args, example_kwargs or {}, input_names)
            error.hint = other_types(error, model, names, leaves) or error.hint
            raise


def _traced(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic: Any,
    constraints: Sequence[Constraint],
    input_names: Sequence[str] | None,
) -> Traced:
    if isinstance(model, ExportedProgram):
        return adopt_program(model, dynamic, input_names)
    if isinstance(model, torch.nn.Module):
        if isinstance(model, torch.jit.ScriptModule):
            return _traced_script(model, args, kwargs or {}, dynamic, constraints, input_names)
        return trace_module(model, args, kwargs or {}, dynamic, constraints, input_names)
    raise InvalidModelError(f"{kind_of(model)} is no PyTorch model")


def _traced_script(model: torch.jit.ScriptModule, *how: Any) -> Traced:
    replay = Replay(model)
    traced = trace_module(replay, *how)
    traced.model_name = replay.script_name
    traced.labels = replay.labels
    if replay.written:
        names = ", ".join(sorted(replay.written))
        traced.notes.append(f"each call starts from the attributes as they were: {names}")
    return traced


@dataclass
class _Capture:
    """One capture: prepares the program, then translates it, decomposing what has no rule."""

    traced: Traced
    constraints: Sequence[Constraint]
    output_names: Sequence[str] | None
    refused: dict[str, str] = field(default_factory=dict)

    def run(self) -> Module:
        traced = self.traced
        for note in (written := written_buffers(traced.program, traced.name_of)):
            log.warning("%s: %s", traced.model_name, note)
        traced.notes += written
        source = traced.program
        program = functional(source)
        # How often each was taken apart: what one operator becomes may hold another again.
        tried: collections.Counter[Any] = collections.Counter()
        while True:  # ends: each round either is the last or adds to the operators tried
            wanted = {target for target in missing(program) if tried[target] < _ROUNDS}
            if wanted:
                tried.update(wanted)
                program = decompose(program, wanted)
                continue
            naming, constraints = self._shapes(source, program)
            converter, module = self._translate(program, naming, constraints)
            if module is not None:
                return module
            targets = {node.target for node, _ in converter.refused} - converter.final
            again = {target for target in targets if not tried[target]}
            shorter = decompose(program, again) if again else program
            if shorter is program:
                raise UnsupportedOpError([problem for _, problem in converter.refused])
            tried.update(again)
            program = shorter

    def _shapes(
        self, source: ExportedProgram, program: ExportedProgram
    ) -> tuple[Naming, list[Constraint]]:
        """Names, bounds and constraints for the symbols of this program."""
        self.traced.program = program
        notes = list(self.traced.notes)
        naming = Naming(self.traced)
        self.traced.notes = list(dict.fromkeys([*self.traced.notes, *notes]))
        user = [naming.resolve(c) for c in self.constraints]
        guards = collect_guards(naming.env, self.traced.places, naming.symbols, self.traced.notes)
        if self.traced.source is None:
            guards += saved_guards(source, _sizes_by_name(source, naming))
        spec = self.traced.spec
        said = [c for c in self.constraints if c.symbols() <= spec.bounds.keys()]
        needed = [*naming.equal, *naming.constraints, *guards]
        if any(c.known() is False for c in user):
            require_satisfiable([*said, *needed], spec.bounds, origins=spec.origins())
        given = dict(naming.bounds)
        kept = sort_guards(
            [*user, *naming.constraints, *guards, *naming.ranges()],
            naming.bounds, spec.origins(), movable=self.traced.source is not None,
        )  # fmt: skip
        sizes = self._sizes(naming)
        if not all(c.symbols() <= sizes.keys() and c.holds(sizes) for c in user):
            require_satisfiable(kept.firm, given, origins=spec.origins())
        return naming, [*kept.firm, *self._settled(kept, naming)]

    def _settled(self, kept: Kept, naming: Naming) -> list[Constraint]:
        if not kept.small:
            return []
        agrees = _Agreement(self.traced, naming)
        return settle_small(kept.small, kept.firm, naming.bounds, self._sizes(naming), agrees)

    def _sizes(self, naming: Naming) -> dict[str, int]:
        return {n: s for n, s in self.traced.sizes.items() if n in naming.bounds}

    def _translate(
        self, program: ExportedProgram, naming: Naming, constraints: list[Constraint]
    ) -> tuple[Converter, Module | None]:
        traced = self.traced
        emitter = TorchEmitter(dict(naming.bounds), self._sizes(naming))
        emitter.context.constraints.extend(constraints)
        inputs: dict[str, Value] = {}
        index = 0
        nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        for item in program.graph_signature.input_specs:
            if item.kind.name != "USER_INPUT":
                continue
            meta = nodes[item.arg.name].meta.get("val")
            if isinstance(meta, torch.Tensor):
                name = traced.names[index]
                emitter.loc = Location(name)
                type = TensorType(naming.input_dims(index), dtype_from_torch(meta.dtype))
                inputs[item.arg.name] = emitter.input(name, type)
                index += 1
        weights = Weights(program, traced.prefix)
        converter = Converter(emitter, naming.symbols, weights)
        results = converter.run(program.graph, inputs)
        if converter.refused:
            return converter, None
        results = results[len(results) - _user_outputs(program) :]
        facts: dict[str, Any] = {"frontend": "torch", "model": traced.model_name}
        if has_unchecked(program):
            facts["unchecked"] = True
        if naming.origins():
            facts["origins"] = naming.origins()
        if traced.notes:
            facts["notes"] = traced.notes
        sizes = self._sizes(naming)
        for extra in naming.symbols.assumed:
            if extra.symbols() <= sizes.keys() and not extra.holds(sizes):
                said = ", ".join(f"{n} = {sizes[n]}" for n in sorted(extra.symbols()))
                raise ShapeConstraintError(
                    f"the example's sizes don't satisfy {extra}: {said}", where=extra.origin,
                    hint="use other example sizes, static dims, or a factor that floats hold",
                )  # fmt: skip
        for extra in (*converter.assumed, *naming.symbols.assumed):
            emitter.context.require(extra.left, extra.relation, extra.right, extra.origin)
        module = emitter.finish(
            results, self._names(len(results)), name=traced.model_name,
            call=traced.call, source=facts,
        )  # fmt: skip
        known = list(constraints)
        # The bounds of a number that nothing else reads hold only if it is read to check them.
        unread = unread_symbols(module.main)
        asserted = [c for c in converter.assumed if c.symbols() & unread]
        module.main.constraints = strongest([*dict.fromkeys([*known, *asserted])] + [
            c for c in module.main.constraints
            if c not in known and c not in asserted
            and not implied(c, Facts(emitter.context.symbols))  # without c itself
            and not follows(c, known, emitter.context.symbols)
        ])  # fmt: skip
        return converter, module

    def _names(self, count: int) -> list[str]:
        if self.output_names is not None:
            if len(self.output_names) != count:
                raise InvalidModelError(
                    f"{counted(len(self.output_names), 'output name')} for "
                    f"{counted(count, 'output')}"
                )
            return list(self.output_names)
        return output_names(self.traced.call["output_tree"], count)


def output_names(tree: Mapping[str, Any], count: int) -> list[str]:
    """Names of the outputs from their place in the output tree: fields, keys, else output_i."""
    names = [f"output_{i}" for i in range(count)] if count != 1 else ["output"]

    def visit(node: Mapping[str, Any], path: str) -> None:
        if node["kind"] == "leaf":
            if path and not path.replace("_", "").isdigit():
                names[node["index"]] = path
            return
        labels = node.get("fields") or node.get("keys") or range(len(node.get("items", ())))
        for label, item in zip(labels, node.get("items", ()), strict=False):
            visit(item, f"{path}_{label}" if path else str(label))

    visit(tree, "")
    return [n if names.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(names)]


def _user_outputs(program: ExportedProgram) -> int:
    return sum(
        item.kind.name == "USER_OUTPUT" and type(item.arg).__name__ == "TensorArgument"
        for item in program.graph_signature.output_specs
    )


def _sizes_by_name(program: ExportedProgram, naming: Naming) -> Callable[[str, int], Dim]:
    """The dims of the input tensors by the names of their placeholders."""
    tensors = {
        node.name for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    }  # fmt: skip
    names = [
        item.arg.name for item in program.graph_signature.input_specs
        if item.kind.name == "USER_INPUT" and item.arg.name in tensors
    ]  # fmt: skip
    return lambda name, axis: naming.input_dims(_place(names, name))[axis]


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise KeyError(f"there is no input tensor {name}")
    return names.index(name)


class _Agreement:
    """Runs the traced program and the model itself at given sizes, and compares."""

    def __init__(self, traced: Traced, naming: Naming) -> None:
        self.traced = traced
        self.axes = [
            {axis: dim for axis, dim in enumerate(naming.input_dims(i)) if not isinstance(dim, int)}
            for i in range(len(input_shapes(traced)))
        ]

    def __call__(self, sizes: Mapping[str, int]) -> bool:
        program, source = self.traced.program, self.traced.source
        assert source is not None
        inputs = resized(self.traced.examples, self.axes, sizes)
        try:
            with inference_mode_of(source):
                expected = source(*[t.clone() for t in inputs])
                actual = run_program(program, inputs)
        except Exception:  # any failure at this size means that the program doesn't cover it
            return False
        return outputs_agree(expected, actual)


def run_program(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors a program gives for flat inputs, its guards not checked."""
    rest = iter(inputs)
    arguments: list[Any] = []
    for item in program.graph_signature.input_specs:
        target = item.target
        if item.kind.name == "USER_INPUT":
            arguments.append(next(rest).clone())
        elif target in program.state_dict:
            arguments.append(program.state_dict[target])
        else:
            arguments.append(program.constants[target])
    found: Callable[..., Any] = torch.fx.Interpreter(program.graph_module).run
    outputs = [v for v in found(*arguments) if isinstance(v, torch.Tensor)]
    return outputs[len(outputs) - _user_outputs(program) :]
