"""Mean and variance, right for elements that lie far from 0 and near each other too.

A mean is rounded, so the gaps to it have a mean of their own: it is added to the mean, taken out of
the gaps, and its square out of theirs (T. Chan, G. Golub and R. LeVeque, "Algorithms for computing
the sample variance", 1983). The two sums over gaps are made in one walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value


@dataclass(frozen=True)
class Spread:
    """Over some axes, which stay with size 1: the mean, x - mean, and the biased variance."""

    mean: Value
    gap: Value
    variance: Value


def spread_of(e: Emitter, x: Value, axes: Sequence[int]) -> Spread:
    """The spread of x over ``axes``, in x's dtype."""

    def mean(value: Value) -> Value:
        return e.op("reduce_mean", value, axes=tuple(axes), keepdims=True)

    first = mean(x)
    gap = e.map("sub", x, first)
    rest = mean(gap)
    square = mean(e.op("mul", gap, gap))
    variance = e.op("abs", e.op("sub", square, e.op("mul", rest, rest)))  # below 0 by rounding
    return Spread(e.op("add", first, rest), e.map("sub", gap, rest), variance)
