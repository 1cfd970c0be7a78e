"""Sizes that memory, or 64 bits, can't hold: what is refused says which tensor it is, and its
bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import cuvil
from cuvil.codegen.cxx_expr import cxx
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.signature import TensorSpec
from cuvil.runtime.arrays import Slot, new_output
from cuvil.sym.expr import add, mul, symbol
from cuvil.verify.memory import sizes_that_fit
from tests.frontends.onnx_models import FLOAT, model, node, one

TIB = 1 << 40


def _expand(rows: int) -> ModelProto:
    shape = {"s": np.array([rows, 1, 4])}
    return model([node("Expand", ["x", "s"], ["y"])], {"x": (FLOAT, ("n", 4))}, ["y"], shape)


def _filled(rows: int) -> ModelProto:
    nodes = [node("ConstantOfShape", ["s"], ["y"])]
    return model(nodes, {"x": (FLOAT, ("n",))}, ["y"], {"s": np.array([rows, 4])})


@pytest.mark.parametrize(
    ("proto", "name", "size"),
    [
        (one("Relu", (1 << 40, 1 << 40), 17), "input 'x'", 4 << 80),
        (one("Relu", (1 << 44, 4), 17), "input 'x'", 16 << 44),  # past any address space
        (_filled(1 << 62), "output 'y'", 16 << 62),
    ],
)
def test_a_fixed_size_past_any_memory_is_refused(
    proto: ModelProto, name: str, size: int
) -> None:
    with pytest.raises(cuvil.InvalidModelError, match=f"{name} is .*: {size} bytes"):
        cuvil.compile(proto)


@pytest.mark.parametrize(
    ("proto", "name", "size"),
    [
        (one("Relu", (1 << 22, 1 << 22), 17), "input 'x'", 64 * TIB),
        (_expand(1 << 41), "output 'y'", 32 * TIB),
    ],
)
def test_verification_says_which_tensor_has_no_memory(
    proto: ModelProto, name: str, size: int
) -> None:
    said = f"no memory to verify with: {name}, .* has {size} bytes"
    with pytest.raises(cuvil.NoMemoryError, match=said) as caught:
        cuvil.compile(proto)
    assert "verify=False" in caught.value.hint and isinstance(caught.value, MemoryError)


def test_sizes_that_fit_are_kept() -> None:
    module = capture_onnx(one("Relu", ("n", 4), 17))
    tried = [{"n": 2}, {"n": 1000}, {"n": 3}]
    assert sizes_that_fit(module, tried, 16 * 3) == [{"n": 2}, {"n": 3}]
    with pytest.raises(cuvil.NoMemoryError, match="has 32 bytes at n = 2; this machine has 31"):
        sizes_that_fit(module, tried, 31)


def test_a_call_says_which_tensor_has_no_memory() -> None:
    compiled = cuvil.compile(one("Relu", ("n", 4), 17))
    given = np.broadcast_to(np.float32(1), (1 << 44, 4))
    with pytest.raises(cuvil.CuvilError, match=f"input 'x', .*: {16 << 44} bytes"):
        compiled(given)
    slot = Slot.of(TensorSpec("y", "f32", (1 << 50,)), "output")
    with pytest.raises(cuvil.NoMemoryError, match=f"output 'y', .*: {4 << 50} bytes"):
        new_output(slot, (1 << 50,), False)


@pytest.mark.parametrize("n", [1 << 16, 1 << 21, 1 << 22])
def test_intermediates_past_64_bits_are_refused_before_they_are_written(n: int) -> None:
    """At n = 2^22, 4 n^3 bytes are 2^68: 0, as 64 bits have it."""
    axes = {"a": np.array([0, 1]), "b": np.array([1, 2]), "c": np.array([0, 2])}
    nodes = [node("Unsqueeze", ["x", name], [f"x{name}"]) for name in axes]
    nodes += [
        node("Sum", ["xa", "xb", "xc"], ["sum"]),
        node("CumSum", ["sum", "zero"], ["first"]),
        node("CumSum", ["first", "one"], ["second"]),
        node("ReduceMax", ["second"], ["y"], keepdims=0),
    ]
    constants: dict[str, Any] = {**axes, "zero": np.array(0), "one": np.array(1)}
    compiled = cuvil.compile(model(nodes, {"x": (FLOAT, ("n",))}, ["y"], constants))
    with pytest.raises(cuvil.ShapeConstraintError, match="need too much memory") as caught:
        compiled.workspace_bytes({"x": (n,)})
    needed = int(caught.value.message.split(": ")[1].split()[0])
    assert 4 * n**3 <= needed <= 9 * n**3
    x = np.array([1, 2], np.float32)
    whole = np.add.outer(np.add.outer(x, x), x).cumsum(0).cumsum(1)
    assert compiled(x) == whole.max()


def test_a_size_that_64_bits_do_not_hold_is_refused() -> None:
    """(((s + 2) // 2 + 2) // 2 ... is (s + 2^k - 2) // 2^k + 1."""
    steps = 300
    nodes = [node("Shape", ["x"], ["s0"])]
    for i in range(steps):
        nodes += [node("Add", [f"s{i}", "two"], [f"a{i}"])]
        nodes += [node("Div", [f"a{i}", "two"], [f"s{i + 1}"])]
    nodes += [node("ConstantOfShape", [f"s{steps}"], ["y"])]
    proto = model(nodes, {"x": (FLOAT, ("n",))}, ["y"], {"two": np.array([2])})
    number = 2**steps - 2
    with pytest.raises(cuvil.ShapeConstraintError, match=f"64 bits.*the number {number}"):
        cuvil.compile(proto)


@pytest.mark.parametrize("most", [2**63 - 1, -(2**63)])
def test_the_ends_of_64_bits_are_written(most: int) -> None:
    assert str(most) in cxx(most, {})
    for past in (most + 1, most - 1, mul(symbol("n"), most * 2), add(symbol("n"), most)):
        if isinstance(past, int) and -(2**63) <= past < 2**63:
            continue
        with pytest.raises(cuvil.ShapeConstraintError, match="more than 64 bits"):
            cxx(past, {"n": "n"})
