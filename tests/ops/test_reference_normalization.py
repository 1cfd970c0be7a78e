"""Normalisations against torch in f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.values import Array, Case, case

Function = Callable[[list[torch.Tensor], dict[str, Any]], torch.Tensor]


def _wide(function: Function) -> Callable[[Case], list[Array] | None]:
    def oracle(c: Case) -> list[Array] | None:
        tensors = [torch.tensor(a).to(torch.float64) for a in c.arrays]
        try:
            out = function(tensors, c.attrs)
        except ValueError:  # torch refuses one value a channel, as in training
            return None
        return [out.numpy().astype(c.arrays[0].dtype)]

    return oracle


def _affine(x: list[torch.Tensor], a: dict[str, Any]) -> tuple[Any, Any]:
    rest = x[1:]
    weight = rest.pop(0) if a.get("has_weight") else None
    return weight, rest.pop(0) if a.get("has_bias") else None


def _layer_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    tail = x[0].shape[a["axes_from"] % x[0].ndim :]
    return functional.layer_norm(x[0], tail, *_affine(x, a), a["eps"])


def _rms_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    tail = x[0].shape[a["axes_from"] % x[0].ndim :]
    return functional.rms_norm(x[0], tail, _affine(x, a)[0], a["eps"])


def _batch_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    return functional.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a["eps"])


def _group_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    if math.prod(x[0].shape[1:]) == a["groups"]:
        raise ValueError("x - mean of one element is noise in torch, which multiplies it out")
    return functional.group_norm(x[0], a["groups"], *_affine(x, a), a["eps"])


def _instance_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    weight, bias = _affine(x, a)
    return functional.instance_norm(x[0], weight=weight, bias=bias, eps=a["eps"])


def _lrn(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    """torch puts the odd channel of an even window before, ONNX after: mirror the channels."""
    given = x[0] if a["size"] % 2 else x[0].flip(1)
    out = functional.local_response_norm(given, a["size"], a["alpha"], a["beta"], a["bias"])
    return out if a["size"] % 2 else out.flip(1)


def _lp_norm(x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    norm = torch.linalg.vector_norm(x[0], a["p"], a["axis"], keepdim=True)
    return torch.where(norm == 0, 0.0, x[0] / norm)


_ORACLES: Mapping[str, Function] = {
    "softmax": lambda x, a: torch.softmax(x[0], a["axis"]),
    "log_softmax": lambda x, a: torch.log_softmax(x[0], a["axis"]),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "lrn": _lrn,
    "lp_norm": _lp_norm,
}


@pytest.mark.parametrize("name", sorted(_ORACLES))
def test_normalization(name: str) -> None:
    check_against(name, _wide(_ORACLES[name]))


def test_hand_values() -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [1e4, 1e4]], np.float32)
    out = run("softmax", case(x, axis=1))[0]
    assert np.isnan(out[0]).all() and out[1:].tolist() == [[1.0, 0.0], [0.5, 0.5]]
    rows = np.zeros((2, 3, 1), np.float32)
    assert not run("lp_norm", case(rows, axis=1, p=2))[0].any()
    assert run("softmax", case(np.float32(3), axis=-1))[0] == 1.0
    x, bias = np.array([[3.0, 4.0]], np.float32), np.array([0.5, 0.25], np.float32)
    flags = {"eps": 1e-5, "has_weight": False, "has_bias": True}
    assert run("group_norm", case(x, bias, groups=2, **flags))[0].tolist() == [[0.5, 0.25]]


def test_wrong_shapes_are_refused() -> None:
    x, w = np.zeros((2, 6, 4), np.float32), np.zeros(5, np.float32)
    flags = {"eps": 0.0, "has_weight": True, "has_bias": False}
    with pytest.raises(InvalidModelError, match="dimension 0 of the weight"):
        infer("layer_norm", case(x, w, axes_from=2, **flags))
    with pytest.raises(InvalidModelError, match="channels"):
        infer("instance_norm", case(x, w, **flags))
    with pytest.raises(InvalidModelError, match="4 groups"):
        infer("group_norm", case(x, np.zeros(6, np.float32), groups=4, **flags))
    with pytest.raises(InvalidModelError, match="ask for 2 operands"):
        infer("instance_norm", case(x, **flags))
