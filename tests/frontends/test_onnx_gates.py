"""Activations of recurrent layers, with numbers of their own: natively, in C and back as ONNX,
against ONNX Runtime, whose own functions are right to some 3e-5."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import cuvil
from cuvil.errors import UnsupportedOpError
from tests.frontends.onnx_models import FLOAT, floats, model, node, run_ort

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_EACH = {"LSTM": 3, "GRU": 2, "RNN": 1}
# Each activation of ONNX; the numbers of those that read any.
_ALPHA = {"HardSigmoid": 0.3, "LeakyRelu": 0.2, "ThresholdedRelu": 0.1, "ScaledTanh": 1.5,
          "Elu": 0.7, "Affine": 0.9}  # fmt: skip
_BETA = {"HardSigmoid": 0.4, "ScaledTanh": 0.8, "Affine": 0.1}
_NAMES = (*_ALPHA, "Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")


def _layer(op: str, names: tuple[str, ...], **attrs: Any) -> tuple[ModelProto, dict[str, Any]]:
    directions = len(names) // _EACH[op]
    rows, hidden = _GATES[op] * 3, 3
    constants = {
        "w": floats(directions, rows, 2, seed=1),
        "r": floats(directions, rows, hidden, seed=2),
        "b": floats(directions, 2 * rows, seed=3),
    }
    kind = "bidirectional" if directions == 2 else "forward"
    made = node(op, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, direction=kind,
                activations=names, **attrs)  # fmt: skip
    return model([made], {"x": (FLOAT, (4, 2, 2))}, ["y"], constants), {"x": floats(4, 2, 2)}


def _numbers(names: tuple[str, ...]) -> dict[str, list[float]]:
    numbers = {
        "activation_alpha": [_ALPHA[n] for n in names if n in _ALPHA],
        "activation_beta": [_BETA[n] for n in names if n in _BETA],
    }
    return {name: values for name, values in numbers.items() if values}


def _turn(op: str, at: int, directions: int) -> tuple[str, ...]:
    return tuple(_NAMES[(at + k) % len(_NAMES)] for k in range(directions * _EACH[op]))


@pytest.mark.parametrize("op", _GATES)
def test_every_activation(op: str) -> None:
    """Alone and next to each other, as numbers are consumed in order."""
    for at, directions in product(range(len(_NAMES)), (1, 2)):
        names = _turn(op, at, directions)
        proto, inputs = _layer(op, names, **_numbers(names))
        got = cuvil.compile(proto, cache=False)(**inputs)
        expected = run_ort(proto, inputs)[0]
        there = np.isfinite(expected)  # its Softplus is infinite from 89 on
        np.testing.assert_allclose(got[there], expected[there], 1e-3, 1e-4)


@pytest.mark.parametrize("name", [n for n in _ALPHA if n != "ScaledTanh"])
def test_numbers_that_are_not_given_are_those_of_the_operator(name: str) -> None:
    """As the specification says: those that the operator of that name has by default."""
    alpha = {"HardSigmoid": 0.2, "LeakyRelu": 0.01}.get(name, 1.0)
    beta = {"HardSigmoid": [0.5], "Affine": [0.0]}.get(name)
    said = {"activation_alpha": [alpha], **({"activation_beta": beta} if beta else {})}
    (one, inputs), (other, _) = _layer("RNN", (name,)), _layer("RNN", (name,), **said)
    got = cuvil.compile(one, cache=False)(**inputs)
    np.testing.assert_allclose(got, run_ort(other, inputs)[0], 1e-3, 1e-4)


@pytest.mark.parametrize("op", _GATES)
@pytest.mark.parametrize("target", ["c", "onnx"])
def test_on_other_targets(op: str, target: str) -> None:
    for at in range(0, len(_NAMES), 2 * _EACH[op]):
        names = _turn(op, at, 2)
        proto, inputs = _layer(op, names, **_numbers(names))
        built = cuvil.compile(proto, target=target, cache=False)
        np.testing.assert_allclose(built(inputs["x"]), run_ort(proto, inputs)[0], 1e-3, 1e-4)


def test_numbers_that_no_function_reads_are_refused() -> None:
    proto, _ = _layer("RNN", ("LeakyRelu",), activation_alpha=[0.1, 0.2])
    with pytest.raises(UnsupportedOpError, match="2 values of activation_alpha.*give 1"):
        cuvil.compile(proto, cache=False)
