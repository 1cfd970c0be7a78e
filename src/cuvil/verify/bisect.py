"""Which rewrite makes the result wrong: a binary search over the number of rewrites made.

The first N rewrites of a module are always the same ones, so there is an N whose result is right
while that of N + 1 is wrong, whatever else happens in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuvil.errors import CuvilError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.passes.pipeline import PassOptions, canonical_passes, everywhere, fused_passes
from cuvil.rewrite.rewriter import Fuel

_PLENTY = 1 << 40
Wrong = Callable[[Module], bool]


@dataclass(frozen=True)
class Culprit:
    """The first rewrite after which the result is wrong; ``number`` counts from 1, of ``total``.

    ``label`` is the rule's name, or "fuse" for the grouping into kernels.
    """

    number: int
    total: int
    label: str
    place: str

    def __str__(self) -> str:
        if not self.number:
            return f"the result is wrong before any optional rewrite: {self.label}"
        return f"rewrite {self.number} of {self.total} makes it wrong: {self.label} at {self.place}"


def bisect_meaning(
    module: Module, wrong: Wrong, options: PassOptions | None = None
) -> Culprit | None:
    """The rewrite that changes what a captured module means, or None if none does.

    ``wrong`` runs a module of any stage through the reference interpreter. Every rewrite is
    counted, those included that a kernel can't be made without.
    """

    def canonical(fuel: Fuel) -> Module:
        return _lowered(module, fuel, options, fuse=False)

    found = _search(canonical, wrong, strict=True)
    if found is not None:
        return found
    fuel = Fuel(_PLENTY, strict=True)
    if wrong(_lowered(module, fuel, options, fuse=True)):
        total = _PLENTY - (fuel.left or 0)
        return Culprit(total, total, "fuse", "the grouping of operators into kernels")
    return None


def bisect_build(
    module: Module, wrong: Wrong, options: PassOptions | None = None
) -> Culprit | None:
    """The rewrite whose result is built wrongly, or None if nothing is wrong.

    ``wrong`` builds and runs a module at stage "fused"; one that it can't build (CuvilError)
    counts as wrong, so the place reported may be a rewrite that the build needs.
    """

    def fused(fuel: Fuel) -> Module:
        return _lowered(module, fuel, options, fuse=True)

    def fails(candidate: Module) -> bool:
        try:
            return wrong(candidate)
        except CuvilError:
            return True

    return _search(fused, fails, strict=False)


def _lowered(module: Module, fuel: Fuel, options: PassOptions | None, *, fuse: bool) -> Module:
    """A copy after as many rewrites as the fuel allows; stages are not checked."""
    copy = clone_module(module)
    steps = canonical_passes()
    if fuse:
        steps += fused_passes(options or PassOptions())
    for step in steps:
        everywhere(copy.main, step, fuel)
    copy.stage = "fused" if fuse else "canonical"
    return copy


def _search(lowered: Callable[[Fuel], Module], wrong: Wrong, *, strict: bool) -> Culprit | None:
    fuel = Fuel(_PLENTY, strict)
    if not wrong(lowered(fuel)):
        return None
    total = _PLENTY - (fuel.left or 0)
    if wrong(lowered(Fuel(0, strict))):
        return Culprit(0, total, "the capture, a required rewrite or a kernel", "")
    good, bad = 0, total
    while bad - good > 1:
        middle = (good + bad) // 2
        if wrong(lowered(Fuel(middle, strict))):
            bad = middle
        else:
            good = middle
    last = Fuel(bad, strict)
    lowered(last)
    label, place = last.last or ("", "")
    return Culprit(bad, total, label, place)
