"""A small model, compiled without a cache, for the tests of verification."""

from __future__ import annotations

from typing import Any

import numpy as np

import cuvil
from cuvil.runtime.artifact import Artifact
from tests.frontends.onnx_models import FLOAT, floats, model, node

DYNAMIC = {"x": {0: cuvil.Dim("n", 1, 8)}}


def small_model() -> Any:
    """(n, 6) -> matmul, add, exp, twice transposed, softmax, matmul -> (n, 3)"""
    nodes = [
        node("MatMul", ["x", "w1"], ["a"], name="first"),
        node("Add", ["a", "b1"], ["b"], name="bias"),
        node("Tanh", ["b"], ["c"], name="tanh"),
        node("Transpose", ["c"], ["d"], perm=[1, 0], name="turn"),
        node("Transpose", ["d"], ["e"], perm=[1, 0], name="back"),
        node("Softmax", ["e"], ["f"], axis=1, name="softmax"),
        node("MatMul", ["f", "w2"], ["y"], name="second"),
    ]
    constants = {"w1": floats(6, 5), "b1": floats(5, seed=1), "w2": floats(5, 3, seed=2)}
    return model(nodes, {"x": (FLOAT, ["n", 6])}, ["y"], constants)


def compiled(**options: Any) -> Artifact:
    """The small model, not looked up in the cache."""
    arguments: dict[str, Any] = {
        "dynamic_dims": DYNAMIC, "cache": False, "threads": 1,
        "options": {"opt_level": 1}, **options,
    }  # fmt: skip
    artifact: Artifact = cuvil.compile(small_model(), **arguments)
    return artifact


def inputs(n: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of one size."""
    return {"x": floats(n, 6, seed=n)}
