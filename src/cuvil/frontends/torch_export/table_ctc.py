"""Connectionist temporal classification (Graves, Fernandez, Gomez and Schmidhuber 2006): a loop
over the steps, of any length, in which each label with a blank around it has a probability."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.scalars import require
from cuvil.ir.control import FOR, STEP
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, mul


@dataclass(frozen=True)
class _Lattice:
    """``labels`` [N, L]: each target with a blank before and after, ``jumps`` [N, L] whether a path
    may come to one over the blank before it."""

    labels: Value
    jumps: Value


def _ctc_losses(c: Call) -> Value:
    """log_probs [T, N, C], targets, lengths [N] -> -log p of the targets [N]."""
    e, probs = c.e, c.tensor("log_probs")
    steps, batch, _ = probs.type.shape
    inputs, wanted = c.tensor("input_lengths"), c.tensor("target_lengths")
    inputs, wanted = (e.broadcast(v, (batch,)) for v in (inputs, wanted))
    _require_below(c, inputs, steps)
    lattice = _lattice(c, _padded(c, c.tensor("targets"), wanted), wanted)
    width = lattice.labels.type.shape[1]
    # Before the first step a path stands on the first blank, with probability 1.
    line = Term(e, e.op("iota", shape=(batch, width), axis=1, dtype=I64))
    start = line.equals(0).where(Term(e, e.scalar(0, probs.type.dtype)), -math.inf).value
    with e.region([STEP, start.type]) as region:
        step, alpha = region.own
        seen = e.op("gather_elements", e.op("gather", probs, step, axis=0), lattice.labels, axis=1)
        after = (_arrivals(c, Term(e, alpha), lattice) + Term(e, seen)).value
        inside = Term(e, e.unsqueeze(inputs, -1)).map("gt", Term(e, step))
        e.close([inside.where(Term(e, after), Term(e, alpha)).value])
    (alpha,) = e.loop(FOR, [], [start], region, [start.type], trips=steps)
    return _loss(c, alpha, wanted)


def _arrivals(c: Call, alpha: Term, lattice: _Lattice) -> Term:
    """log of the sum of p over the ways to each label: from itself, from the one before it, and
    where that is a blank between unlike labels, over it."""
    before = _moved(c, alpha, 1)
    over = Term(c.e, lattice.jumps).where(_moved(c, alpha, 2), -math.inf)
    most = alpha.map("max", before).map("max", over)
    base = most.equals(-math.inf).where(0.0, most)
    total = (alpha - base).map("exp") + (before - base).map("exp") + (over - base).map("exp")
    return total.map("log") + base


def _moved(c: Call, alpha: Term, count: int) -> Term:
    """[N, L], ``count`` places to the right, with -inf before."""
    wide = c.e.op("pad", alpha.value, lo=(0, count), hi=(0, 0), mode="constant", value=-math.inf)
    return Term(c.e, c.e.slice(wide, 1, 0, alpha.value.type.shape[1]))


def _loss(c: Call, alpha: Value, wanted: Value) -> Value:
    """-log of the sum of p at the last label and at the blank behind it."""
    last = Term(c.e, c.e.unsqueeze(wanted, -1)) * 2
    label = (last - 1).map("max", 0)

    def at(place: Term) -> Term:
        return Term(c.e, c.e.squeeze(c.e.op("gather_elements", alpha, place.value, axis=1), [1]))

    blank, end = at(last), Term(c.e, wanted).equals(0).where(-math.inf, at(label))
    most = blank.map("max", end)
    base = most.equals(-math.inf).where(0.0, most)
    return (-(((blank - base).map("exp") + (end - base).map("exp")).map("log") + base)).value


def _lattice(c: Call, targets: Value, wanted: Value) -> _Lattice:
    """The labels of targets [N, S] that are within their lengths, blanks behind them."""
    e, number = c.e, int(c.number("blank"))
    blank = e.scalar(number, I64)
    batch, size = targets.type.shape
    place = e.op("iota", shape=(size,), axis=0, dtype=I64)
    inside = e.map("lt", place, e.unsqueeze(wanted, -1))
    kept = e.map("select", inside, targets, blank)
    pairs = e.op("concat", e.broadcast(blank, (batch, size, 1)), e.unsqueeze(kept, -1), axis=2)
    pairs = e.reshape(pairs, (batch, mul(size, 2)))
    labels = e.op("concat", pairs, e.broadcast(blank, (batch, 1)), axis=1)
    wide = e.op("pad", labels, lo=(0, 2), hi=(0, 0), mode="constant", value=number)
    two_before = e.slice(wide, 1, 0, labels.type.shape[1])
    unlike = e.op("and", e.map("ne", labels, blank), e.op("ne", labels, two_before))
    return _Lattice(labels, unlike)


def _padded(c: Call, targets: Value, wanted: Value) -> Value:
    """Targets as [N, S]. Those behind one another are cut by their lengths; S is the largest, or
    where the lengths are data the number of all targets."""
    e, targets = c.e, c.e.cast(targets, I64)
    if targets.type.rank == 2:
        _require_below(c, wanted, targets.type.shape[1])
        return targets
    size: Dim = targets.type.shape[0]
    ends = e.op("cumsum", wanted, axis=0)
    _require_below(c, ends, size)
    known = e.known(wanted)
    if known is not None and all(isinstance(k, int) for k in known):
        size = max([int(k) for k in known if isinstance(k, int)], default=0)
    starts = e.unsqueeze(e.op("sub", ends, wanted), -1)
    places = e.map("add", starts, e.op("iota", shape=(size,), axis=0, dtype=I64))
    # One more, so that there is something to look up for places behind the last.
    longer = e.op("concat", targets, e.broadcast(e.scalar(0, I64), (1,)), axis=0)
    last = c.as_value(targets.type.shape[0], I64)
    return e.op("gather", longer, e.map("min", places, last), axis=0)


def _require_below(c: Call, lengths: Value, most: Dim) -> None:
    """Demand of each call that lengths lie between 0 and what there is."""
    flags = Term(c.e, lengths)
    good = flags.map("ge", 0) & flags.map("le", Term(c.e, c.as_value(most, I64)))
    require(c.e, c.e.op("reduce_all", good.value, axes=(0,), keepdims=False))


RULES: dict[str, Rule] = {"ctc_losses": _ctc_losses}
