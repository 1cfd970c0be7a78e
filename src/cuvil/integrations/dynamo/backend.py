"""The backend: compiles a graph with its symbolic sizes, or leaves it to PyTorch and says why."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuvil.api import compile as compile_model
from cuvil.errors import CuvilError, InputError
from cuvil.integrations.dynamo.effects import Effects, effects_of
from cuvil.integrations.dynamo.graph import Prepared, Unfit, hinted, prepare
from cuvil.integrations.dynamo.history import HISTORY, GraphRecord, Report
from cuvil.runtime.artifact import Artifact

log = logging.getLogger("cuvil")
_OPTIONS = ("freeze", "verify", "precision", "threads", "cache")


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile one graph that TorchDynamo captured, for inference, its symbolic sizes symbolic.

    A graph that needs gradients, writes to its inputs, draws random numbers, or holds what Cuvil
    can't compile runs in PyTorch; :func:`report` and the log (logger "cuvil", level warning) say
    so and why. ``options`` (of ``torch.compile``) may hold "verify", "precision", "threads" and
    "cache", as for :func:`cuvil.compile`, and "freeze": parameters become constants of the
    artifact, laid out for its kernels; once they were written to, calls run in PyTorch.
    Raises InputError for another option.
    """
    settings = dict(options or {})
    for name in settings:
        if name not in _OPTIONS:
            raise InputError(f"there is no option {name!r}", hint=f"use {', '.join(_OPTIONS)}")
    frozen = bool(settings.pop("freeze", False))
    record = GraphRecord(_compile_id(), len(graph.graph.nodes))
    run = _Backend(graph, example_inputs, record, settings, frozen).compiled()
    HISTORY.note(record)
    if record.reason:
        log.warning("a graph of %d nodes runs in PyTorch: %s", record.nodes, record.reason)
    log.info("%s", record)
    return run


def report() -> Report:
    """What became of all graphs since the last :func:`clear_report`, and where Dynamo broke them.

    ``print(report())`` for people, ``.as_dict()`` for JSON.
    """
    return Report(HISTORY.graphs(), dict(torch._dynamo.utils.counters["graph_break"]))


def clear_report() -> None:
    """Forget all graphs, and Dynamo's counts of its breaks."""
    HISTORY.forget()
    torch._dynamo.utils.counters["graph_break"].clear()


def _compile_id() -> str:
    return str(torch._guards.CompileContext.current_compile_id() or "-")


class _Backend:
    """One graph on its way."""

    def __init__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], record: GraphRecord,
        settings: dict[str, Any], frozen: bool,
    ) -> None:  # fmt: skip
        self.graph, self.inputs, self.record = graph, inputs, record
        self.settings, self.frozen = settings, frozen

    def compiled(self) -> Callable[..., Any]:
        """The function of the graph's arguments; the record says what it is."""
        begin = time.monotonic()
        try:
            run = self._compiled()
        except (Unfit, CuvilError) as error:
            self.record.reason = str(error)
        except Exception as error:  # torch's own, of which no list exists: never the user's problem
            self.record.reason = f"{type(error).__name__}: {str(error)[:500]}"
        else:
            self.record.seconds = time.monotonic() - begin
            return run
        forward: Callable[..., Any] = self.graph.forward
        return forward

    def _compiled(self) -> Callable[..., Any]:
        graph, inputs = self.graph, self.inputs
        tensors = [x for x in (*inputs, *graph.parameters()) if isinstance(x, torch.Tensor)]
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            raise Unfit("gradients are wanted; call it under torch.no_grad()")
        for x in tensors:
            if x.device.type != "cpu":
                raise Unfit(f"it has a tensor on {x.device}")
        effects = _checked(graph, inputs)
        made = prepare(graph, inputs, effects)
        self.record.symbols, self.record.constraints = made.symbols, made.constraints
        self.record.fixed = made.fixed
        if made.viewed:
            many = f"outputs {made.viewed} are views" if made.viewed[1:] else "an output is a view"
            self.record.notes.append(f"{many} of inputs, which PyTorch makes")
        if not made.computed:
            raise Unfit("it computes nothing but sizes and views")
        watched = [*graph.parameters(), *graph.buffers()]
        if self.frozen:
            watched += _freeze(made, inputs)
        examples = [inputs[i].detach() for i in made.tensors]
        examples += [_carrier(hinted(inputs[i])) for i in made.numbers]
        # Guards of the capture inside would be taken for guards of the frame that Dynamo traces.
        with torch._guards.tracing(None):
            artifact = compile_model(
                made.module, tuple(examples), dynamic_dims=made.dynamic or None,
                constraints=tuple(made.constraints), **self.settings,
            )  # fmt: skip
        self.record.signature = _signature(artifact, [inputs[i] for i in made.tensors])
        return _Run(graph, made, artifact, self.record, watched)


def _signature(artifact: Artifact, tensors: Sequence[torch.Tensor]) -> str:
    """The artifact's type, its parameters counted."""
    inputs = [str(s) for s in artifact.inputs]
    shown = [
        text for i, text in enumerate(inputs)
        if i >= len(tensors) or not isinstance(tensors[i], torch.nn.Parameter)
    ]  # fmt: skip
    if len(shown) < len(inputs):
        shown.append(f"{len(inputs) - len(shown)} parameters")
    return f"({', '.join(shown)}) -> ({', '.join(map(str, artifact.outputs))})"


def _checked(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Effects:
    """The graph's effects; raises Unfit for those that an artifact does not have."""
    values = [hinted(x) for x in inputs]
    try:
        effects = effects_of(graph, values)
    except Exception as error:  # it needs data, or an operator that runs on no fake tensor
        log.info("a graph is run once to see what it writes to: %s", error)
        effects = effects_of(graph, values, real=True)
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    if effects.written:
        text = ", ".join(names[k] if isinstance(k, int) else k for k in effects.written)
        raise Unfit(f"it writes to its inputs: {text}")
    if effects.shared:
        raise Unfit(f"outputs {list(effects.shared[0])} share memory")
    if effects.random:
        raise Unfit(f"it draws random numbers: {effects.random}")
    return effects


def _carrier(number: int) -> torch.Tensor:
    return torch.empty((number, 0))


def _freeze(made: Prepared, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Turn the module's parameters into constants; returns them."""
    nodes = [n for n in made.module.graph.nodes if n.op == "placeholder"]
    frozen: list[torch.Tensor] = []
    kept: list[int] = []
    for index, place in enumerate(made.tensors):
        value = inputs[place]
        if not isinstance(value, torch.nn.Parameter) or made.dynamic[index]:
            kept.append(index)
            continue
        node, name = nodes[index], f"frozen_{place}"
        made.module.register_buffer(name, value.detach())
        with made.module.graph.inserting_after(nodes[-1]):
            node.replace_all_uses_with(made.module.graph.get_attr(name))
        frozen.append(value)
    for index, node in enumerate(nodes[: len(made.tensors)]):
        if index not in kept:
            made.module.graph.erase_node(node)
    made.dynamic = [made.dynamic[i] for i in kept] + made.dynamic[len(made.tensors) :]
    made.tensors = [made.tensors[i] for i in kept]
    made.module.recompile()
    return frozen


class _Run:
    """Calls the artifact with the arguments of the graph, and PyTorch where it refuses them."""

    def __init__(
        self, graph: torch.fx.GraphModule, made: Prepared, artifact: Artifact, record: GraphRecord,
        watched: Sequence[torch.Tensor],
    ) -> None:  # fmt: skip
        self.graph, self.made, self.artifact, self.record = graph, made, artifact, record
        self.watched = [(x, _state(x)) for x in watched]

    def __call__(self, *args: Any) -> Any:
        made = self.made
        self.record.calls += 1
        if any(_state(x) != state for x, state in self.watched):
            return self._refused("weights changed after they were compiled", args)
        if any(args[i] < 0 for i in made.numbers):
            return self._refused("an integer is negative", args)
        tensors = [args[i].detach() for i in made.tensors]
        tensors += [_carrier(args[i]) for i in made.numbers]
        try:
            found = self.artifact(*tensors)
        except CuvilError as error:
            return self._refused(str(error), args)
        outputs: list[Any] = [None] * made.count
        for place, value in zip(made.computed, found, strict=True):
            outputs[place] = value
        if made.views is not None:
            for place, value in zip(made.viewed, made.views(*args), strict=True):
                outputs[place] = value
        for place, size in made.sizes.items():
            outputs[place] = size(*args)
        for place, value in made.constants.items():
            outputs[place] = value
        return tuple(outputs)

    def _refused(self, why: str, args: Sequence[Any]) -> Any:
        if why not in self.record.refused:
            log.warning("a call runs in PyTorch: %s", why)
        self.record.refuse(why)
        return self.graph(*args)


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor._version
