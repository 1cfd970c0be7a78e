"""Inputs that lead into every branch: found by trying what the conditions compare with.

A region of control flow is reached if the reference interpreter runs it. For one that no trial
reaches, sizes that its own requirements allow are chosen, and the inputs that its conditions
depend on are set to the constants that occur there, to numbers beside them, or turned over.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuvil.errors import CuvilError
from cuvil.ir.control import FOR, IF, Loop, is_control, lead_of, region_views, requirements
from cuvil.ir.core import Block, Module, Op, Value
from cuvil.ir.signature import ConstraintSpec, Signature
from cuvil.ops.numeric import is_float
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbols_of
from cuvil.verify.dependence import Dependence
from cuvil.verify.inputs import allowed_sizes, make_inputs, spread_of_sizes

Array = np.ndarray[Any, Any]
Trial = dict[str, Array]
Change = Callable[[Array], Array]
Settings = Mapping[str, Change]
_SECONDS = 3.0
_SIZES = 2


@dataclass
class Reached:
    """Further trials, and the regions that none of them all reaches, each in words."""

    trials: list[Trial] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def reach_branches(
    module: Module,
    signature: Signature,
    examples: Mapping[str, Array],
    limits: Mapping[str, int],
    trials: Sequence[Trial],
) -> Reached:
    """Trials that reach the regions which ``trials`` don't, as far as a few seconds allow."""
    search = Search(module, signature, examples, limits)
    search.cover(trials)
    return search.found


class Search:
    """``reached`` are the identities of regions that some trial runs; ``settings`` the changes of
    inputs that lead into a region."""

    def __init__(
        self,
        module: Module,
        signature: Signature,
        examples: Mapping[str, Array],
        limits: Mapping[str, int],
    ) -> None:
        self.module = module
        self.signature = signature
        self.examples = examples
        self.limits = limits
        self.until = time.monotonic() + _SECONDS
        self.found = Reached()
        self.reached: set[int] = set()
        self.settings: dict[int, Settings] = {}

    def cover(self, trials: Sequence[Trial]) -> None:
        """Find what leads into the regions that ``trials`` do not reach."""
        views = list(region_views(self.module.main))
        for trial in trials if views else ():
            self.reached |= self.run(trial)
        for view in views:  # outer before inner
            self.look_for(view.op, view.body)

    def run(self, trial: Trial) -> set[int]:
        """The regions that run; those before an error are no use."""
        blocks: set[int] = set()

        def watch(value: Value, array: Array) -> None:
            blocks.add(id(value.op.block if value.op is not None else value.owner))

        try:
            if time.monotonic() < self.until:
                run_module(self.module, trial, watch=watch)
        except CuvilError:
            return set()
        return blocks

    def look_for(self, op: Op, block: Block) -> None:
        """Find what leads into a region, if no trial does or there are regions inside it."""
        if id(block) in self.reached and not any(map(is_control, block.ops)):
            return
        for settings, trial in self.candidates(op, block):
            if time.monotonic() > self.until:
                break
            new = self.run(trial)
            if id(block) in new:
                self.settings[id(block)] = settings
                if id(block) not in self.reached:
                    self.found.trials.append(trial)
                self.reached |= new
                return
        if id(block) not in self.reached:
            self.found.missed.append(_words(op, block))

    def candidates(self, op: Op, block: Block) -> Iterator[tuple[Settings, Trial]]:
        """What leads into the region around, and then one more change of an input that the op's
        condition depends on."""
        facts = Dependence()
        for value in op.operands[: lead_of(op)]:
            facts.follow(value)
        names = [self.module.main.input_names[i] for i in sorted(facts.inputs)]
        around = self.settings.get(id(op.block), {})
        rng = np.random.default_rng(1)
        for sizes in _sizes_for(self.signature, self.examples, block):
            base = make_inputs(self.signature, sizes, self.examples, rng, self.limits)
            yield around, _changed(base, around)
            for name in names:
                for change in _changes(base[name], facts.constants):
                    settings = {**around, name: change}
                    yield settings, _changed(base, settings)


def _changed(base: Trial, settings: Settings) -> Trial:
    return {**base, **{name: change(base[name]) for name, change in settings.items()}}


def _words(op: Op, block: Block) -> str:
    if op.name != IF:
        return f"the body of {op.loc}"
    return f"the {'then' if block is op.regions[0] else 'else'} branch of {op.loc}"


def with_loop_sizes(
    module: Module,
    signature: Signature,
    examples: Mapping[str, Array],
    found: Sequence[dict[str, int]],
) -> list[dict[str, int]]:
    """Sizes to try with what the bodies of loops require, where they are run by sizes alone: others
    are refused. The first stay if they are the examples' own."""
    known = {s.name for s in signature.early}
    loops = [op for op in module.main.body.ops if op.name == FOR]
    asked = [
        ConstraintSpec(str(c), c.origin)
        for op in loops
        for c in requirements(op.regions[0])
        if c.symbols() | symbols_of(Loop(op).trips) <= known
    ]
    stricter = replace(signature, constraints=(*signature.constraints, *asked))
    fitting = [sizes for sizes in found if allowed_sizes(stricter, sizes)]
    more = _spread(signature, {}, asked) if len(fitting) < len(found) else []
    if not more:
        return list(found)
    kept = [sizes for sizes in found[:1] if examples and sizes not in fitting]
    return [*kept, *fitting, *(sizes for sizes in more if sizes not in fitting)]


def _around(block: Block) -> Iterator[Op]:
    """The ops of control flow that a region is in, the innermost first."""
    parent = block.parent
    while isinstance(parent, Op):
        if is_control(parent):
            yield parent
        parent = parent.block.parent if parent.block is not None else None


def _sizes_for(
    signature: Signature, examples: Mapping[str, Array], block: Block
) -> list[dict[str, int]]:
    """Sizes that the region's own requirements, and those around it, allow."""
    known = {s.name for s in signature.early}
    blocks = [block, *(op.block for op in _around(block) if op.block is not None)]
    asked = [
        ConstraintSpec(str(c), c.origin)
        for b in blocks
        for c in requirements(b)
        if c.symbols() <= known
    ]
    return _spread(signature, examples, asked) or _spread(signature, examples, [])


def _spread(
    signature: Signature, examples: Mapping[str, Array], extra: Sequence[ConstraintSpec]
) -> list[dict[str, int]]:
    stricter = replace(signature, constraints=(*signature.constraints, *extra))
    try:
        return spread_of_sizes(stricter, examples)[:_SIZES]
    except CuvilError:  # no sizes of those that are tried satisfy them all
        return []


def _changes(array: Array, constants: set[float]) -> Iterator[Change]:
    """Ways to other values for an input of this type; ``constants`` are what it may be compared
    with."""
    if array.dtype == bool:
        yield from (np.logical_not, np.zeros_like, np.ones_like)
        return
    if is_float(array):
        yield from (np.negative, np.abs, lambda x: -np.abs(x), lambda x: x * 100, np.zeros_like)
        numbers = [c + k for c in sorted(constants) for k in (0, 1, -1)]
    else:
        ends = np.iinfo(array.dtype)
        near = {int(c) + k for c in constants if np.isfinite(c) for k in (0, 1, -1)}
        numbers = [n for n in sorted(near | {0, 1, 100}) if ends.min <= n <= ends.max]
    for number in numbers:
        yield functools.partial(np.full_like, fill_value=number)
