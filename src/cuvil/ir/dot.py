"""A module as a Graphviz digraph, for people to look at. Canonical, like the other texts."""

from __future__ import annotations

import json

from cuvil.ir.control import inside, is_control, lead_of
from cuvil.ir.core import Function, Module, Op, Value

_COLOURS = {"contraction": "#cfe2ff", "reduce": "#fff3cd", "map": "#d1e7dd"}
_ALONE = "#f8d7da"
_LISTED = 6


def print_dot(module: Module) -> str:
    """The entry function: inputs, constants of more than one element, ops, outputs.

    At stage "fused" a node is a kernel, coloured by its kind, and lists the ops inside.
    """
    return _Dot(module.main, module.stage == "fused").text(module.name)


class _Dot:
    def __init__(self, function: Function, kernels: bool) -> None:
        self.function = function
        self.kernels = kernels
        self.names: dict[int, str] = {}
        self.count = 0
        self.clusters = 0
        self.lines: list[str] = []

    def text(self, title: str) -> str:
        for name, value in zip(self.function.input_names, self.function.inputs, strict=True):
            self._node(value, f"{name}\n{_type(value)}", "ellipse", "#ffffff")
        for op in self.function.body.ops:
            if op is not self.function.body.last:
                self._op(op)
        end = self.function.body.terminator
        for name, value in zip(self.function.output_names, end.operands, strict=True):
            node = self._write(f"{name}\n{_type(value)}", "ellipse", "#ffffff")
            self._edge(value, node)
        head = f'digraph {_quoted(title)} {{\n  node [fontname="Helvetica", style="filled"];\n'
        return head + "".join(f"  {line}\n" for line in self.lines) + "}\n"

    def _op(self, op: Op) -> None:
        if not op.results:
            return
        if op.short == "constant":
            weight = op.attrs["value"]
            if weight.array.size > 1:
                label = f"{weight.name or 'constant'}\n{_type(op.result)}"
                self._node(op.result, label, "box", "#eeeeee")
            return
        label = "\n".join([_title(op), str(op.loc), *map(_type, op.results)])
        self._node(op.results[0], label, "box", _colour(op) if self.kernels else "#ffffff")
        for value in op.results[1:]:
            self.names[id(value)] = self.names[id(op.results[0])]
        for value in op.operands:
            self._edge(value, self.names[id(op.results[0])])
        if is_control(op):
            self._regions(op)

    def _regions(self, op: Op) -> None:
        """Each region as a cluster: what it reads comes from outside, what it yields goes to the
        op's own node."""
        for place in range(lead_of(op), len(op.operands)):
            if id(op.operands[place]) in self.names:
                for arg in inside(op, place):
                    self.names[id(arg)] = self.names[id(op.operands[place])]
        for number, region in enumerate(op.regions):
            label = ("then", "else")[number] if len(op.regions) == 2 else "each trip"
            self.clusters += 1
            self.lines.append(f"subgraph cluster{self.clusters} {{ label={_quoted(label)};")
            for inner in region.ops:
                self._op(inner)
            self.lines.append("}")
            for value in region.terminator.operands:
                self._edge(value, self.names[id(op.results[0])])

    def _node(self, value: Value, label: str, shape: str, colour: str) -> None:
        self.names[id(value)] = self._write(label, shape, colour)

    def _write(self, label: str, shape: str, colour: str) -> str:
        name = f"n{self.count}"
        self.count += 1
        text = f'shape="{shape}", fillcolor="{colour}", label={_quoted(label)}'
        self.lines.append(f"{name} [{text}];")
        return name

    def _edge(self, value: Value, to: str) -> None:
        if id(value) in self.names:  # constants of one element are not drawn
            self.lines.append(f"{self.names[id(value)]} -> {to};")


def _title(op: Op) -> str:
    if op.short != "fused":
        return op.short
    inside = [o.short for o in op.regions[0].ops if o.short not in ("yield", "constant")]
    more = f" +{len(inside) - _LISTED}" if len(inside) > _LISTED else ""
    return f"{op.attrs['kind']}: {' '.join(inside[:_LISTED])}{more}"


def _colour(op: Op) -> str:
    if op.short == "fused":
        return _COLOURS.get(op.attrs["kind"], _ALONE)
    return "#ffffff" if op.short == "reshape" else _ALONE


def _type(value: Value) -> str:
    return f"{value.type.dtype}[{', '.join(map(str, value.type.shape))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
