"""Which kernels of a module are worth measuring, and the module in which they are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuvil.analysis.cost import kernel_cost
from cuvil.errors import CuvilError
from cuvil.ir.clone import ValueMap, clone_op
from cuvil.ir.core import Block, Function, Module, Op, Value
from cuvil.ir.types import TensorType
from cuvil.passes.knobs import Choice, candidates
from cuvil.passes.tuning import fused_ops, kernel_key, set_choice
from cuvil.rewrite.rewriter import Rewriter
from cuvil.sym.expr import Dim, evaluate
from cuvil.target.base import Target
from cuvil.verify.layerwise import places

# Only their magnitudes matter: they say which kernels come first.
_WORK_RATE, _BYTE_RATE = 1e11, 2e10
_LEAST_SHARE = 0.002  # of all kernels' time: below it a kernel is not worth measuring


@dataclass(frozen=True)
class Tunable:
    """A kernel that occurs ``count`` times: ``ways[0]`` is as computed. ``sizes`` are those of its
    symbols, ``seconds`` an estimate of one call, ``bytes`` what it reads and writes."""

    key: str
    op: Op
    ways: tuple[Choice, ...]
    sizes: Mapping[str, int]
    seconds: float
    bytes: int
    count: int = 1

    @property
    def name(self) -> str:
        """What the kernel is called."""
        return str(self.op.attrs["name"])

    @property
    def where(self) -> str:
        """Where in the source the first of them comes from."""
        return places(self.op)


def tunable_kernels(
    module: Module, sizes: Mapping[str, int], target: Target, parallel: bool
) -> list[Tunable]:
    """The distinct kernels of a fused module that have something to choose, those that take the
    most time first. Kernels whose size is not known before the call are left out."""
    found: dict[str, Tunable] = {}
    total = 0.0
    for op in fused_ops(module):
        made = _tunable(op, module.main, sizes, target, parallel)
        if made is None:
            continue
        total += made.seconds
        known = found.get(made.key)
        found[made.key] = made if known is None else replace(known, count=known.count + 1)
    worth = [
        kernel for kernel in found.values()
        if len(kernel.ways) > 1 and kernel.seconds * kernel.count >= _LEAST_SHARE * total
    ]  # fmt: skip
    return sorted(worth, key=lambda kernel: -kernel.seconds * kernel.count)


def _tunable(
    op: Op, function: Function, sizes: Mapping[str, int], target: Target, parallel: bool
) -> Tunable | None:
    used: set[str] = set()
    for value in (*op.operands, *op.results):
        used |= value.type.symbols()
    own = {name: sizes[name] for name in sorted(used) if name in sizes}
    if len(own) < len(used):
        return None
    cost = kernel_cost(op)
    try:
        work = evaluate(cost.work, own)
        moved = sum(evaluate(size, own) for size in (cost.reads, cost.weights, cost.writes))
        empty = any(evaluate(v.type.elements, own) < 1 for v in (*op.operands, *op.results))
    except CuvilError:
        return None
    if empty:
        return None
    ways: tuple[Choice, ...] = ({}, *candidates(op, target, parallel))
    key = kernel_key(op, function.symbols)
    return Tunable(key, op, ways, own, work / _WORK_RATE + moved / _BYTE_RATE, moved)


def bench_module(kernels: Sequence[Tunable]) -> Module:
    """A module that runs every way of every kernel, as :func:`calls_of` has it.

    Operands that are no constants become inputs, in order; symbols have their sizes.
    """
    values: ValueMap = {}
    types, names = [], []
    for number, kernel in enumerate(kernels):
        for index, value in enumerate(kernel.op.operands):
            if not _is_constant(value):
                types.append(_sized(value.type, kernel.sizes))
                names.append(f"x{number}_{index}")
    body = Block(types, names)
    function = Function("main", body, names, ["y"])
    rewriter = Rewriter(function)
    rewriter.at_end(body)
    free = iter(body.args)
    operands = [
        [
            _constant(value, values, rewriter) if _is_constant(value) else next(free)
            for value in kernel.op.operands
        ]
        for kernel in kernels
    ]
    first: Op | None = None
    for number, way in calls_of(kernels):
        kernel = kernels[number]
        made = rewriter.insert(clone_op(kernel.op, {}, dict(kernel.sizes), operands[number]))
        set_choice(rewriter, made, kernel.ways[way])
        first = first or made
    assert first is not None
    rewriter.op("func.return", first.results[:1], result_types=())
    return Module(function, "tuning", "fused")


def calls_of(kernels: Sequence[Tunable]) -> list[tuple[int, int]]:
    """(kernel, way) of each call of :func:`bench_module`.

    A kernel's ways stand at equal distances, others' between them, so that each finds in the
    caches what as much other work left there. The way as computed comes a second time, halfway:
    where the two differ, so much is due to the place alone.
    """
    placed = []
    for number, kernel in enumerate(kernels):
        ways = list(range(len(kernel.ways)))
        ways.insert((len(ways) + 1) // 2, 0)
        offset = (number + 0.5) / len(kernels)
        placed += [((i + offset) / len(ways), number, way) for i, way in enumerate(ways)]
    return [(number, way) for _, number, way in sorted(placed)]


def _is_constant(value: Value) -> bool:
    return value.op is not None and value.op.short == "constant"


def _constant(value: Value, values: ValueMap, rewriter: Rewriter) -> Value:
    if value not in values:
        assert value.op is not None
        rewriter.insert(clone_op(value.op, values))
    return values[value]


def _sized(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    table: dict[str, Dim] = dict(sizes)
    return type if type.is_static else type.substitute(table)
