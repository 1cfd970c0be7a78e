"""Modules that several tests share."""

from __future__ import annotations

import numpy as np

from cuvil.analysis.wellformed import operator_rules as rules
from cuvil.frontends.emitter import Emitter
from cuvil.ir.builder import Builder
from cuvil.ir.core import Block, Location, Module, Value
from cuvil.ir.types import F32, TensorType
from cuvil.sym.expr import floordiv, mod, symbol
from cuvil.sym.parse import parse_constraint

__all__ = ["N", "S", "rules", "sample", "yield_from"]

N, S = symbol("n"), symbol("s")


def yield_from(block: Block, value: Value) -> None:
    """End a region with ``cuvil.yield(value)``."""
    Builder(block, rules({}, [])).op("cuvil.yield", [value], result_types=())


def sample() -> Module:
    """Large and small weights, symbolic dims, every kind of attribute, a region, locations."""
    e = Emitter({"n": (1, 64), "s": (1, None)})
    e.loc = Location("layer/0", "model.py:12")
    x = e.input("x.1:0", TensorType((N, S), F32))
    w = e.weight(np.arange(100, dtype=np.float32), "w \"quoted\" é")
    small = e.weight(np.array([0.1, -0.0, np.inf, np.nan, 1e-30], np.float32), "small")
    half = e.op("slice", x, start=(0, 0), size=(N, floordiv(S, 2)), step=(1, 2))
    e.loc = Location("pad")
    padded = e.op("pad", half, lo=(0, 0), hi=(0, mod(S, 2)), value=float("-inf"), mode="constant")
    inner = Block([padded.type])
    body = Builder(inner, rules({"n": (1, 64), "s": (1, None)}, []))
    yield_from(inner, body.value("exp", [inner.args[0]]))
    fused = e.builder.op(
        "fused", [padded], {"kind": "map", "why": None}, regions=[inner],
        result_types=[padded.type],
    )  # fmt: skip
    flag = e.op("cast", small, dtype=F32)
    return e.finish(
        [fused.result, w, flag, e.dims([N, 3])],
        ["y", "w", "flag", "sizes"],
        [parse_constraint("s % 2 == 0", "user said \"so\"")],
        call={"inputs": {"kind": "leaf", "index": 0}},
        source={"frontend": "test", "é": [1, None]},
    )
