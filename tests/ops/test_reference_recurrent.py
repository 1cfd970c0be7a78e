"""Recurrent layers against ONNX Runtime, and against torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.onnx_run import run_onnx
from tests.ops.values import Array, Case, case

_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hard_sigmoid": "HardSigmoid",
          "softsign": "Softsign", "softplus": "Softplus", "leaky_relu": "LeakyRelu", "elu": "Elu",
          "thresholded_relu": "ThresholdedRelu", "scaled_tanh": "ScaledTanh",
          "affine": "Affine"}  # fmt: skip
# Those that consume numbers: alpha alone, or beta too.
_ALPHA = ("hard_sigmoid", "leaky_relu", "elu", "thresholded_relu", "scaled_tanh", "affine")
_BETA = ("hard_sigmoid", "scaled_tanh", "affine")
# Where ONNX wants each optional operand.
_SLOTS = {"has_bias": 3, "has_seq_lens": 4, "has_h0": 5, "has_c0": 6, "has_peephole": 7}
_ORDER = ("has_bias", "has_h0", "has_c0", "has_seq_lens", "has_peephole")


def _onnx_inputs(c: Case) -> list[Array | None]:
    given = dict(zip([f for f in _ORDER if c.attrs.get(f)], c.arrays[3:], strict=True))
    inputs: list[Array | None] = [*c.arrays[:3], *[None] * 5]
    for flag, array in given.items():
        inputs[_SLOTS[flag]] = array
    wide = [None if a is None or a.dtype == np.int32 else a.astype(np.float32) for a in inputs]
    inputs = [w if w is not None else a for w, a in zip(wide, inputs, strict=True)]
    while inputs[-1] is None:
        inputs.pop()
    return inputs


def _oracle(name: str, c: Case) -> list[Array] | None:
    if 0 in c.arrays[0].shape or c.arrays[0].dtype == np.float64:
        return None
    a = c.attrs
    attrs: dict[str, Any] = {"hidden_size": a["hidden"], "direction": a["direction"]}
    if a.get("activations"):
        attrs["activations"] = [_NAMES[f] for f in a["activations"]]
        for key, to, reads in (("alphas", "alpha", _ALPHA), ("betas", "beta", _BETA)):
            pairs = zip(a["activations"], a.get(key, ()), strict=False)
            numbers = [v for f, v in pairs if f in reads]
            if numbers:
                attrs[f"activation_{to}"] = numbers
    if "clip" in a:
        attrs["clip"] = a["clip"]
    for flag in ("input_forget", "linear_before_reset"):
        if flag in a:
            attrs[flag] = int(a[flag])
    out = run_onnx(name.upper(), _onnx_inputs(c), 3 if name == "lstm" else 2, **attrs)
    return [o.astype(c.arrays[0].dtype) for o in out]


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_recurrent(name: str) -> None:
    check_against(name, partial(_oracle, name))


def _reordered(w: torch.Tensor, order: list[int]) -> Array:
    return torch.cat([w.chunk(len(order))[i] for i in order]).detach().numpy()[None]


@pytest.mark.parametrize(
    ("name", "order"), [("lstm", [0, 3, 1, 2]), ("gru", [1, 0, 2]), ("rnn", [0])]
)
def test_torch_layer(name: str, order: list[int]) -> None:
    """In f64; torch has its gates in another order (lstm i f g o, gru r z n)."""
    torch.manual_seed(0)
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[name]
    module = layer(4, 5, dtype=torch.float64)
    x = torch.randn(6, 3, 4, dtype=torch.float64)
    want = module(x)[0].detach().numpy()
    w, r, bw, br = (_reordered(p, order) for p in module.parameters())
    attrs: dict[str, Any] = {"hidden": 5, "direction": "forward", "has_bias": True}
    attrs |= {"linear_before_reset": True} if name == "gru" else {}
    bias = np.concatenate([bw, br], axis=1)
    got = run(name, case(x.numpy(), w, r, bias, **attrs))[0]
    np.testing.assert_allclose(got[:, 0], want, rtol=1e-12, atol=1e-13)


def test_a_sequence_of_length_0_gives_zeros() -> None:
    x, w = np.ones((2, 2, 1), np.float32), np.ones((1, 1, 1), np.float32)
    h0, lengths = np.ones((1, 2, 1), np.float32), np.array([0, 1], np.int32)
    attrs = {"hidden": 1, "direction": "forward", "has_h0": True, "has_seq_lens": True}
    y, h = run("rnn", case(x, w, w, h0, lengths, **attrs))
    assert y[:, 0, 0].tolist() == [[0.0], [0.0]] and h[0, 0] == 0.0
    assert y[1, 0, 1] == 0.0 and h[0, 1] == y[0, 0, 1] != 0.0


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"direction": "both"}, "none of"), ({"activations": ["gelu"]}, "no activation 'gelu'"),
     ({"activations": ["tanh", "tanh"]}, "2 activations"),
     ({"activations": ["elu"], "alphas": [1.0, 2.0]}, "2 alphas for 1 activations"),
     ({"has_h0": True}, "4 operands"),
     ({"hidden": 2}, "rnn: w")],
)  # fmt: skip
def test_wrong_layers_are_refused(attrs: dict[str, Any], reason: str) -> None:
    x, w = np.ones((2, 2, 1), np.float32), np.ones((1, 1, 1), np.float32)
    with pytest.raises(InvalidModelError, match=reason):
        infer("rnn", case(x, w, w, **{"hidden": 1, "direction": "forward", **attrs}))
