"""Programs without in-place writes, and torch's own decomposition of single operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export.aliases import (
    Storages,
    hidden_views,
    mutates,
    show_views,
    written_by,
)
from cuvil.frontends.torch_export.convert import node_metas, op_key
from cuvil.frontends.torch_export.fused_layers import FUSED
from cuvil.frontends.torch_export.own_state import state_refused
from cuvil.frontends.torch_export.program import honest_shapes
from cuvil.frontends.torch_export.table import COMPLEX_RULES, RULES, SILENT, rule_for
from cuvil.ops.custom import CUSTOM

NameOf = Callable[[str], str]
# What torch says of a tensor that is an attribute, but no buffer.
_WRITTEN_CONSTANT = re.compile(r"Constant (\S+) is mutated")
_VMAP = "torch._functorch.predispatch"
_AUTOCAST = "wrap_with_autocast"
_DERIVATIVES = ("_for_grad", "_grad_increment_nesting", "_jvp_increment_nesting")


def _plain_chain(node: Node, written: Node) -> bool:
    """Whether ``node`` is ``written`` itself or the result of an in-place op on it."""
    while node is not written:
        if not mutates(node) or not node.args or not isinstance(node.args[0], Node):
            return False
        node = node.args[0]
    return True


def has_entangled_writes(program: ExportedProgram) -> bool:
    """Whether some in-place op writes to a tensor that has another name: a view, an input, a
    weight. (Fake tensors of a trace share storages as the real ones would.)"""
    writers = [n for n in program.graph.nodes if mutates(n)]
    if not writers:
        return False
    storages = Storages(program.graph.nodes)
    for writer in writers:
        for written in written_by(writer):
            root = _root(written)
            group = storages.of(written)
            if root.op == "placeholder" or group is None:
                return True
            if not all(_plain_chain(other, root) for other in storages.groups[group]):
                return True
    return False


def _root(node: Node) -> Node:
    while mutates(node) and node.args and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def _inner_nodes(program: ExportedProgram) -> Iterator[Node]:
    """The nodes of the graphs that operators of the program hold."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule) and module is not program.graph_module:
            yield from module.graph.nodes


def _needs_renaming(program: ExportedProgram) -> bool:
    """Whether a graph inside writes in place, or vmap has left its marks: what is done to names
    here can't follow either."""
    if any(mutates(n) for n in _inner_nodes(program)):
        return True
    nodes = (*program.graph.nodes, *_inner_nodes(program))
    return any(getattr(n.target, "__module__", "") == _VMAP for n in nodes)


def _has_autocast(program: ExportedProgram) -> bool:
    """Whether torch.autocast holds a graph, to which torch adds the casts when it is traced."""
    nodes = (*program.graph.nodes, *_inner_nodes(program))
    return any(op_key(n.target) == _AUTOCAST for n in nodes)


def _refuse_gradients(program: ExportedProgram) -> None:
    """Raise InvalidModelError for derivatives that the model takes while it runs: a program has
    only the marks at which torch would record them."""
    for node in (*program.graph.nodes, *_inner_nodes(program)):
        if any(mark in str(node.target) for mark in _DERIVATIVES):
            raise InvalidModelError(
                "the model takes derivatives while it runs (torch.func.grad, jacrev, jvp or the "
                "like), which torch.export does not write out",
                hint="write the derivative as a formula, or trace it beforehand with "
                "torch.fx.experimental.proxy_tensor.make_fx and compile the graph that it gives",
            )


def _has_tensors_in_one(program: ExportedProgram) -> bool:
    """Whether it reads tensors out of others, as torchao keeps codes and scales in a weight."""
    return any("access_subclass_inner_tensor" in str(n.target) for n in program.graph.nodes)


def functional(program: ExportedProgram, name_of: NameOf = str) -> ExportedProgram:
    """The program without in-place ops on aliased tensors.

    Writes to a tensor with one name only are renamed during translation; the others need torch's
    own functionalisation, which an empty decomposition table asks for (operators stay whole). So
    do torch.autocast, whose casts become operators, and weights that are several tensors in one.
    """
    _refuse_gradients(program)
    if any(mutates(n) for n in program.graph.nodes):
        show_views(program)
    whole = not (_has_autocast(program) or _has_tensors_in_one(program))
    if whole and not (has_entangled_writes(program) or _needs_renaming(program)):
        return program
    hidden = hidden_views(program)
    try:
        with honest_shapes():
            plain: ExportedProgram = program.run_decompositions(hidden)
            if _needs_renaming(plain):
                raise InvalidModelError("a graph inside it still writes in place")
            return plain
    except Exception as error:
        if not has_entangled_writes(program) and not _needs_renaming(program):
            return program  # what was to be taken apart is refused, with its line
        constant = _WRITTEN_CONSTANT.search(str(error))
        if constant is not None:
            raise state_refused(name_of(constant[1])) from error
        raise InvalidModelError(
            f"the model's in-place writes can't be made functional: {str(error)[:400]}",
            hint="replace in-place operations on views by torch.where, cat or scatter",
        ) from error


def written_buffers(program: ExportedProgram, name_of: NameOf = str) -> list[str]:
    """Notes on inputs that the model writes to. Raises InvalidModelError where it keeps state
    in its buffers, because an artifact's calls are independent of each other; ``name_of`` tells
    the model's own name of one."""
    checked = program
    if any(mutates(n) for n in program.graph.nodes):
        checked = functional(program, name_of)
    notes = []
    for item in checked.graph_signature.output_specs:
        if item.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            raise state_refused(name_of(str(item.target)))
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
    they work with symbolic sizes, and with what they become that Cuvil has no rule for either;
    else the program itself."""
    defaults = torch.export.default_decompositions()
    chosen = {t: rule for t in targets if (rule := _decomposition(t, defaults)) is not None}
    if not chosen:
        return program
    for table in (_deeper(defaults) | chosen, chosen):
        try:
            with honest_shapes():
                shorter: ExportedProgram = program.run_decompositions(dict(table))
                return shorter
        except Exception:  # noqa: PERF203  torch can't: what is left is reported as unsupported
            continue
    return program


def _decomposition(target: Any, defaults: Any) -> Any:
    """Torch's rule that takes an operator apart, or None: Python's own functions have none."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    found = FUSED.get(target)
    if found is not None:
        return found
    if target.namespace == "aten":  # the table's own lookup would search all other namespaces
        found = defaults.decomp_table.get(target)
    elif target in defaults:
        found = defaults[target]
    return found or torch._decomp.decomposition_table.get(target)


def _deeper(defaults: Any) -> dict[Any, Any]:
    """Torch's rules for the operators that Cuvil has none for, whatever their arguments: what
    one operator becomes is taken apart in the same round."""
    return {t: rule for t, rule in defaults.decomp_table.items() if not _has_meaning(t)}


def _has_meaning(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload) or CUSTOM.find(str(target._schema.name)):
        return True
    key = op_key(target)
    return key in SILENT or key in RULES or key in COMPLEX_RULES
