"""Which versions of kernels are written: those whose code differs, within a budget.

What a version knows more than the kernel for all sizes are constants and bounds. Where its loops
come out the same, only arguments of native functions would differ, which gains nothing; so it is
left out. Those that fix the most sizes come first, of equal ones those of the largest kernels; all
together are as much code as the kernels for all sizes, or LEAST_TEXT where that is more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuvil.analysis.cost import estimate
from cuvil.codegen.contraction_kernel import contraction_kernel
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.map_kernel import map_kernel
from cuvil.codegen.reduce_kernel import reduce_kernel
from cuvil.codegen.standalone import standalone_kernel
from cuvil.ir.clone import clone_op
from cuvil.ir.control import blocks
from cuvil.ir.core import Block, Function, Op
from cuvil.ir.late import late_symbols
from cuvil.passes.knobs import ALGORITHM, TUNE, candidates
from cuvil.passes.tuning import VARIANTS, set_choice
from cuvil.passes.variants import Variant, When, symbols_in, variants_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.sym.expr import Dim, evaluate, substitute, symbols_of
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

LEAST_TEXT = 48 << 10
"""Characters of versions that any model may have."""
_LEAST_SHARE = 0.01  # of the time of all kernels: below it nothing is worth choosing
_MOST_WAYS = 6
_USUAL = 64  # what an open symbol is taken to be, within its bounds, to tell large kernels


@dataclass(frozen=True)
class Version:
    """A kernel's code where ``when`` holds; ``op`` is a copy that has been told so, or, with an
    empty ``when``, the op itself. One that is not ``is_fixed`` is run only if chosen later."""

    when: When
    op: Op
    kernel: Kernel
    is_fixed: bool = True


@dataclass
class Versions:
    """The versions that are written, by id of the op, in the order in which they are asked;
    ``left_out`` are those for which there was no room."""

    of: dict[int, list[Version]]
    left_out: int = 0


def kernel_of(op: Op, facts: Facts, target: Target) -> Kernel:
    """The kernel of an op at stage "fused"."""
    if op.short != "fused":
        kernel = standalone_kernel(op, facts, target)
    elif op.attrs["kind"] == "map":
        kernel = map_kernel(op, facts)
    elif op.attrs["kind"] == "reduce":
        kernel = reduce_kernel(op, facts)
    else:
        kernel = contraction_kernel(op, facts, target)
    if op.attrs.get(TUNE, {}).get("serial"):
        kernel.launch = kernel.launch.replace("rc.pool", "nullptr")
        kernel.body = kernel.body.replace("rc.pool", "nullptr")
    return kernel


def choose_versions(
    function: Function, facts: Facts, target: Target, retuned: bool = False
) -> Versions:
    """The versions of a function's kernels that are worth their code; if ``retuned``, behind those
    the ways by which the larger kernels may be run besides."""
    late = set(late_symbols(function))
    found: list[tuple[tuple[int, float], int, Op, Version]] = []
    usual = text = 0
    for op in (o for block in blocks(function) for o in block.ops if o.short == "fused"):
        asked = variants_of(op)
        if not asked or symbols_in(op) & late:
            continue
        general = kernel_of(op, facts, target)
        usual += _length(general)
        every = [Version({}, op, general)]
        for variant in reversed(asked):
            made = _version(op, variant, facts, target)
            if _differs(made, _without(made, every), variant):
                every.insert(0, made)
        for made in every[:-1]:
            rank = (-len(Variant(made.when).exact), -_seconds(op, made.when, facts))
            found.append((rank, len(found), op, made))
    room = max(usual, LEAST_TEXT)
    kept = []
    for _, order, op, made in sorted(found, key=lambda item: item[:2]):
        text += _length(made.kernel)
        if text > room:
            break
        kept.append((order, op, made))
    versions = Versions({}, len(found) - len(kept))
    for _, op, made in sorted(kept, key=lambda item: item[0]):
        versions.of.setdefault(id(op), []).append(made)
    if retuned and not late:
        for op in _larger(function, facts):
            versions.of.setdefault(id(op), []).extend(_ways(op, facts, target))
    return versions


def _larger(function: Function, facts: Facts) -> list[Op]:
    """The kernels outside control flow that take more than a small share of the time."""
    ops = [op for op in function.body.ops if op.short == "fused"]
    seconds = [_seconds(op, {}, facts) for op in ops]
    return [op for op, own in zip(ops, seconds, strict=True) if own >= _LEAST_SHARE * sum(seconds)]


def _ways(op: Op, facts: Facts, target: Target) -> list[Version]:
    """The kernel with one knob turned; those that need weights in another layout are left out."""
    general = kernel_of(op, facts, target)
    found = []
    for choice in candidates(op, target, target.has_threads):
        if ALGORITHM in choice:
            continue
        made = _version(op, Variant({}, choice), facts, target, is_fixed=False)
        if (made.kernel.body, made.kernel.launch) != (general.body, general.launch):
            found.append(made)
    return found[:_MOST_WAYS]


def larger_scratch(own: Dim | None, general: Dim | None, when: When) -> Dim | None:
    """The scratch memory of a version, None where that of the kernel for all sizes is as large."""
    if own is None or own == general:
        return None
    sizes: dict[str, Dim] = dict(Variant(when).exact)
    covered = general is not None and substitute(general, sizes) == own
    return None if covered else own


def _version(
    op: Op, variant: Variant, facts: Facts, target: Target, is_fixed: bool = True
) -> Version:
    copy = _copy(op, variant)
    kernel = kernel_of(copy, _narrowed(facts, variant), target)
    kernel.title += "".join(_suffix(name, span) for name, span in variant.when.items())
    kernel.title += "".join(f"_{knob}_{value}" for knob, value in (variant.choice or {}).items())
    return Version(variant.when, copy, kernel, is_fixed)


def _copy(op: Op, variant: Variant) -> Op:
    """The op in a block of its own, sizes that have one value replaced: constants are copied,
    other operands become arguments, so that nothing of the function changes."""
    sizes: dict[str, Dim] = dict(variant.exact)
    free = [v for v in op.operands if v.op is None or v.op.short != "constant"]
    body = Block([v.type.substitute(sizes) for v in free])
    rewriter = Rewriter(Function("version", body, [], []))
    rewriter.at_end(body)
    arguments = iter(body.args)
    operands = [
        rewriter.insert(clone_op(v.op, {})).result
        if v.op is not None and v.op.short == "constant" else next(arguments)
        for v in op.operands
    ]  # fmt: skip
    made = rewriter.insert(clone_op(op, {}, sizes, operands))
    rewriter.set_attrs(made, **{VARIANTS: None})
    if variant.choice is not None:
        rewriter.set_attrs(made, **{TUNE: None})
        set_choice(rewriter, made, variant.choice)
    return made


def _narrowed(facts: Facts, variant: Variant) -> Facts:
    table = {n: span for n, span in facts.symbols.items() if n not in variant.exact}
    for name, (low, high) in variant.when.items():
        if name in table:
            least, most = table[name]
            ends = [end for end in (most, None if high is None else high - 1) if end is not None]
            table[name] = (max(low, least), min(ends, default=None))
    return Facts(table, facts.loops, facts.assumed)


def _suffix(name: str, span: tuple[int, int | None]) -> str:
    low, high = span
    end = "" if high == low + 1 else "_up" if high is None else f"_{high - 1}"
    return f"_{name}_{low}{end}"


def _without(made: Version, later: Sequence[Version]) -> Version:
    """What would run in its place: the next one that holds wherever it does."""
    return next(other for other in later if other.when.items() <= made.when.items())


def _differs(made: Version, other: Version, variant: Variant) -> bool:
    if made.kernel.body != other.kernel.body:
        return True
    return variant.choice is not None and made.kernel.launch != other.kernel.launch


def _length(kernel: Kernel) -> int:
    fields = len(kernel.unpack()) * (kernel.body.count("@UNPACK@") + 1)
    return len(kernel.body) + len(kernel.launch) + fields


def _seconds(op: Op, when: When, facts: Facts) -> float:
    """What the cost model takes one call for, where ``when`` begins."""
    cost = estimate(op)
    return float(evaluate(cost, usual_sizes(symbols_of(cost), when, facts.symbols)))


def usual_sizes(
    names: Iterable[str], when: When, bounds: Mapping[str, tuple[int, int | None]]
) -> dict[str, int]:
    """Sizes of symbols: where ``when`` begins, else a usual one within the bounds."""
    table = {}
    for name in names:
        low, high = bounds.get(name, (0, None))
        table[name] = max(low, _USUAL if high is None else min(_USUAL, high))
        if name in when:
            table[name] = max(when[name][0], low)
    return table
