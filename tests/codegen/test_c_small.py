"""What -Os gives is what -O2 gives: products of any width, and layers whose biases are one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.codegen.c.constants import Constants
from cuvil.codegen.c.module import BUSY, SOURCE
from cuvil.codegen.module import Generated
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Weight
from cuvil.ir.types import F32, TensorType
from tests.codegen.c_build import generate_c, run_c
from tests.e2e.c_models import mlp

Array = np.ndarray[Any, Any]
SMALL = pytest.mark.parametrize("small", [False, True], ids=["fast", "small"])


def _normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _product(rows: int, k: int, columns: int) -> tuple[Any, Array, Array]:
    x, w = _normal(1, rows, k), _normal(2, k, columns)
    e = Emitter({})
    y = e.op("matmul", e.input("x", TensorType(x.shape, F32)), e.weight(w))
    return e.finish([y], ["y"]), x, w


@SMALL
def test_products_of_any_width(small: bool) -> None:
    """Of rows that fill a tile and such as don't."""
    xs = {f"x{rows}": _normal(rows, rows, 6) for rows in (1, 3, 4, 6, 9, 12, 14)}
    ws = [_normal(columns, 6, columns) for columns in (*range(1, 20), 32, 35)]
    e = Emitter({})
    given = [e.input(name, TensorType(x.shape, F32)) for name, x in xs.items()]
    made = [e.op("matmul", x, e.weight(w)) for x in given for w in ws]
    found = iter(run_c(e.finish(made, [f"y{i}" for i in range(len(made))]), xs, small))
    for x in xs.values():
        for w in ws:
            expected = x.astype(np.float64) @ w
            np.testing.assert_allclose(next(found), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [1, 3, 10, 16, 21])
def test_weights_take_no_more_than_they_are(columns: int) -> None:
    module, _, w = _product(2, 6, columns)
    assert generate_c(module).facts["memory"]["weights"] == w.nbytes


@SMALL
@pytest.mark.parametrize("columns", [1, 3, 6, 18])
def test_a_product_of_two_computed_tensors(columns: int, small: bool) -> None:
    a, b = _normal(3, 5, 7), _normal(4, 7, columns)
    e = Emitter({})
    given = [e.input(name, TensorType(v.shape, F32)) for name, v in (("a", a), ("b", b))]
    (found,) = run_c(e.finish([e.op("matmul", *given)], ["y"]), {"a": a, "b": b}, small)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)


def _gru(x: Array, w: Array, r: Array, bias: Array, linear: bool) -> Array:
    """A GRU in f64 as ONNX defines it: gates z, r, h; [steps, directions, batch, hidden]."""
    steps, batch, _ = x.shape
    hidden = r.shape[-1]
    y = np.zeros((steps, len(w), batch, hidden))
    for d in range(len(w)):
        wz, wr, wh = np.split(w[d].astype(np.float64), 3)
        rz, rr, rh = np.split(r[d].astype(np.float64), 3)
        bz, br, bh, cz, cr, ch = np.split(bias[d].astype(np.float64), 6)
        state = np.zeros((batch, hidden))
        for t in range(steps)[:: -1 if d else 1]:
            z = 1 / (1 + np.exp(-(x[t] @ wz.T + state @ rz.T + bz + cz)))
            reset = 1 / (1 + np.exp(-(x[t] @ wr.T + state @ rr.T + br + cr)))
            back = reset * (state @ rh.T + ch) if linear else (reset * state) @ rh.T + ch
            state = (1 - z) * np.tanh(x[t] @ wh.T + bh + back) + z * state
            y[t, d] = state
    return y


@SMALL
@pytest.mark.parametrize("constant", [False, True], ids=["given", "constant"])
@pytest.mark.parametrize("linear", [False, True], ids=["before", "after"])
def test_both_biases_of_a_gru(linear: bool, constant: bool, small: bool) -> None:
    steps, batch, size, hidden = 5, 2, 3, 6
    x, w = _normal(5, steps, batch, size), _normal(6, 2, 3 * hidden, size)
    r, bias = _normal(7, 2, 3 * hidden, hidden), _normal(8, 2, 6 * hidden)
    e = Emitter({})
    inputs = {"x": x} if constant else {"x": x, "w": w, "r": r, "bias": bias}
    given = [e.input(name, TensorType(v.shape, F32)) for name, v in inputs.items()]
    given += [e.weight(v) for v in (w, r, bias)] if constant else []
    how = {"hidden": hidden, "direction": "bidirectional", "linear_before_reset": linear}
    made = e.results("gru", *given, has_bias=True, **how)
    (found,) = run_c(e.finish(made[:1], ["y"]), inputs, small)
    np.testing.assert_allclose(found, _gru(x, w, r, bias, linear), rtol=1e-5, atol=1e-6)


def test_two_biases_take_the_place_of_one() -> None:
    """Sums of the gates; of those that are apart, the second behind them."""
    bias = np.array([[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], [4.0, 5.0, 6.0, 40.0, 50.0, 60.0]])
    constants = Constants()
    summed = constants.name(Weight(bias.astype(np.float32)), "biases:0")
    apart = constants.name(Weight(bias.astype(np.float32)), "biases:1")
    np.testing.assert_array_equal(constants.arrays[summed], [11, 22, 33, 44, 55, 66])
    np.testing.assert_array_equal(constants.arrays[apart], [11, 22, 3, 30, 44, 55, 6, 60])


@SMALL
def test_an_lstm_of_torch(small: bool) -> None:
    torch.manual_seed(4)
    net, x = torch.nn.LSTM(5, 7), torch.randn(6, 2, 5)
    with torch.no_grad():
        expected = net.double()(x.double())[0].numpy()
    parameters = [p.detach().float().numpy() for p in net.parameters()]
    order = np.arange(28).reshape(4, 7)[[0, 3, 1, 2]].reshape(-1)  # i, f, g, o as i, o, f, g
    w, r, *biases = (p[order] for p in parameters)
    e = Emitter({})
    weights = [e.weight(v[None]) for v in (w, r, np.concatenate(biases))]
    how = {"hidden": 7, "direction": "forward", "has_bias": True}
    made = e.results("lstm", e.input("x", TensorType(x.shape, F32)), *weights, **how)
    (found,) = run_c(e.finish(made[:1], ["y"]), {"x": x.numpy()}, small)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5, atol=1e-6)


@SMALL
def test_sums_and_extremes_of_rows(small: bool) -> None:
    """Sums of more than a few hundred numbers are made side by side even where size counts."""
    xs = {f"x{n}": _normal(n, 3, n) for n in (1, 7, 8, 9, 256, 257, 1000)}
    e = Emitter({})
    given = [e.input(name, TensorType(x.shape, F32)) for name, x in xs.items()]
    how = {"axes": (1,), "keepdims": False}
    made = [e.op(f"reduce_{name}", x, **how) for x in given for name in ("sum", "max")]
    for x in xs.values():
        x[1, -1] = np.nan
    found = run_c(e.finish(made, [f"y{i}" for i in range(len(made))]), xs, small)
    for x, total, most in zip(xs.values(), found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(total, x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(most, x.max(1))


def test_tiles_are_made_where_much_is_multiplied() -> None:
    def made(rows: int) -> Generated:
        return generate_c(_product(rows, 64, 64)[0])

    assert 2 * 8 * 64 * 64 < BUSY <= 2 * 64 * 64 * 64
    assert "#define CUVIL_BUSY" not in made(8).sources[SOURCE]
    assert "#define CUVIL_BUSY" in made(64).sources[SOURCE]
    assert "cuvil_tile_square" in made(8).sources[SOURCE]  # for -O2


def test_the_models_bytes_are_those_of_its_weights() -> None:
    model, x = mlp()
    built = cuvil.compile(model, (x,), target="c", cache=False)
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert built.manifest.extra["memory"]["weights"] == parameters
