"""Values put aside: what the verifier refuses, and what a token stands for."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.errors import CuvilError, InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Value
from cuvil.ir.keeping import KEEP, KEPT, PLACE, TOKEN, places_kept
from cuvil.ir.types import F32, I64, TensorType
from cuvil.ir.verifier import verify_module
from cuvil.reference.interpreter import run_module
from tests.codegen.compile_graph import build, outputs_of

X = TensorType((3,), F32)


def kept(e: Emitter, token: Value, place: int, type: TensorType = X) -> Value:
    return e.builder.op(KEPT, [token], {PLACE: place}, result_types=[type]).result


def keep(e: Emitter, x: Value, side: Value, place: int) -> Value:
    return e.builder.op(KEEP, [x, side], {PLACE: place}, result_types=[TOKEN]).result


def both_sides() -> Module:
    """Two values on the sides of one place, a third in another, read in another order."""
    e = Emitter()
    x, side = e.input("x", X), e.input("side", TOKEN)
    other = e.op("sub", e.scalar(1, I64), side)
    a = keep(e, x, side, 0)
    b = keep(e, e.op("neg", x), other, 0)
    c = keep(e, e.op("mul", x, x), side, 1)
    outputs = [kept(e, b, 0), e.op("add", kept(e, c, 1), kept(e, a, 0)), kept(e, c, 1)]
    return e.finish(outputs, ["negated", "sum", "square"])


def test_a_token_stands_for_its_value() -> None:
    module = both_sides()
    assert places_kept(module.main) == 2
    x = np.array([1, -2, 3], np.float32)
    with build(module) as artifact:
        for side in (0, 1):
            inputs = {"x": x, "side": np.array(side, np.int64)}
            for got in (run_module(module, inputs), outputs_of(artifact, module, inputs)):
                for have, want in zip(got, (-x, x * x + x, x * x), strict=True):
                    np.testing.assert_array_equal(have, want)


def test_what_the_verifier_refuses() -> None:
    def refused(operands: str, name: str, place: object, result: TensorType, words: str) -> None:
        e = Emitter()
        values = {"x": e.input("x", X), "t": e.input("t", TOKEN)}
        given = [values[k] for k in operands]
        attrs = {PLACE: place} if place is not None else {}
        made = e.builder.op(name, given, attrs, result_types=[result]).result
        with pytest.raises(CuvilError, match=words):
            verify_module(e.finish([made], ["y"]))

    refused("xt", KEEP, None, TOKEN, "number of a place")
    refused("x", KEEP, 0, TOKEN, "a value and a side")
    refused("xt", KEEP, 0, X, "a value and a side")
    refused("x", KEPT, 0, X, "needs a token")


def test_nothing_was_kept() -> None:
    e = Emitter()
    module = e.finish([kept(e, e.input("t", TOKEN), 0)], ["y"])
    with pytest.raises(InvalidModelError, match="nothing was kept there"):
        run_module(module, {"t": np.array(0, np.int64)})
    with build(module) as artifact, pytest.raises(MemoryError):
        artifact.run({"t": np.array(0, np.int64)})
