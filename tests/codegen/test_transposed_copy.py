"""Copies that turn a matrix round use squares in registers, and only those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cuvil.codegen.module import generate
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Value
from cuvil.ir.types import F32, I32, DType, TensorType
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import Dim, symbol
from cuvil.target.registry import find_target
from tests.codegen.compile_graph import build, outputs_of

s = symbol("s")
Body = Callable[[Emitter, Value], Value]


def _turn(*perm: int) -> Body:
    return lambda e, x: e.op("transpose", x, perm=perm)


def _turned_part(e: Emitter, x: Value) -> Value:
    part = e.op("slice", x, start=(70, 8), size=(35, 20), step=(-2, 1))
    return e.op("transpose", part, perm=(1, 0))


def _scaled(e: Emitter, x: Value) -> Value:
    return e.op("neg", e.op("transpose", x, perm=(1, 0)))


def _repeated(e: Emitter, x: Value) -> Value:
    row = e.op("reshape", x, shape=(1, 20, 24))
    return e.op("broadcast", e.op("transpose", row, perm=(0, 2, 1)), shape=(3, 24, 20))


def _module(body: Body, shape: tuple[Dim, ...], dtype: DType = F32) -> Module:
    e = Emitter({"s": (0, None)})
    return e.finish([body(e, e.input("x", TensorType(shape, dtype)))], ["y"])


CASES: dict[str, tuple[Body, tuple[Dim, ...], DType, bool]] = {
    "matrix": (_turn(1, 0), (70, 130), F32, True),
    "symbolic matrix": (_turn(1, 0), (s, 75), F32, True),
    "channels first": (_turn(0, 3, 1, 2), (2, 9, 11, 19), F32, True),
    "channels last": (_turn(0, 2, 3, 1), (2, s, 7, s), F32, True),
    "depth": (_turn(0, 2, 3, 4, 1), (1, 17, 5, 6, 7), F32, True),
    "reversed": (_turn(2, 1, 0), (20, 3, 33), F32, True),
    "steps": (_turned_part, (71, 32), F32, True),
    "repeated": (_repeated, (20, 24), F32, True),
    "narrow": (_turn(1, 0), (3, 100), F32, False),
    "integers": (_turn(1, 0), (40, 50), I32, False),
    "with arithmetic": (_scaled, (40, 50), F32, False),
}


@pytest.mark.parametrize("name", CASES)
def test_only_plain_copies_of_floats_use_registers(name: str) -> None:
    body, shape, dtype, in_registers = CASES[name]
    generated = generate(lower(_module(body, shape, dtype), "fused"), find_target("native"))
    assert ("transpose_block(" in "".join(generated.sources.values())) == in_registers


@pytest.mark.parametrize("name", CASES)
def test_transposes_agree_with_the_reference(name: str) -> None:
    body, shape, dtype, _ = CASES[name]
    module = _module(body, shape, dtype)
    rng = np.random.default_rng(3)
    with build(module, threads=2) as artifact:
        for size in (18, 64, 0):
            known = [size if not isinstance(d, int) else d for d in shape]
            x = (rng.standard_normal(known) * 100).astype(dtype.numpy)
            (want,) = run_module(module, {"x": x})
            (got,) = outputs_of(artifact, module, {"x": x})
            np.testing.assert_array_equal(got, want)
