"""From a model to a flat torch.export program whose dynamic dims carry the user's names."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.fx.experimental._config as symbolic_config
from torch.export import Dim as TorchDim
from torch.export import ExportedProgram
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from cuvil.errors import CuvilError, InputError, InvalidModelError
from cuvil.errors.words import counted
from cuvil.frontends.alone import ALONE
from cuvil.frontends.torch_export.autocast import effective_autocast
from cuvil.frontends.torch_export.evaluation import evaluating
from cuvil.frontends.torch_export.examples import choose_sizes, resized
from cuvil.frontends.torch_export.explain import asks_for_data, explained
from cuvil.frontends.torch_export.fixed_numbers import as_constants, fixed_numbers
from cuvil.frontends.torch_export.own_state import State, kept, refuse_state
from cuvil.frontends.torch_export.places import guard_places
from cuvil.frontends.torch_export.quiet import quiet
from cuvil.frontends.torch_export.saved_operators import register_operators
from cuvil.frontends.torch_export.spec import DynamicSpec, parse_dynamic
from cuvil.frontends.torch_export.stand_ins import packed_sequences, symbolic_functions
from cuvil.frontends.torch_export.traced import Traced
from cuvil.frontends.torch_export.tree import Json, TreeBuilder, rebuild, tree_of_spec
from cuvil.frontends.torch_export.weights import to_tensor
from cuvil.frontends.torchscript import Replay, load_script
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim

FLAT = "leaves"
_INNER = "model"


class _Record:
    """What the last run of the model gave. An object of its own, because torch.export undoes
    changes of a module's attributes."""

    builder: TreeBuilder
    error: Exception | None = None
    changed: Sequence[str] = ()  # attributes of the model, which are what they were again
    symbols: Mapping[str, str] = {}  # torch's own names of dims, as texts over the user's names


class _ModelError(Exception):
    """In place of what a model raised: torch prints the graph so far for some errors it knows."""


class _Flat(torch.nn.Module):
    """Calls a model with flat tensors and gives flat tensors; the trees stay on this side."""

    def __init__(self, model: torch.nn.Module, tree: Json, original: Any) -> None:
        super().__init__()
        self.model = model
        self._input_tree = tree
        self._original = original
        self.axes: Sequence[Mapping[int, Dim]] = ()
        self.numbers: dict[str, int] = {}  # of buffers that are constants of the trace
        self.record = _Record()

    def forward(self, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.record.symbols = {
            str(leaf.shape[axis]): str(dim)
            for leaf, axes in zip(leaves, self.axes, strict=False)
            for axis, dim in axes.items()
        }
        args, kwargs = rebuild(self._input_tree, self._original, list(leaves))
        builder = TreeBuilder()
        try:
            state = State(self.model)
            with as_constants(self.model, self.numbers):
                result = self.model(*args, **kwargs)
            self.record.changed = state.changed()
        except CuvilError:
            raise
        except Exception as error:
            self.record.error = error
            raise _ModelError(str(error)) from error
        builder.call_tree = builder.flatten(result)
        self.record.builder = builder
        return tuple(builder.leaves)


    def call(self, leaves: Sequence[torch.Tensor], moved: bool) -> list[Any]:
        """All that the model gives for some tensors, or a little off them; what it does to its
        attributes stays."""
        given = [_moved(t) if moved else t.clone() for t in leaves]
        args, kwargs = rebuild(self._input_tree, self._original, given)
        builder = TreeBuilder()
        tree = builder.flatten(self.model(*args, **kwargs))
        return [*builder.leaves, repr(tree)]


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    floating = tensor.is_floating_point() or tensor.is_complex()
    return tensor + torch.rand_like(tensor) if floating else tensor.clone()


def leaf_names(model: torch.nn.Module, args: Sequence[Any], builder: TreeBuilder) -> list[str]:
    """Names of the flat inputs: the parameter of ``forward``, then the path inside it."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (AttributeError, TypeError, ValueError):  # a script may lack its forward
        parameters = []
    positional: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [f"{parameter.name}_{i}" for i in range(len(args) - len(positional))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(parameter.name)
    names: list[str] = []
    for path in builder.paths:
        kind, first, *rest = path
        if kind == "0":
            index = int(first)
            first = positional[index] if index < len(positional) else f"input_{first}"
        text = re.sub(r"\W", "_", "_".join([first, *rest]))
        name, k = text, 1
        while name in names:
            name, k = f"{text}_{k}", k + 1
        names.append(name)
    return names


def flat_examples(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] | None
) -> tuple[list[str], list[torch.Tensor]]:
    """The tensors of an example call and their names."""
    builder = TreeBuilder()
    builder.flatten(pytree.tree_map(_as_tensor, (tuple(args), dict(kwargs))))
    return list(names or leaf_names(model, args, builder)), list(builder.leaves)


@contextmanager
def inference_mode_of(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode, no key-value cache, no fused fast paths; everything restored after."""
    with ALONE.held():
        yield from _inference_mode_of(model)


def _inference_mode_of(model: torch.nn.Module) -> Iterator[None]:
    configs = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    cached = [c for c in configs.values() if getattr(c, "use_cache", False) is True]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        for config in cached:
            config.use_cache = False
        torch.backends.mha.set_fastpath_enabled(False)
        with evaluating(model), torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for config in cached:
            config.use_cache = True


@contextmanager
def honest_shapes() -> Iterator[None]:
    """Dynamic sizes may be 0 and 1: what depends on that becomes a guard, not an assumption."""
    config: Any = symbolic_config
    with ALONE.held(), config.patch(backed_size_oblivious=True):
        yield


def import_tracer() -> None:
    """Load all of torch that tracing takes, so that its lock is known before one is held."""
    with ALONE.held():
        importlib.import_module("torch._dynamo.convert_frame")


def trace_module(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Any,
    constraints: Sequence[Constraint],
    input_names: Sequence[str] | None,
) -> Traced:
    """Export a module in non-strict mode.

    Non-strict, because it runs the module's own Python and so takes every model strict mode
    takes, and many it doesn't (data structures and C calls that Dynamo can't see through); what
    strict mode would add, guards on Python state, has no meaning for an artifact.

    Raises InvalidModelError with torch's reason where the export fails, InputError for arguments
    the model doesn't take.
    """
    given = (tuple(args), dict(kwargs))
    if any(map(_is_packed, pytree.tree_leaves(given, _is_packed))):
        raise packed_sequences(f"the example inputs of {type(model).__name__}")
    original = pytree.tree_map(_as_tensor, given)
    builder = TreeBuilder()
    tree = builder.flatten(original)
    if not builder.leaves:
        raise InputError(
            "the example inputs hold no tensor" if any(given)
            else "the model needs an example of its inputs to be traced",
            hint="pass example_inputs=(...), input_shape=(...) or input_spec=[...]",
        )  # fmt: skip
    names = list(input_names or leaf_names(model, args, builder))
    if len(names) != len(builder.leaves):
        tensors = counted(len(builder.leaves), "input tensor")
        raise InputError(f"{counted(len(names), 'input name')} for {tensors}")
    spec = parse_dynamic(dynamic, names, [t.shape for t in builder.leaves])
    sizes = choose_sizes(builder.leaves, spec, constraints)
    examples = resized(builder.leaves, spec.axes, sizes)
    flat = _Flat(model, tree, original)
    flat.axes = spec.axes
    traced = Traced(
        _NOTHING, names, spec, examples, {"input_tree": tree}, type(model).__name__,
        flat, sizes, prefix=f"{_INNER}.",
    )  # fmt: skip
    with inference_mode_of(model):
        traced.program = _export(flat, traced, constraints)
        # A replay of a script has its own idea of what is written to attributes.
        if flat.record.changed and not isinstance(model, Replay):
            refuse_state(model, flat.record.changed, functools.partial(flat.call, examples))
    traced.call.update(_call_facts(model, flat))
    traced.notes += flat.record.builder.notes
    return traced


_NOTHING: Any = None


def _is_packed(value: Any) -> bool:
    return isinstance(value, PackedSequence)


def _as_tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return to_tensor(value)
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _call_facts(model: torch.nn.Module, flat: _Flat) -> dict[str, Any]:
    facts: dict[str, Any] = {"output_tree": flat.record.builder.call_tree}
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return facts
    facts["arg_names"] = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    facts["defaults"] = {p.name: p.default for p in parameters if _is_plain(p.default)}
    return facts


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _export(
    flat: _Flat, traced: Traced, constraints: Sequence[Constraint]
) -> ExportedProgram:
    hints: tuple[dict[int, Any], ...] = tuple(
        {axis: _hint(str(dim), traced.spec) for axis, dim in axes.items()}
        for axes in traced.spec.axes
    )
    with ALONE.held(), ExitStack() as stack:
        if any(hints):  # else no size of this program is dynamic; those inside torch.map's may be
            stack.enter_context(honest_shapes())
        stack.enter_context(symbolic_functions())
        stack.enter_context(effective_autocast(flat.model))
        # What dynamo has seen before must not decide which sizes are symbols.
        stack.enter_context(torch._dynamo.config.patch(automatic_dynamic_shapes=False))
        traced.places = stack.enter_context(guard_places())

        def export() -> ExportedProgram:
            # Torch too puts things there while it traces, and reads them until it is done.
            with nullcontext() if isinstance(flat.model, Replay) else kept(flat.model):
                return torch.export.export(
                    flat, tuple(traced.examples), dynamic_shapes={FLAT: hints}, strict=False
                )

        try:
            try:
                return export()
            except Exception as error:
                flat.numbers = fixed_numbers(flat.model) if asks_for_data(error) else {}
                if not flat.numbers:
                    raise
                flat.record = _Record()
                return export()
        except CuvilError:
            raise
        except Exception as error:
            error = flat.record.error or error
            raise explained(error, traced, flat.record.symbols, constraints) from error


def _hint(name: str, spec: DynamicSpec) -> Any:
    low, high = spec.bounds.get(name, (0, None))
    return TorchDim.AUTO(min=low, max=high) if high is not None else TorchDim.AUTO(min=low)


def load_program(path: str | Path) -> ExportedProgram:
    """An ExportedProgram saved as .pt2. Raises InvalidModelError for anything else."""
    if not Path(path).is_file():
        raise InvalidModelError(f"there is no model file {str(path)!r}")
    try:
        with quiet():
            register_operators(path)
            return torch.export.load(str(path))
    except Exception as error:
        why = f"{type(error).__name__}: {str(error)[:300]}"
        if "warnings above" in why:  # which are kept quiet
            why = "it is damaged, or cut off"
        raise InvalidModelError(
            f"{str(path)!r} is not a program that torch.export can read: {why}",
            hint="write it with torch.export.save(torch.export.export(...), path)",
        ) from error


def load_path(path: str | Path) -> ExportedProgram | torch.jit.ScriptModule:
    """A saved program: .pt2 of torch.export.save, or an archive of torch.jit.save."""
    return load_program(path) if str(path).lower().endswith(".pt2") else load_script(path)


def user_inputs(program: ExportedProgram) -> list[Any]:
    """The signature's entries of inputs that a caller gives."""
    specs = program.graph_signature.input_specs
    return [s for s in specs if s.kind.name == "USER_INPUT"]


def adopt_program(
    program: ExportedProgram, dynamic: Any, input_names: Sequence[str] | None
) -> Traced:
    """Take a program exported elsewhere as it is; ``dynamic`` names its symbolic dims."""
    users = user_inputs(program)
    names: list[str] = []
    examples: list[torch.Tensor] = []
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    leaves: list[Json] = []
    for item in users:
        value = nodes[item.arg.name].meta.get("val") if item.arg.name in nodes else None
        if isinstance(value, torch.Tensor):
            leaves.append({"kind": "leaf", "index": len(names)})
            names.append(item.arg.name)
            examples.append(value)
        else:
            constant = getattr(item.arg, "value", None)
            none = {"kind": "none"}
            leaves.append(none if constant is None else {"kind": "const", "value": constant})
    if input_names:
        if len(input_names) != len(names):
            tensors = counted(len(names), "input tensor")
            raise InputError(f"{counted(len(input_names), 'input name')} for {tensors}")
        names = list(input_names)
    spec = parse_dynamic(dynamic, names, [t.shape for t in examples])
    rest = iter(leaves)
    call: dict[str, Any] = {
        "input_tree": tree_of_spec(program.call_spec.in_spec, lambda: next(rest)),
        "output_tree": tree_of_spec(program.call_spec.out_spec, _output_leaves(program)),
    }
    return Traced(program, names, spec, examples, call, "ExportedProgram")


def _output_leaves(program: ExportedProgram) -> Any:
    count = 0
    items: list[Json] = []
    for item in program.graph_signature.output_specs:
        if item.kind.name != "USER_OUTPUT":
            continue
        constant = type(item.arg).__name__ == "ConstantArgument"
        if not constant:
            items.append({"kind": "leaf", "index": count})
            count += 1
        elif item.arg.value is None:
            items.append({"kind": "none"})
        else:
            items.append({"kind": "const", "value": item.arg.value})
    rest = iter(items)
    return lambda: next(rest)
