"""Which operators a model holds and how each will be run, read off its fused form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cuvil.codegen.standalone import builder_of
from cuvil.errors import UnsupportedNode
from cuvil.ir.control import blocks, is_control
from cuvil.ir.core import Function, Location, Module, Op
from cuvil.ops.custom import CUSTOM
from cuvil.ops.registry import registry
from cuvil.passes.stages import DECOMPOSED
from cuvil.verify.layerwise import kernel_name, ops_inside, places

_FREE = ("constant", "reshape", "sizes", "keep", "kept", "return")


def missing_kernels(fused: Module) -> list[UnsupportedNode]:
    """The ops of a module at stage "fused" that no kernel exists for."""
    return [
        UnsupportedNode(
            op.name, str(op.results[0].type.dtype), str(op.loc), "there is no kernel for it yet"
        )
        for op in _every(fused.main)
        if op.short not in (*_FREE, "fused") and builder_of(op) is None
    ]


def _every(function: Function) -> Iterator[Op]:
    """The ops of the body and of control flow's regions; control flow itself is no kernel."""
    for block in blocks(function):
        yield from (op for op in block.ops if op.results and not is_control(op))


def operator_table(
    captured: Function, fused: Module, missing: Sequence[UnsupportedNode]
) -> dict[str, Any]:
    """Plain data: ``operators``, ``kernels`` and ``unsupported`` of a model that was captured.

    An operator's entry has its name, the source's operators it stands for, dtypes, count, and how
    many of them are run in which way.
    """
    known = _Known(fused.main)
    table: dict[str, dict[str, Any]] = {}
    for op in captured.walk():
        if not op.results:
            continue
        if is_control(op):
            known.exact[op.loc, op.short] = "branches and loops of the entry"
        empty = {"op": op.short, "source": {}, "dtypes": {}, "count": 0, "how": {}}
        entry = table.setdefault(op.short, empty)
        entry["count"] += 1
        if op.short != "constant":
            _count(entry["source"], _source_name(op.loc))
        _count(entry["dtypes"], str(op.results[0].type.dtype))
        _count(entry["how"], known.how(op))
    for step in fused.call.get("host", {}).get("steps", ()):
        empty = {"op": step["op"], "source": {}, "dtypes": {}, "count": 0, "how": {}}
        entry = table.setdefault(step["op"], empty)
        entry["count"] += 1
        _count(entry["dtypes"], "str")
        _count(entry["how"], "in Python, before the library")
    kernels = [
        {
            "name": kernel_name(op),
            "kind": op.attrs["kind"] if op.short == "fused" else "alone",
            "ops": ops_inside(op),
            "places": places(op),
        }
        for op in _every(fused.main)
        if op.short not in _FREE
    ]
    return {
        "operators": [table[name] for name in sorted(table)],
        "kernels": kernels,
        "unsupported": unsupported_table(missing),
    }


def unsupported_table(nodes: Iterable[UnsupportedNode]) -> list[dict[str, str]]:
    """The nodes as plain data."""
    return [asdict(node) for node in nodes]


def _count(table: dict[str, int], key: str) -> None:
    table[key] = table.get(key, 0) + 1


def _source_name(place: Location) -> str:
    """The source's operator: an ONNX node's type, or a traced call's name without its number."""
    if place.source and ":" not in place.source:
        return place.source
    return re.sub(r"_\d+$", "", place.name)


class _Known:
    """How the ops of each place of the source are run."""

    def __init__(self, fused: Function) -> None:
        self.exact: dict[tuple[Location, str], str] = {}
        self.at: dict[Location, str] = {}
        for op, how in _ways(fused):
            self.exact.setdefault((op.loc, op.short), how)
            if _fusion(op) not in ("movement", "source"):
                self.at.setdefault(op.loc, how)

    def how(self, op: Op) -> str:
        """One short phrase."""
        if op.short == "constant":
            return "weight"
        exact = self.exact.get((op.loc, op.short))
        if exact is not None:
            return exact
        place = self.at.get(op.loc)
        if place is None or _fusion(op) == "movement":
            return "folded away"
        return f"{'decomposed' if op.short in DECOMPOSED else 'rewritten'}; {place}"


def _fusion(op: Op) -> str:
    definition = registry().get(op.name)
    return definition.fusion if definition is not None else "control"


def _ways(function: Function) -> Iterator[tuple[Op, str]]:
    for op in _every(function):
        if op.short == "reshape":
            yield op, "free (same memory)"
        elif op.short == "fused":
            yield from _inside(op)
        elif op.short not in _FREE:
            yield op, _alone(op)


def _alone(op: Op) -> str:
    registered = CUSTOM.of(op.name)
    if registered is not None and registered.python is not None:
        return "Python function in this process"
    missing = "" if builder_of(op) is not None else " that does not exist yet"
    return f"kernel of its own{missing}"


def _inside(fused: Op) -> Iterator[tuple[Op, str]]:
    kind = fused.attrs["kind"]
    for op in fused.regions[0].ops:
        fusion = _fusion(op)
        if op.short in ("yield", "constant"):
            continue
        if fusion == "movement":
            yield op, f"index arithmetic in a {kind} kernel"
        elif fusion == "contraction":
            yield op, f"native template ({op.short})"
        elif kind == "contraction":
            yield op, "on a contraction's tile in registers"
        else:
            yield op, f"{kind} kernel"
