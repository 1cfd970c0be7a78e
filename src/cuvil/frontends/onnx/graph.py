"""The order of a graph's nodes: which are needed, and in which order they can be read."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto

from cuvil.errors import InvalidModelError


def node_label(node: NodeProto, index: int) -> str:
    """A node's name; ``Conv_12`` for the nameless."""
    return str(node.name) or f"{node.op_type}_{index}"


def subgraphs(node: NodeProto) -> Iterator[Any]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def reads(node: NodeProto, depth: int = 0) -> set[str]:
    """The names a node reads: its inputs, and what its subgraphs take from outside."""
    if depth > 64:
        raise InvalidModelError("graphs are nested more than 64 deep")
    names = {name for name in node.input if name}
    if node.op_type == "Gradient":  # it also names the tensor that is differentiated
        names |= {a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "y"}
    for graph in subgraphs(node):
        inside = {value.name for value in graph.input} | {t.name for t in graph.initializer}
        for inner in graph.node:
            inside.update(inner.output)
        for inner in graph.node:
            names |= reads(inner, depth + 1) - inside
        names |= {value.name for value in graph.output} - inside
    return names


def ordered(
    nodes: Sequence[NodeProto], outputs: Iterable[str], known: Iterable[str], outer: Any = ()
) -> list[tuple[int, NodeProto]]:
    """The nodes the outputs depend on, with their index, each after those it reads from.

    ``known`` are the graph's own inputs and constants; ``outer`` answers ``name in outer`` for
    what enclosing graphs define. Raises InvalidModelError where a name has two makers or none,
    or where nodes wait for each other in a circle.
    """
    makers: dict[str, int] = {}
    given = set(known)
    for i, node in enumerate(nodes):
        for name in node.output:
            if name and (name in makers or name in given):
                raise InvalidModelError(
                    f"tensor {name!r} is produced twice", where=node_label(node, i)
                )
            if name:
                makers[name] = i
    sources = [reads(node) for node in nodes]
    needed = _needed(nodes, outputs, makers, sources, given, outer)
    waiting = {i: {makers[n] for n in sources[i] if n in makers} for i in needed}
    users: dict[int, list[int]] = {i: [] for i in needed}
    for i, before in waiting.items():
        for j in before:
            users[j].append(i)
    ready = [i for i in needed if not waiting[i]]
    heapq.heapify(ready)
    order: list[tuple[int, NodeProto]] = []
    while ready:
        i = heapq.heappop(ready)
        order.append((i, nodes[i]))
        for j in users[i]:
            waiting[j].discard(i)
            if not waiting[j]:
                heapq.heappush(ready, j)
    if len(order) < len(needed):
        done = {i for i, _ in order}
        circle = [node_label(nodes[i], i) for i in sorted(needed - done)][:7]
        raise InvalidModelError(f"nodes of the graph form a cycle: {', '.join(circle)}")
    return order


def _needed(
    nodes: Sequence[NodeProto],
    outputs: Iterable[str],
    makers: dict[str, int],
    sources: list[set[str]],
    given: set[str],
    outer: Any,
) -> set[int]:
    needed: set[int] = set()
    todo: list[tuple[str, str]] = [(name, "the graph's outputs") for name in outputs]
    while todo:
        name, reader = todo.pop()
        i = makers.get(name)
        if i is None:
            if name in given or name in outer:
                continue
            raise InvalidModelError(
                f"tensor {name!r} is read, but nothing in the model produces it", where=reader
            )
        if i not in needed:
            needed.add(i)
            label = node_label(nodes[i], i)
            todo.extend((n, label) for n in sorted(sources[i]))
    return needed
