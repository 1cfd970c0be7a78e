"""What the pictures show: the kernels of a compilation as plain nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuvil.analysis.cost import kernel_cost
from cuvil.ir.control import inside, is_control, lead_of
from cuvil.ir.core import Module, Op, Value
from cuvil.rewrite.rewriter import Trace
from cuvil.runtime.profile import KernelTime, Profile, time_text
from cuvil.verify.layerwise import ops_inside, places


@dataclass(frozen=True)
class Made:
    """What one compilation made: the fused module, its calls of kernels, what the rules did."""

    module: Module
    calls: Sequence[tuple[str, Op]]
    trace: Trace


@dataclass(frozen=True)
class Node:
    """One kernel. ``reads`` are the numbers of the kernels whose results it reads, ``share`` is its
    part of the time (of the operations, where nothing was timed), ``stops`` are (what was not taken
    in, why)."""

    number: int
    name: str
    kind: str
    share: float
    figures: str
    ops: tuple[str, ...]
    places: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reads: tuple[int, ...] = ()
    stops: tuple[tuple[str, str], ...] = ()
    facts: tuple[str, ...] = field(default=())


def nodes_of(made: Made, profile: Profile | None) -> list[Node]:
    """The kernels in the order in which they run."""
    times = {k.info.number: k for k in profile.kernels} if profile is not None else {}
    reads = _Reads(made)
    flops = [_known(kernel_cost(op).flops) for _, op in made.calls]
    stops: dict[int, list[tuple[str, str]]] = {}
    for op, read, reason in made.trace.stops:
        stops.setdefault(id(op), []).append((read, reason))
    nodes = []
    for number, (name, op) in enumerate(made.calls):
        time = times.get(number)
        share = flops[number] / max(sum(flops), 1)
        if profile is not None:
            share = profile.share(time) if time is not None else 0.0
        info = time.info if time is not None else None
        nodes.append(
            Node(
                number,
                name.removeprefix("k_"),
                op.attrs["kind"] if op.short == "fused" else "alone",
                share,
                _figures(time, share),
                tuple(ops_inside(op)),
                places(op),
                info.inputs if info else _types(op.operands),
                info.outputs if info else _types(op.results),
                reads.of(op),
                tuple(stops.get(id(op), ())),
                _facts(time),
            )
        )
    return nodes


def _figures(time: KernelTime | None, share: float) -> str:
    if time is None:
        return f"{share:.1%}"
    text = f"{time_text(time.seconds)} · {share:.1%}"
    if time.of_ceiling is not None:
        text += f" · {time.of_ceiling:.0%} of {time.bound}"
    return text


def _facts(time: KernelTime | None) -> tuple[str, ...]:
    if time is None:
        return ()
    found = [f"runs {time.calls} times a call"] if time.calls > 1 else []
    for value, unit in ((time.flop_rate, "GFLOP/s"), (time.byte_rate, "GB/s")):
        if value is not None:
            found.append(f"{value / 1e9:.3g} {unit}")
    if time.intensity is not None:
        found.append(f"{time.intensity:.3g} operations a byte")
    return tuple(found)


def _known(size: object) -> int:
    return size if isinstance(size, int) else 0


def _types(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(f"{v.type.dtype}[{', '.join(map(str, v.type.shape))}]" for v in values)


class _Reads:
    """Which kernels make what a kernel reads, through reshapes and control flow."""

    def __init__(self, made: Made) -> None:
        self._makers = {
            id(result): number
            for number, (_, op) in enumerate(made.calls)
            for result in op.results
        }
        self._behind: Mapping[int, list[Value]] = _behind(made.module)

    def of(self, op: Op) -> tuple[int, ...]:
        """The numbers of the kernels, in order."""
        found: set[int] = set()
        todo, seen = list(op.operands), set[int]()
        while todo:
            value = todo.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            maker = self._makers.get(id(value))
            if maker is not None:
                found.add(maker)
                continue
            todo += self._behind.get(id(value), ())
            if value.op is not None and value.op.short == "reshape":
                todo.append(value.op.operands[0])
        return tuple(sorted(found))


def _behind(module: Module) -> dict[int, list[Value]]:
    """What the arguments of regions and the results of control flow stand for."""
    found: dict[int, list[Value]] = {}
    for op in module.main.walk():
        if not is_control(op):
            continue
        for place in range(lead_of(op), len(op.operands)):
            for arg in inside(op, place):
                found.setdefault(id(arg), []).append(op.operands[place])
        for region in op.regions:
            ends = region.terminator.operands
            for result, value in zip(op.results, ends[max(0, len(ends) - len(op.results)) :]):
                found.setdefault(id(result), []).append(value)
    return found
