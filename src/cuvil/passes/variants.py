"""Versions of kernels for ranges of their symbols' values.

In and out: a module at stage "fused". A kernel's attribute ``variants`` lists versions, the first
whose ``when`` holds is run; where none does, the kernel for all sizes. ``when`` has the range of
each symbol, low included and high not (unit: no end); a range of one value makes it a constant.
``tune`` are the version's own knobs. What the code of a version gains is codegen's to see: one
that would be the same as the kernel for all sizes is not written (codegen/versions.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from cuvil.ir.core import Op
from cuvil.ir.late import mentioned
from cuvil.passes.knobs import Choice
from cuvil.passes.tuning import VARIANTS, kernel_key
from cuvil.rewrite.rewriter import Rewriter

LABEL = "variants"
Range = tuple[int, "int | None"]  # low <= value < high
When = Mapping[str, Range]


@dataclass(frozen=True)
class Variant:
    """A version of a kernel: where it runs, and its knobs (None: as the kernel's own)."""

    when: When
    choice: Choice | None = None

    @property
    def exact(self) -> dict[str, int]:
        """The symbols that have one value."""
        return {name: low for name, (low, high) in self.when.items() if high == low + 1}

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it runs at these sizes."""
        return all(inside(sizes[name], span) for name, span in self.when.items())

    def as_dict(self) -> dict[str, Any]:
        """Plain data, which is the attribute's entry too."""
        when = {name: tuple(span) for name, span in self.when.items()}
        return {"when": when, **({} if self.choice is None else {"tune": dict(self.choice)})}


@dataclass(frozen=True)
class VariantPlan:
    """``ranges`` by symbol: sorted, none overlapping; ``whole`` where nothing lies outside them
    that is worth a version. ``measured`` has the versions by kernel key where measuring chose them;
    without, every kernel gets all that its symbols make."""

    ranges: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)
    measured: Mapping[str, tuple[Variant, ...]] | None = None
    whole: bool = False

    def cells(self, used: Collection[str]) -> list[When]:
        """Every combination of the ranges of these symbols. Unless they are the whole, a symbol
        outside all of its own is left open if another is inside one. The narrowest come first."""
        names = [name for name in self.ranges if name in used]
        beside = [] if self.whole else [None]
        spans: list[list[Range | None]] = [[*self.ranges[name], *beside] for name in names]
        found = [
            {name: span for name, span in zip(names, chosen, strict=True) if span is not None}
            for chosen in product(*spans)
        ]
        return sorted(filter(None, found), key=lambda when: -len(when))


def inside(value: int, span: Range) -> bool:
    """Whether a value is in a range."""
    low, high = span
    return low <= value and (high is None or value < high)


def range_text(name: str, span: Range) -> str:
    """``batch = 4``, ``16 <= batch < 64`` or ``batch >= 64``"""
    low, high = span
    if high is None:
        return f"{name} >= {low}"
    return f"{name} = {low}" if high == low + 1 else f"{low} <= {name} < {high}"


def when_text(when: When) -> str:
    """All of a version's ranges in words."""
    return ", ".join(range_text(name, span) for name, span in when.items())


def symbols_in(op: Op) -> set[str]:
    """The symbols that a kernel is written over."""
    found = mentioned(op)
    for value in op.operands:
        found |= value.type.symbols()
    return found


def variants_of(op: Op) -> tuple[Variant, ...]:
    """A kernel's versions, as its attribute has them."""
    return tuple(map(read_variant, op.attrs.get(VARIANTS, ())))


def read_variant(entry: Mapping[str, Any]) -> Variant:
    """A version from plain data: the attribute's, or JSON's. Raises ValueError, TypeError or
    KeyError where it is none."""
    when: dict[str, Range] = {}
    for name, (low, high) in entry["when"].items():
        if type(low) is not int or type(high) not in (int, type(None)):
            raise TypeError(f"{name} from {low!r} to {high!r} is no range")
        when[name] = (low, high)
    return Variant(when, entry.get("tune"))


def add_variants(rewriter: Rewriter, plan: VariantPlan) -> None:
    """Give each kernel its versions."""
    function = rewriter.function
    for op in function.body.ops:
        if op.short != "fused":
            continue
        if plan.measured is not None:
            found = plan.measured.get(kernel_key(op, function.symbols), ())
        else:
            found = tuple(Variant(when) for when in plan.cells(symbols_in(op)))
        if found and rewriter.begin(LABEL, op):
            rewriter.set_attrs(op, **{VARIANTS: tuple(v.as_dict() for v in found)})
