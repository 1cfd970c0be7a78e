"""Decisions of fusion's grouping."""

from __future__ import annotations

from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, TensorType
from cuvil.passes.grouping import Grouping


def test_values_shared_along_a_chain_are_looked_at_once() -> None:
    """Each step reads the one before twice: 2**60 paths lead to the first."""
    e = Emitter()
    x = e.input("x", TensorType((4,), F32))
    line = e.op("iota", shape=(4,), axis=0, dtype=F32)
    for _ in range(60):
        line = e.op("add", line, line)
    out = e.op("mul", x, line)
    module = e.finish([out], ["y"])
    grouping = Grouping(module.main.body)
    assert grouping.floats(line.op)
    assert not grouping.floats(out.op)
