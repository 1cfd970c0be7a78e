"""Which tensors of a program share memory, and views written so that torch's own
functionalisation sees them: some operators return a view that their schema doesn't tell of."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export.convert import op_key
from cuvil.frontends.torch_export.node_places import location

_DROPOUTS = frozenset({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
_HIDDEN_ALIASES = _DROPOUTS | {
    "type_as", "einsum", "broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d",
    "sum_to_size", "narrow_at",
}  # fmt: skip
_HINT = "clone the tensor before writing to it"
_EXPANSIONS = ("expand", "expand_as", "broadcast_to")
# Whose results are views, though their schemas have them as copies.
_SPLITS: dict[Any, Any] = {
    torch.ops.aten.unsafe_split.Tensor: torch.ops.aten.split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default: torch.ops.aten.split_with_sizes.default,
    torch.ops.aten.unsafe_chunk.default: torch.ops.aten.chunk.default,
}


def mutates(node: Node) -> bool:
    """Whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def written_by(node: Node) -> list[Node]:
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


class Storages:
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

    def views_up_to(self, node: Node) -> Iterator[Node]:
        """A node and those of its group that it was made of, or of which they were."""
        group, seen, todo = self.of(node), {node}, [node]
        while todo:
            at = todo.pop()
            yield at
            for source in written_by(at) if mutates(at) else at.all_input_nodes:
                listed = not isinstance(source.meta.get("val"), torch.Tensor)
                if source not in seen and (listed or self.of(source) == group):
                    seen.add(source)
                    todo.append(source)


def _key(node: Any) -> str:
    """The operator of a node that calls one."""
    return op_key(node.target) if node.op == "call_function" else ""


def _hides_alias(node: Node) -> bool:
    # An einsum of one operand may be a view of it; of several, it is a product of its own.
    several = _key(node) == "einsum" and len(node.args[1]) > 1  # type: ignore[arg-type]
    return _key(node) in _HIDDEN_ALIASES and not several


def show_views(program: ExportedProgram) -> None:
    """Remove dropout that drops nothing, which gives its argument itself, and write splits that
    claim to be copies, and expansions to one element, as the views they are. The program stays
    what it was."""
    for node in list(program.graph.nodes):
        node.target = _SPLITS.get(node.target, node.target)
        if _key(node) in _EXPANSIONS:
            _show_expansion(node, node.args[0])
        elif node.target is operator.getitem and _key(node.args[0]) == "broadcast_tensors":
            tensors, index = node.args[0].args[0], node.args[1]  # type: ignore[union-attr]
            _show_expansion(node, tensors[index])  # type: ignore[index]
        elif _key(node) in _DROPOUTS:
            given = {**dict(zip(("input", "p", "train"), node.args, strict=False)), **node.kwargs}
            idle = not given.get("train", True) or given.get("p") == 0
            if idle and isinstance(given["input"], Node):
                node.replace_all_uses_with(given["input"])
                program.graph.erase_node(node)
    program.graph_module.recompile()


def _show_expansion(node: Node, source: Any) -> None:
    """expand(source) -> source.unsqueeze(0)..., where it repeats nothing. (Torch carries a write
    through an expansion back as a sum of differences, which are NaN beside an infinity.)"""
    old, new = source.meta["val"], node.meta["val"]
    more = new.dim() - old.dim()
    sizes = zip(new.shape, (1,) * more + tuple(old.shape), strict=True)
    if not all(statically_known_true(n == m) for n, m in sizes):
        return
    with node.graph.inserting_before(node):
        for _ in range(more):
            source = node.graph.call_function(torch.ops.aten.unsqueeze.default, (source, 0))
            old = old.unsqueeze(0)
            source.meta = {**node.meta, "val": old}
    node.replace_all_uses_with(source)
    node.graph.erase_node(node)


def hidden_views(program: ExportedProgram) -> dict[Any, Any]:
    """Torch's decompositions of the operators that hide an alias of what is written in place:
    taken apart, they are views or copies, which functionalisation sees through.

    Raises InvalidModelError for one that can't be taken apart, and for a write through a view
    that functionalisation gets wrong."""
    storages = Storages(program.graph.nodes)
    defaults = torch.export.default_decompositions()
    writers = [n for n in program.graph.nodes if mutates(n)]
    written = {storages.of(w) for n in writers for w in written_by(n)}
    table: dict[Any, Any] = {}
    for node in program.graph.nodes:
        inputs = node.all_input_nodes if _hides_alias(node) else []
        if not any(storages.of(argument) in written for argument in inputs):
            continue
        if node.target in defaults:  # its get() doesn't see the composite operators
            table[node.target] = defaults[node.target]
        elif not op_key(node.target).startswith("atleast"):  # which are always taken apart
            raise InvalidModelError(
                f"a tensor is written in place that {node.target} may share memory with",
                where=str(location(node)), hint=_HINT,
            )  # fmt: skip
    for writer in writers:
        for target in written_by(writer):
            for view in storages.views_up_to(target):
                if why := _lossy(view):
                    raise InvalidModelError(
                        f"a tensor is written in place through {op_key(view.target)}, {why}",
                        where=str(location(writer)), hint=_HINT,
                    )  # fmt: skip
    return table


def _lossy(node: Node) -> str:
    """Why torch's functionalisation can't carry a write through this view back to its base: it
    sums what lies at one place, and forgets what lies between windows; "" if it can."""
    if _key(node) in ("broadcast_tensors", "meshgrid"):
        return "whose elements may be one in memory"
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or mutates(node):
        return ""
    if _key(node) == "unfold" and value.dim() > 1:
        length = node.args[0].meta["val"].shape[node.args[1]]  # type: ignore[union-attr,index]
        size, step = (int(a) for a in node.args[2:])  # type: ignore[arg-type]
        whole = size == step and isinstance(length, int) and length % size == 0
        return "" if whole else "whose windows overlap or leave something out"
    same = (isinstance(s, int) and s == 0 for s in value.stride())
    one = (isinstance(n, int) and n == 1 for n in value.shape)
    if any(s and not n for s, n in zip(same, one, strict=True)):
        return "where several elements are one in memory"
    return ""
