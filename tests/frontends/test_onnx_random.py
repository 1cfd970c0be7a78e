"""Random numbers: their distribution, what a seed decides, and that compiled code agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
COUNT = 20000


def _drawn(
    *nodes: Any, inputs: Any = None, values: Any = None, outputs: Any = "y", before: Any = ()
) -> list[Array]:
    every = [*before, *nodes]
    module = capture_onnx(model(every, inputs or {"x": (FLOAT, (1,))}, list(outputs), opset=22))
    found = run_module(module, values or {"x": np.zeros(1, np.float32)})
    return [np.asarray(a) for a in found]


def _draw(op: str, **attrs: Any) -> Array:
    return _drawn(node(op, [], ["y"], shape=[COUNT], **attrs))[0]


@pytest.mark.parametrize("dtype", [FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_uniform_numbers_fill_their_range_evenly(dtype: int) -> None:
    x = _draw("RandomUniform", low=-2.0, high=6.0, seed=3.0, dtype=dtype).astype(np.float64)
    assert -2 <= x.min() < -1.98 and 5.98 < x.max() <= 6
    counts = np.histogram(x, 20, (-2, 6))[0]
    # Chi-square of 19 degrees of freedom: beyond 43.8 once in a thousand.
    assert ((counts - COUNT / 20) ** 2 / (COUNT / 20)).sum() < 43.8


def test_normal_numbers_have_their_moments() -> None:
    x = _draw("RandomNormal", mean=1.0, scale=2.0, seed=1.0).astype(np.float64)
    z = (x - 1) / 2
    assert abs(z.mean()) < 0.03 and abs(z.std() - 1) < 0.02
    assert abs((z**3).mean()) < 0.08 and abs((z**4).mean() - 3) < 0.25
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.03


def test_a_seed_decides_the_numbers() -> None:
    first, again, other = (_draw("RandomUniform", seed=s) for s in (1.0, 1.0, 2.0))
    assert np.array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.03


def test_nodes_without_a_seed_draw_different_numbers() -> None:
    a, b = _drawn(
        node("RandomUniform", [], ["a"], shape=[COUNT]),
        node("RandomUniform", [], ["b"], shape=[COUNT]), outputs="ab",
    )  # fmt: skip
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


def test_bernoulli_follows_its_probabilities() -> None:
    p = np.repeat(np.array([0, 0.1, 0.5, 1], np.float32), COUNT)
    inputs = {"x": (FLOAT, p.shape)}
    (y,) = _drawn(node("Bernoulli", ["x"], ["y"], seed=5.0, dtype=INT64), inputs=inputs,
                  values={"x": p})  # fmt: skip
    assert y.dtype == np.int64
    rates = y.reshape(4, COUNT).mean(1)
    assert rates[0] == 0 and rates[3] == 1
    np.testing.assert_allclose(rates[1:3], [0.1, 0.5], atol=0.012)


def test_multinomial_follows_its_probabilities() -> None:
    p = np.array([[0.1, 0.2, 0.7], [0.25, 0.25, 0.5]], np.float32)
    inputs = {"x": (FLOAT, p.shape)}
    (y,) = _drawn(node("Multinomial", ["x"], ["y"], sample_size=COUNT, seed=2.0), inputs=inputs,
                  values={"x": np.log(p) + 3})  # fmt: skip
    assert y.dtype == np.int32 and y.shape == (2, COUNT)
    for row, wanted in zip(y, p, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / COUNT, wanted, atol=0.012)


@pytest.mark.parametrize("training", [False, True])
def test_dropout_can_be_told_at_run_time(training: bool) -> None:
    x = np.ones((4, COUNT), np.float32)
    inputs = {"x": (FLOAT, x.shape), "r": (FLOAT, ()), "t": (TensorProto.BOOL, ())}
    values = {"x": x, "r": np.float32(0.25), "t": np.array(training)}
    y, mask = _drawn(node("Dropout", ["x", "r", "t"], ["y", "m"], seed=7), inputs=inputs,
                     values=values, outputs="ym")  # fmt: skip
    if not training:
        assert (y == 1).all() and mask.all()
        return
    assert np.array_equal(y, np.where(mask, np.float32(4 / 3), 0))
    assert abs(mask.mean() - 0.75) < 0.01


def test_compiled_code_draws_the_same_numbers(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormalLike", ["x"], ["a"], seed=1.0),
        node("RandomUniformLike", ["x"], ["b"]),
        node("Bernoulli", ["b"], ["c"], dtype=INT64),
    ]
    module = capture_onnx(model(nodes, {"x": (FLOAT, ("n", 3))}, list("abc"), opset=22))
    x = np.zeros((211, 3), np.float32)
    wanted = run_module(module, {"x": x})
    with quick_build(module, tmp_path) as artifact:
        found = artifact.run({"x": x})
    np.testing.assert_allclose(found["a"], wanted[0], rtol=1e-5, atol=1e-6)
    assert np.array_equal(found["b"], wanted[1]) and np.array_equal(found["c"], wanted[2])


def test_each_trip_of_a_loop_draws_anew() -> None:
    """A loop with more trips than are written out."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("RandomUniform", [], ["r"], shape=[50])], "body",
        [helper.make_tensor_value_info("i", INT64, ()),
         helper.make_tensor_value_info("c", TensorProto.BOOL, ())],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, ()),
         helper.make_tensor_value_info("r", FLOAT, (50,))],
    )  # fmt: skip
    (y,) = _drawn(node("Loop", ["n", ""], ["y"], body=body), inputs={"x": (FLOAT, ("k",))},
                  before=[node("Shape", ["x"], ["n"])],
                  values={"x": np.zeros(300, np.float32)})  # fmt: skip
    assert y.shape == (300, 50)
    assert len(np.unique(y)) > 14900
    assert abs(y.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(y[:-1].reshape(-1), y[1:].reshape(-1))[0, 1]) < 0.03
