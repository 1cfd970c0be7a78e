"""A graph of Dynamo's as a module over tensors alone, with its symbolic sizes.

A size that is an input of the graph is read off the tensor that has it. An integer that is no
tensor's size comes as a tensor of shape [n, 0], which says n and holds nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from cuvil.errors.words import kind_of
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable
from cuvil.integrations.dynamo.effects import Effects
from cuvil.sym.dim import Dim
from cuvil.sym.expr import symbol

Node = torch.fx.Node
_MOST = 1 << 40  # beyond it, an upper end is torch's way of saying that there is none


class Unfit(Exception):
    """A graph that is left to PyTorch; the text says why."""


@dataclass
class Prepared:
    """``module`` computes the outputs ``computed`` from tensors: those at ``tensors`` among the
    arguments, and one for each of the arguments ``numbers``. ``sizes`` are functions of all
    arguments for outputs that are integers, ``constants`` outputs known now, ``views`` computes
    the outputs ``viewed`` in PyTorch, from all arguments."""

    module: torch.fx.GraphModule
    tensors: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    dynamic: list[dict[int, Any]] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    sizes: dict[int, Callable[..., int]] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)
    views: torch.fx.GraphModule | None = None
    viewed: list[int] = field(default_factory=list)
    count: int = 0
    symbols: dict[str, str] = field(default_factory=dict)
    fixed: list[str] = field(default_factory=list)


def hinted(value: Any) -> Any:
    """An input as it is, or the number that a symbolic one has in this call. Raises Unfit."""
    if isinstance(value, torch.SymInt):
        hint = value.node.hint
        if hint is None:
            raise Unfit(f"the size {value} depends on data before this graph")
        return int(hint)
    if isinstance(value, (torch.Tensor, int, type(None))):
        return value
    raise Unfit(f"it takes {kind_of(value)}, where tensors and integers are expected")


def prepare(graph: torch.fx.GraphModule, inputs: Sequence[Any], effects: Effects) -> Prepared:
    """Raises Unfit for a graph whose inputs or outputs have no place in an artifact."""
    return _Preparing(graph, inputs, effects).run()


class _Preparing:
    """``at`` maps each symbol of an integer input to the argument that says it, ``carrier`` to the
    tensor placeholder and axis that have it as a size."""

    def __init__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], effects: Effects
    ) -> None:
        self.graph, self.inputs, self.effects = graph, inputs, effects
        nodes = list(graph.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.output = nodes[-1]
        self.at: dict[Any, int] = {}
        self.carrier: dict[Any, tuple[Node, int]] = {}
        self.env: Any = None
        self.made = Prepared(graph)
        self.table = TorchSymbols()

    def run(self) -> Prepared:
        self._symbols()
        self._outputs()
        if self.made.computed:
            self._module()
            self._describe()
        return self.made

    def _symbols(self) -> None:
        for place, (node, value) in enumerate(zip(self.placeholders, self.inputs, strict=True)):
            if isinstance(value, torch.SymInt):
                self.env = value.node.shape_env
                expression = _expression(value)
                if expression.is_Symbol:
                    self.at.setdefault(expression, place)
            for axis, size in enumerate(_fake_shape(node)):
                if isinstance(size, torch.SymInt):
                    self.env = size.node.shape_env
                    if _expression(size).is_Symbol:
                        self.carrier.setdefault(_expression(size), (node, axis))
        for name in {*self.at, *self.carrier}:
            self.table.table[str(name)] = symbol(str(name))

    def _outputs(self) -> None:
        made = self.made
        outputs = self.output.args[0]
        if not isinstance(outputs, (tuple, list)):
            raise Unfit("its outputs are no tuple")
        made.count = len(outputs)
        for place, node in enumerate(outputs):
            value = node.meta.get("example_value") if isinstance(node, Node) else node
            if isinstance(value, torch.Tensor):
                (made.viewed if place in self.effects.views else made.computed).append(place)
            elif isinstance(value, torch.SymInt):
                made.sizes[place] = self._size(_expression(value))
            elif value is None or type(value) in (int, float, bool):
                made.constants[place] = value
            else:
                raise Unfit(f"its output {place} is {kind_of(value)}")
        if made.viewed:
            made.views = _part(self.graph, [outputs[i] for i in made.viewed])

    def _size(self, expression: Any) -> Callable[..., int]:
        """The function of the arguments that an integer output is."""
        missing = sorted(str(s) for s in expression.free_symbols - self.at.keys())
        if missing:
            raise Unfit(f"an integer among its outputs depends on data ({', '.join(missing)})")
        places = {s: self.at[s] for s in expression.free_symbols}
        return functools.partial(_evaluate, expression, places)

    def _module(self) -> None:
        """The module: tensors first, then sizes read off them, then the graph's own nodes."""
        made, new = self.made, torch.fx.Graph()
        copies: dict[Node, Any] = {}
        for place, (node, value) in enumerate(zip(self.placeholders, self.inputs, strict=True)):
            if isinstance(value, torch.Tensor):
                copies[node] = new.placeholder(node.name)
                made.tensors.append(place)
                made.dynamic.append(self._axes(node))
        carriers = {}
        for place, (node, value) in enumerate(zip(self.placeholders, self.inputs, strict=True)):
            expression = _expression(value) if isinstance(value, torch.SymInt) else None
            if expression is None or not expression.is_Symbol or expression in self.carrier:
                continue
            if hinted(value) < 0:
                raise Unfit(f"the integer {node.name} is negative")
            carriers[expression] = new.placeholder(node.name)
            made.numbers.append(place)
            made.dynamic.append({0: self._dim(expression)})
        for node, value in zip(self.placeholders, self.inputs, strict=True):
            if not isinstance(value, torch.Tensor):
                copies[node] = self._read(new, value, carriers, copies)
        for node in self.graph.graph.nodes:
            if node.op not in ("placeholder", "output"):
                constant = _constant(node)
                copies[node] = constant if constant is not None else new.node_copy(
                    node, lambda n: copies[n]
                )  # fmt: skip
        outputs: Any = self.output.args[0]
        new.output(tuple(copies[outputs[i]] for i in made.computed))
        made.module = torch.fx.GraphModule(self.graph, new)

    def _read(self, new: Any, value: Any, carriers: Any, copies: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return value
        expression = _expression(value)
        if expression.is_Integer:
            return int(expression)
        if expression in carriers:
            return new.call_method("size", (carriers[expression], 0))
        if expression not in self.carrier:
            raise Unfit(f"its input {expression} is an expression of sizes")
        node, axis = self.carrier[expression]
        return new.call_method("size", (copies[node], axis))

    def _axes(self, node: Node) -> dict[int, Any]:
        axes = {}
        for axis, size in enumerate(_fake_shape(node)):
            if isinstance(size, torch.SymInt) and not _expression(size).is_Integer:
                axes[axis] = self._dim(_expression(size))
        return axes

    def _dim(self, expression: Any) -> Any:
        if not expression.is_Symbol:
            try:
                return self.table.expr(expression)
            except Untranslatable as error:
                raise Unfit(f"a size can't be said: {error}") from None
        low, high = self._range(expression)
        return Dim(str(expression), min=low, max=high)

    def _range(self, name: Any) -> tuple[int, int | None]:
        span = self.env.var_to_range.get(name)
        if span is None:
            return 0, None
        low = max(0, int(span.lower)) if span.lower.is_Integer else 0
        high = int(span.upper) if span.upper.is_Integer and int(span.upper) < _MOST else None
        return low, high

    def _describe(self) -> None:
        """The symbols, the guards that hold for them, and what was fixed, in words."""
        if self.env is None:
            return
        made, sources = self.made, self.env.var_to_sources
        for name in self.table.table:
            found = next(s for s in {*self.at, *self.carrier} if str(s) == name)
            low, high = self._range(found)
            where = sources.get(found) or []
            text = f"{low}..{'' if high is None else high}"
            made.symbols[name] = f"{text}, {_source_name(where[0])}" if where else text
        for guard in self.env.guards:
            made.constraints += self._guard(guard.expr)
        places = {str(s): g for g in self.env.guards for s in g.expr.free_symbols}
        for name, value in self.env.replacements.items():
            where = sources.get(name) or []
            if value.is_Integer and where and not _within(_source_name(where[0])):
                guard = places.get(str(name))
                line = str(getattr(guard.sloc, "maybe_user_loc", "") or "") if guard else ""
                made.fixed.append(f"{_source_name(where[0])} == {value}; {line}".rstrip("; "))

    def _guard(self, condition: Any) -> list[str]:
        """A guard as constraints; none if it speaks of what no artifact has."""
        try:
            return [str(c) for c in self.table.constraints(condition, "")]
        except Untranslatable:
            return []


def _within(source: str) -> bool:
    """Whether the size is that of a module's own tensor, which nobody expects to change."""
    return "_parameters" in source or "_buffers" in source or "_modules" in source


def _source_name(source: Any) -> str:
    return str(source.name() if callable(source.name) else source.name)


def _expression(value: torch.SymInt) -> Any:
    return value.node.expr


def _fake_shape(node: Node) -> Sequence[Any]:
    value = node.meta.get("example_value")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _constant(node: Node) -> Any:
    """The number that a node stands for where Dynamo guards that it is this number."""
    value = node.meta.get("example_value")
    if isinstance(value, (torch.SymFloat, torch.SymInt)) and value.node.expr.is_number:
        return float(value) if isinstance(value, torch.SymFloat) else int(value)
    return None


def _part(graph: torch.fx.GraphModule, outputs: Sequence[Node]) -> torch.fx.GraphModule:
    """The part of a graph that some of its outputs need, with all its arguments."""
    new = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        if node.op != "output":
            copies[node] = new.node_copy(node, lambda n: copies[n])
    new.output(tuple(copies[n] for n in outputs))
    new.eliminate_dead_code()
    return torch.fx.GraphModule(graph, new)


def _evaluate(expression: Any, places: Any, *args: Any) -> int:
    env = {s: int(args[place]) for s, place in places.items()}
    return int(sympy_interp(PythonReferenceAnalysis, env, expression))
