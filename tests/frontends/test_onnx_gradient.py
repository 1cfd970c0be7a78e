"""Gradient nodes against finite differences and PyTorch, and what has no derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, helper

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, floats, model, node

TRAINING = "ai.onnx.preview.training"


def _gradient(
    nodes: list[Any], shapes: dict[str, Any], wanted: list[str], y: str = "y", **attrs: Any
) -> ModelProto:
    names = [f"d{x}" for x in wanted]
    inputs = attrs.pop("inputs", [*wanted, *attrs.get("zs", [])])
    return model(
        [*nodes, node("Gradient", inputs, names, xs=wanted, y=y, domain=TRAINING, **attrs)],
        {k: (FLOAT, s) for k, s in shapes.items()}, names, opset=13,
        opsets=[helper.make_opsetid(TRAINING, 1)],
    )  # fmt: skip


Case = tuple[list[Any], dict[str, Any], Callable[..., torch.Tensor]]
CASES: dict[str, Case] = {
    "add and mul": (
        [node("Add", ["a", "b"], ["c"]), node("Mul", ["c", "a"], ["y"])],
        {"a": (3, 4), "b": (3, 4)}, lambda a, b: (a + b) * a,
    ),
    "broadcasts": (
        [node("Sub", ["a", "b"], ["c"]), node("Div", ["c", "b"], ["y"])],
        {"a": ("n", 4), "b": (1, 4)}, lambda a, b: (a - b) / b,
    ),
    "a lower rank": (
        [node("Mul", ["a", "b"], ["y"])], {"a": (2, 3, 4), "b": (4,)}, lambda a, b: a * b,
    ),
    "products": (
        [node("MatMul", ["a", "b"], ["c"]), node("Tanh", ["c"], ["y"])],
        {"a": (2, 3, 4), "b": (4, 5)}, lambda a, b: torch.tanh(a @ b),
    ),
    "batched products": (
        [node("MatMul", ["a", "b"], ["c"]), node("Sigmoid", ["c"], ["y"])],
        {"a": (2, 3, 4), "b": (2, 4, 5)}, lambda a, b: torch.sigmoid(a @ b),
    ),
    "functions": (
        [node("Exp", ["a"], ["c"]), node("Mul", ["b", "b"], ["s"]), node("Log", ["s"], ["l"]),
         node("Sqrt", ["c"], ["r"]), node("Neg", ["r"], ["m"]), node("Mul", ["m", "l"], ["y"])],
        {"a": (6,), "b": (6,)}, lambda a, b: -torch.sqrt(torch.exp(a)) * torch.log(b * b),
    ),
    "shapes": (
        [node("Transpose", ["a"], ["t"], perm=[1, 0]), node("Mul", ["t", "b"], ["m"]),
         node("ReduceSumSquare", ["m"], ["y"], axes=[1], keepdims=0)],
        {"a": (3, 4), "b": (4, 3)}, lambda a, b: ((a.T * b) ** 2).sum(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_against_torch(name: str) -> None:
    nodes, shapes, function = CASES[name]
    module = capture_onnx(_gradient(nodes, shapes, list(shapes)))
    for n in (3, 1):
        sizes = {k: tuple(n if d == "n" else d for d in s) for k, s in shapes.items()}
        arrays = {k: floats(*s, seed=i) + 0.1 for i, (k, s) in enumerate(sizes.items())}
        tensors = {k: torch.tensor(v, requires_grad=True) for k, v in arrays.items()}
        function(*tensors.values()).sum().backward()
        for got, want in zip(run_module(module, arrays), tensors.values(), strict=True):
            assert want.grad is not None
            np.testing.assert_allclose(got, want.grad.numpy(), rtol=2e-5, atol=1e-5)


def test_only_what_is_wanted_and_held_constants() -> None:
    """y = (a b) a by h = a b alone is a; a counts as a constant."""
    nodes = [node("Mul", ["a", "b"], ["h"]), node("Mul", ["h", "a"], ["y"])]
    proto = _gradient(nodes, {"a": (3,), "b": (3,)}, ["h"], zs=["a"])
    a, b = floats(3), floats(3, seed=1)
    (got,) = run_module(capture_onnx(proto), {"a": a, "b": b})
    np.testing.assert_array_equal(got, a)


def test_a_tensor_that_does_not_matter_has_no_slope() -> None:
    proto = _gradient([node("Exp", ["a"], ["y"])], {"a": (3,), "b": (2,)}, ["b"])
    (got,) = run_module(capture_onnx(proto), {"a": floats(3), "b": floats(2)})
    np.testing.assert_array_equal(got, np.zeros(2))


def test_what_has_no_derivative_is_refused() -> None:
    proto = _gradient([node("Round", ["a"], ["y"])], {"a": (3,)}, ["a"])
    with pytest.raises(UnsupportedOpError, match="no derivative of round"):
        capture_onnx(proto)
    elsewhere = _gradient(
        [node("Exp", ["a"], ["y"])], {"a": (3,), "b": (3,)}, ["a"], inputs=["b"]
    )
    with pytest.raises(UnsupportedOpError, match="is not the tensor 'a' itself"):
        capture_onnx(elsewhere)
