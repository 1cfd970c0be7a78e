"""The options ``variants`` and ``retune``: for which sizes kernels have versions of their own, and
that a running process chooses among them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuvil.analysis.cost import estimate
from cuvil.api.manifest import signature_of
from cuvil.build.store import digest_of
from cuvil.codegen.dispatch import Texts, WayTable
from cuvil.codegen.module import Generated
from cuvil.codegen.versions import Version
from cuvil.errors import InputError, TargetError
from cuvil.errors.words import shown
from cuvil.ir.core import Function, Op
from cuvil.ir.late import call_symbols, late_symbols
from cuvil.ir.signature import MAX_SYMBOL
from cuvil.passes.knobs import TUNE
from cuvil.passes.tuning import kernel_key
from cuvil.passes.variants import Range, VariantPlan, When, range_text, symbols_in
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.described import BY_SIZE
from cuvil.runtime.ways import Ways
from cuvil.sym.expr import Dim, add
from cuvil.target.base import Target
from cuvil.tune.retuner import SECONDS, RetunePlan
from cuvil.tune.sizes import sizes_to_measure
from cuvil.tune.versions import SECONDS as ALL_SECONDS
from cuvil.tune.versions import Measured, chosen_versions, measure_versions, typical_sizes
from cuvil.tune.watch import RETUNE

log = logging.getLogger("cuvil")

MOST_CELLS = 64
CUTS = (2, 16, 64)
AUTO = "auto"
_NUMBERS = (int, float, np.integer, np.floating)
_HINT = (
    'give sizes, such as {"batch": [1, 4, 8]}, or ranges: {"batch": [[1, 16], [16, None]]}; or '
    '"auto", to have them measured; or the `variants` of an artifact'
)


def variants_asked(asked: object) -> VariantPlan:
    """What the option means. Raises InputError for anything else than sizes and ranges by symbol,
    in order and apart from each other."""
    if asked is None:
        return VariantPlan()
    if not isinstance(asked, Mapping):
        raise InputError(f"the option variants is {shown(asked)}", hint=_HINT)
    plan = VariantPlan({str(name): _ranges(str(name), given) for name, given in asked.items()})
    if len(plan.cells(list(plan.ranges))) > MOST_CELLS:
        raise InputError(
            f"the option variants makes more than {MOST_CELLS} combinations of ranges",
            hint="name fewer sizes, or fewer symbols",
        )
    return plan


def _ranges(name: str, given: object) -> tuple[Range, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or not given:
        raise InputError(f"the option variants has {given!r} for {name}", hint=_HINT)
    found: list[Range] = []
    for entry in given:
        span = _range(name, entry)
        before = found[-1] if found else None
        if before is not None and (before[1] is None or span[0] < before[1]):
            relation = "overlaps" if _overlap(before, span) else "comes after"
            raise InputError(
                f"the option variants has {range_text(name, span)}, which {relation} "
                f"{range_text(name, before)}",
                hint="give sizes and ranges in rising order; a range ends before its second number",
            )
        found.append(span)
    return tuple(found)


def _overlap(a: Range, b: Range) -> bool:
    return (a[1] is None or b[0] < a[1]) and (b[1] is None or a[0] < b[1])


def _range(name: str, entry: object) -> Range:
    if _whole(entry):
        return _in_reach(name, (int(str(entry)), int(str(entry)) + 1))
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        low, high = entry
        if _whole(low) and (high is None or (_whole(high) and high > low)):
            return _in_reach(name, (int(low), None if high is None else int(high)))
    raise InputError(
        f"the option variants has {entry!r} for {name}, which is no size and no range", hint=_HINT
    )


def _in_reach(name: str, span: Range) -> Range:
    """The range as it is. Raises InputError for sizes that no call can have."""
    low, high = span
    if low > MAX_SYMBOL or (high is not None and high - 1 > MAX_SYMBOL):
        raise InputError(
            f"the option variants has {range_text(name, span)}; a size is at most {MAX_SYMBOL}",
            hint="name a size that a call can have; a range without an end ends in None",
        )
    return span


def _whole(value: object) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and int(str(value)) >= 0


def check_variants(plan: VariantPlan, function: Function) -> None:
    """Raise InputError where a plan does not fit a captured function: a symbol that no input
    tells, or a range that its bounds or the constraints on it alone leave nothing of."""
    late = late_symbols(function)
    known = [name for name in call_symbols(function) if name not in late]
    for name, spans in plan.ranges.items():
        if name not in known:
            what = "is known only during a call" if name in late else "is no symbolic dim"
            raise InputError(
                f"the option variants names {name!r}, which {what}",
                hint=f"the symbolic dims are {', '.join(known) or 'none: name some'}",
            )
        for span in spans:
            _check_range(name, span, function)


def _check_range(name: str, span: Range, function: Function) -> None:
    low, high = function.symbols[name]
    said = f"the option variants has {range_text(name, span)}"
    if (high is not None and span[0] > high) or (span[1] is not None and span[1] <= low):
        bounds = f"{name} >= {low}" if high is None else f"{low} <= {name} <= {high}"
        raise InputError(f"{said}; allowed is {bounds}", hint="name a size within the bounds")
    if span[1] != span[0] + 1:
        return
    for constraint in function.constraints:
        if constraint.symbols() == {name} and not constraint.holds({name: span[0]}):
            raise InputError(
                f"{said}, against the constraint {constraint}", where=constraint.origin,
                hint="name a size that the model takes",
            )  # fmt: skip


def usual_plan(function: Function, known: Mapping[str, int]) -> VariantPlan:
    """Ranges for all symbols that a call knows, cut at CUTS, from 1 on, with the ``known`` sizes
    apart; the last ones go without where there would be too many combinations."""
    late = late_symbols(function)
    plan = VariantPlan(whole=True)
    for name in call_symbols(function):
        low, high = function.symbols[name]
        low = max(low, 1)
        cuts = sorted({*CUTS, *((known[name], known[name] + 1) if name in known else ())})
        ends = [low, *(c for c in cuts if c > low and (high is None or c <= high))]
        last = None if high is None or high > MAX_SYMBOL else high + 1
        spans = tuple(zip(ends, (*ends[1:], last), strict=True))
        more = replace(plan, ranges={**plan.ranges, name: spans})
        if name not in late and len(spans) > 1 and len(more.cells(list(more.ranges))) < MOST_CELLS:
            plan = more
    return plan


@dataclass(frozen=True)
class SizesAsked:
    """What is asked about sizes: versions of kernels, and for how many seconds a kernel may be
    measured while the process runs (None: never). ``measure`` are seconds in which a compilation
    is to find out which versions gain something (None: all that were asked for are made);
    ``found`` is what it found."""

    plan: VariantPlan = field(default_factory=VariantPlan)
    retune: float | None = None
    measure: float | None = None
    found: tuple[Measured, ...] = ()

    def to_measure(self, function: Function, examples: Mapping[str, Any]) -> SizesAsked:
        """The same as something to measure: all versions and ways, in one library."""
        check_variants(self.plan, function)
        known = sizes_to_measure(signature_of(function), examples) if examples else {}
        return SizesAsked(self.plan if self.plan.ranges else usual_plan(function, known), SECONDS)

    def measured(self, artifact: Artifact | Built, examples: Mapping[str, Any]) -> SizesAsked:
        """The same with those versions alone that gain something in an artifact of
        :meth:`to_measure`, which must be loaded."""
        assert self.measure is not None and isinstance(artifact, Artifact)
        tree, signature = artifact.manifest.extra[RETUNE], artifact.manifest.signature
        plan = RetunePlan.read(tree)
        sizes = typical_sizes(plan, signature, sizes_to_measure(signature, examples))
        found = measure_versions(plan, Ways(artifact), sizes, self.measure)
        chosen = VariantPlan(_spans(plan.ranges), chosen_versions(found))
        return SizesAsked(chosen, self.retune, None, tuple(found))

    def versions(self, function: Function) -> VariantPlan | None:
        """What the passes are to make versions of. Raises as :func:`check_variants` does."""
        check_variants(self.plan, function)
        return self.plan if self.plan.ranges else None

    def ranges(self, function: Function) -> list[When] | None:
        """The ranges in which calls are recorded, None for no recording."""
        if self.retune is None:
            return None
        plan = self.plan if self.plan.ranges else usual_plan(function, {})
        return plan.cells(list(plan.ranges))

    def described(self, function: Function, generated: Generated) -> dict[str, Any]:
        """What a package says of it."""
        found: dict[str, Any] = {}
        if self.plan.ranges:
            found[BY_SIZE] = variants_made(self.plan, generated)
            if self.plan.measured is not None:
                found[BY_SIZE]["measured"] = [entry.as_dict() for entry in self.found]
            if self.plan.measured and not generated.dispatched and not generated.left_out:
                log.warning("no kernel of this model is in the table of variants: it has none")
        if generated.table is not None and self.retune is not None:
            found[RETUNE] = retune_made(function, generated.table, self.retune)
        return found


def _spans(ranges: Sequence[When]) -> dict[str, tuple[Range, ...]]:
    """The ranges of each symbol in their combinations."""
    found: dict[str, dict[Range, None]] = {}
    for when in ranges:
        for name, span in when.items():
            found.setdefault(name, {})[span] = None
    return {name: tuple(sorted(spans, key=lambda span: span[0])) for name, spans in found.items()}


def sizes_asked(options: Mapping[str, Any], target: Target, has_versions: bool) -> SizesAsked:
    """What the options say. Raises InputError for what can't be meant, TargetError where the
    target's kernels can't have versions, or where there is no process to retune in.
    """
    asked = options.get("variants")
    found: tuple[Measured, ...] = ()
    automatic = isinstance(asked, str) and asked == AUTO
    if isinstance(asked, Mapping) and isinstance(asked.get("ranges"), Mapping):
        plan, found = _table_asked(asked)
    else:
        plan = VariantPlan() if automatic else variants_asked(asked)
    if (plan.ranges or automatic) and not has_versions:
        raise TargetError(
            f"kernels of the target {target.name} can't have variants",
            hint="leave out the option variants; sizes that are fixed are constants in any case",
        )
    tune = options.get("tune")
    seconds = float(tune) if isinstance(tune, _NUMBERS) else None
    to_measure = plan.ranges and plan.measured is None
    measure = (seconds or ALL_SECONDS) if automatic else seconds if to_measure else None
    return SizesAsked(plan, _retune_asked(options.get("retune"), target), measure, found)


def _table_asked(table: Mapping[str, Any]) -> tuple[VariantPlan, tuple[Measured, ...]]:
    """What an artifact's ``variants`` say, chosen by measuring or not. Raises InputError for what
    can't be read."""
    ranges = {str(name): _ranges(str(name), given) for name, given in table["ranges"].items()}
    entries = table.get("measured")
    if entries is None:
        return VariantPlan(ranges), ()
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        raise InputError(f"the option variants has {entries!r} as measured", hint=_HINT)
    found = tuple(map(Measured.read, entries))
    return VariantPlan(ranges, chosen_versions(found)), found


def _retune_asked(asked: Any, target: Target) -> float | None:
    if asked is None or asked is False:
        return None
    if not isinstance(asked, _NUMBERS) or not 0 < float(asked) < math.inf:
        raise InputError(
            f"the option retune is {shown(asked)}",
            hint=f"give True, or the milliseconds for each kernel (True: {SECONDS * 1e3:g})",
        )
    if target.kind != "library" or not target.has_threads or target.variants:
        raise TargetError(
            f"the target {target.name} can't be retuned: "
            + ("it is for several CPUs" if target.variants else "no process loads its code"),
            hint="leave out the option retune, or build for one CPU, such as the target native",
        )
    return SECONDS if asked is True else float(asked) * 1e-3


def variants_made(plan: VariantPlan, generated: Generated) -> dict[str, Any]:
    """What a package says of its versions: the ranges that were asked for, each kernel that has
    some, and how many had no room."""
    kernels: dict[str, Any] = {}
    for number, versions in generated.dispatched.items():
        entries = [
            {"kernel": made_name, "when": {n: list(s) for n, s in made.when.items()},
             "tune": dict(made.op.attrs.get("tune", {}))}
            for made_name, made in versions
        ]  # fmt: skip
        kernels[generated.calls[number][0]] = entries
    return {
        "ranges": {name: [list(span) for span in spans] for name, spans in plan.ranges.items()},
        "kernels": kernels,
        "left_out": generated.left_out,
    }


def retune_made(function: Function, table: WayTable, seconds: float) -> dict[str, Any]:
    """What a package says of its table of ways: cuvil.tune.retuner.RetunePlan reads it."""
    cost: Dim = 0
    for op in (kernel for kernel in function.body.ops if kernel.short == "fused"):
        cost = add(cost, estimate(op))
    return {
        "ranges": [{n: list(s) for n, s in when.items()} for when in table.ranges],
        "calls": [_call(function, op, texts) for op, texts in table.calls],
        "cost": str(cost),
        "seconds": seconds,
    }


def _call(function: Function, op: Op, texts: Texts) -> dict[str, Any]:
    ways = [_way(version) for version, _ in texts]
    key = f"{kernel_key(op, function.symbols)}.{digest_of([json.dumps(ways, sort_keys=True)])[:8]}"
    symbols = sorted(symbols_in(op))
    return {"kernel": str(op.attrs["name"]), "key": key, "ways": ways, "symbols": symbols}


def _way(version: Version) -> dict[str, Any]:
    when = {name: list(span) for name, span in version.when.items()}
    return {"when": when, "tune": dict(version.op.attrs.get(TUNE, {}))}
