"""Programs without in-place writes, and torch's own decomposition of single operators."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export.convert import location, node_metas, op_key
from cuvil.frontends.torch_export.program import honest_shapes
from cuvil.frontends.torch_export.table import SILENT, rule_for

_HIDDEN_ALIASES = frozenset(
    {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "type_as", "einsum",
     "broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d"}
)  # fmt: skip
_VMAP = "torch._functorch.predispatch"


def _mutates(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def _written(node: Node) -> list[Node]:
    """The nodes whose storage a node writes to."""
    out: list[Node] = []
    schema: Any = node.target._schema  # type: ignore[union-attr]
    for i, parameter in enumerate(schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            item = node.args[i] if i < len(node.args) else node.kwargs.get(parameter.name)
            out += [item] if isinstance(item, Node) else list(item or ())  # type: ignore[arg-type]
    return out


def _storage(node: Node) -> int | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return int(value.untyped_storage()._cdata)
    except NotImplementedError:  # inside a vmap, whose writes are followed by tracing once more
        return None


def _plain_chain(node: Node, written: Node) -> bool:
    """Whether ``node`` is ``written`` itself or the result of an in-place op on it."""
    while node is not written:
        if not _mutates(node) or not node.args or not isinstance(node.args[0], Node):
            return False
        node = node.args[0]
    return True


class _Storages:
    """Which nodes may share memory: those of one fake storage, and the arguments and results of
    operators that may return an argument though their schema doesn't say so."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._parent: dict[int, int] = {}
        self.groups: dict[int, list[Node]] = {}
        nodes = list(nodes)
        for node in nodes:
            if _hides_alias(node):
                results = [node, *(u for u in node.users if u.target is operator.getitem)]
                keys = [k for n in (*node.all_input_nodes, *results) if (k := _storage(n))]
                for other in keys[1:]:
                    self._parent[self._find(other)] = self._find(keys[0])
        for node in nodes:
            key = self.of(node)
            if key is not None:
                self.groups.setdefault(key, []).append(node)

    def _find(self, key: int) -> int:
        while key in self._parent and self._parent[key] != key:
            key = self._parent[key]
        return key

    def of(self, node: Node) -> int | None:
        """The group a node belongs to; None if it is no tensor."""
        key = _storage(node)
        return None if key is None else self._find(key)


def _hides_alias(node: Node) -> bool:
    if node.op != "call_function" or op_key(node.target) not in _HIDDEN_ALIASES:
        return False
    # An einsum of one operand may be a view of it; of several, it is a product of its own.
    return op_key(node.target) != "einsum" or len(node.args[1]) == 1  # type: ignore[arg-type]


def has_entangled_writes(program: ExportedProgram) -> bool:
    """Whether some in-place op writes to a tensor that has another name: a view, an input, a
    weight. (Fake tensors of a trace share storages as the real ones would.)"""
    writers = [n for n in program.graph.nodes if _mutates(n)]
    if not writers:
        return False
    storages = _Storages(program.graph.nodes)
    for writer in writers:
        for written in _written(writer):
            root = _root(written)
            group = storages.of(written)
            if root.op == "placeholder" or group is None:
                return True
            if not all(_plain_chain(other, root) for other in storages.groups[group]):
                return True
    return False


def _root(node: Node) -> Node:
    while _mutates(node) and node.args and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _drop_dropout(program: ExportedProgram) -> None:
    """Remove dropout in evaluation, which gives its argument itself: as an operator it would hide
    that a write to its result is a write to the argument. The program stays what it was."""
    for node in list(program.graph.nodes):
        if _hides_alias(node) and "dropout" in op_key(node.target):
            train = node.args[2] if len(node.args) > 2 else node.kwargs.get("train", True)
            if not train and isinstance(node.args[0], Node):
                node.replace_all_uses_with(node.args[0])
                program.graph.erase_node(node)
    program.graph_module.recompile()


def _refuse_hidden_writes(program: ExportedProgram) -> None:
    """Functionalisation doesn't see through operators that hide an alias."""
    storages = _Storages(program.graph.nodes)
    written = {storages.of(w) for n in program.graph.nodes if _mutates(n) for w in _written(n)}
    for node in program.graph.nodes:
        inputs = node.all_input_nodes if _hides_alias(node) else []
        if any(storages.of(argument) in written for argument in inputs):
            raise InvalidModelError(
                f"a tensor is written in place that {node.target} may share memory with",
                where=str(location(node)),
                hint="clone the tensor before writing to it",
            )


def _inner_nodes(program: ExportedProgram) -> Iterator[Node]:
    """The nodes of the graphs that operators of the program hold."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule) and module is not program.graph_module:
            yield from module.graph.nodes


def _needs_retrace(program: ExportedProgram) -> bool:
    """Whether a graph inside writes in place, or vmap has left its marks: renaming can't follow
    either."""
    if any(_mutates(n) for n in _inner_nodes(program)):
        return True
    nodes = (*program.graph.nodes, *_inner_nodes(program))
    return any(getattr(n.target, "__module__", "") == _VMAP for n in nodes)


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program without in-place ops on aliased tensors.

    Writes to a tensor with one name only are renamed during translation; the others need torch's
    own functionalisation, which an empty decomposition table asks for (operators stay whole).
    """
    if any(_mutates(n) for n in program.graph.nodes):
        _drop_dropout(program)
    if not has_entangled_writes(program) and not _needs_retrace(program):
        return program
    _refuse_hidden_writes(program)
    try:
        with honest_shapes():
            plain: ExportedProgram = program.run_decompositions({})
            if _needs_retrace(plain):
                raise InvalidModelError("a graph inside it still writes in place")
            return plain
    except Exception as error:
        raise InvalidModelError(
            f"the model's in-place writes can't be made functional: {str(error)[:400]}",
            hint="replace in-place operations on views by torch.where, cat or scatter",
        ) from error


def written_buffers(program: ExportedProgram) -> list[str]:
    """Notes on inputs that the model writes to. Raises InvalidModelError where it keeps state
    in its buffers, because an artifact's calls are independent of each other."""
    checked = program
    if any(_mutates(n) for n in program.graph.nodes):
        checked = functional(program)
    notes = []
    for item in checked.graph_signature.output_specs:
        if item.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            raise InvalidModelError(
                f"the model changes its own state {str(item.target)!r} in a call",
                hint="make the state an input and an output of forward",
            )
        if item.kind.name == "USER_INPUT_MUTATION":
            notes.append(
                "the model writes to an input in place; the caller's tensor is not changed"
            )
    return notes


def missing(program: ExportedProgram) -> set[Any]:
    """The operators of a program that have no rule."""
    found = set()
    for node in (*program.graph.nodes, *_inner_nodes(program)):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            key = op_key(node.target)
            numeric = not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
            if key in SILENT or numeric or rule_for(key, node_metas(node)) is not None:
                continue
            found.add(node.target)
    return found


def decompose(program: ExportedProgram, targets: Iterable[Any]) -> ExportedProgram:
    """The program with these operators taken apart by torch's own rules, where it has any and
    they work with symbolic sizes; else the program itself."""
    defaults = torch.export.default_decompositions()
    table = {}
    for target in targets:
        if target in defaults:  # its get() doesn't see the composite operators
            table[target] = defaults[target]
        elif target in torch._decomp.decomposition_table:
            table[target] = torch._decomp.decomposition_table[target]
    if not table:
        return program
    try:
        with honest_shapes():
            shorter: ExportedProgram = program.run_decompositions(table)
            return shorter
    except Exception:  # torch can't: the operator is then reported as unsupported
        return program
