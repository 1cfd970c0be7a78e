"""ScatterND and GatherND whose indices have a symbolic last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuvil.errors import InvalidModelError, ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node

I64 = np.int64


@pytest.mark.parametrize("shape", [(3, 4), ("n", "m"), ("n",)])
def test_the_ranks_tell_how_many_dimensions_an_index_of_scatter_nd_names(shape: Any) -> None:
    given = {"x": (FLOAT, shape), "i": (INT64, ("q", "k")), "u": (FLOAT, ("q",))}
    proto = model([node("ScatterND", ["x", "i", "u"], ["y"])], given, ["y"])
    x = floats(*(3, 4)[: len(shape)])
    index = np.array([[2, 1], [0, -1]], I64)[:, : len(shape)]
    module = check(proto, {"x": x, "i": index, "u": floats(2, seed=1)})
    with pytest.raises(ShapeConstraintError):
        run_module(module, {"x": x, "i": np.zeros((2, 3), I64), "u": floats(2)})


def test_scatter_nd_of_updates_of_another_rank_is_refused() -> None:
    given = {"x": (FLOAT, (3,)), "i": (INT64, ("q", "k")), "u": (FLOAT, ("q", 3, 3))}
    with pytest.raises(InvalidModelError, match="the last dimension of the indices is k"):
        capture_onnx(model([node("ScatterND", ["x", "i", "u"], ["y"])], given, ["y"]))


def test_gather_nd_whose_rank_a_symbol_decides_is_listed_with_a_way_round() -> None:
    """Beside whatever else is not supported."""
    given = {"x": (FLOAT, (3, 4)), "i": (INT64, ("q", "k")), "d": (INT64, (1,))}
    nodes = [
        node("GatherND", ["x", "i"], ["y"], name="pick"),
        node("Squeeze", ["x", "e"], ["z"], name="drop"),
        node("NonZero", ["d"], ["f"]),
        node("Reshape", ["f", "minus"], ["e"]),
    ]
    proto = model(nodes, given, ["y", "z"], {"minus": np.array([-1], I64)})
    with pytest.raises(UnsupportedOpError) as caught:
        capture_onnx(proto)
    assert {n.where for n in caught.value.nodes} == {"pick", "drop"}
    (found,) = [n for n in caught.value.nodes if n.where == "pick"]
    assert "the last dimension of the indices is symbolic (k)" in found.reason
    assert "give that dimension a size" in found.hint
