"""The option ``variants``: for which sizes kernels have versions of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.codegen.module import Generated
from cuvil.errors import InputError
from cuvil.ir.core import Function
from cuvil.ir.late import call_symbols, late_symbols
from cuvil.passes.variants import Range, VariantPlan, range_text

MOST_CELLS = 64
_HINT = 'give sizes, such as {"batch": [1, 4, 8]}, or ranges: {"batch": [[1, 16], [16, None]]}'


def variants_asked(asked: object) -> VariantPlan:
    """What the option means. Raises InputError for anything else than sizes and ranges by symbol,
    in order and apart from each other."""
    if asked is None:
        return VariantPlan()
    if not isinstance(asked, Mapping):
        raise InputError(f"the option variants is {asked!r}", hint=_HINT)
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
        return int(entry), int(entry) + 1  # type: ignore[call-overload]
    pair = isinstance(entry, Sequence) and not isinstance(entry, (str, bytes)) and len(entry) == 2
    if pair:
        low, high = entry  # type: ignore[misc]
        if _whole(low) and (high is None or (_whole(high) and high > low)):
            return int(low), None if high is None else int(high)
    raise InputError(
        f"the option variants has {entry!r} for {name}, which is no size and no range", hint=_HINT
    )


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0


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
