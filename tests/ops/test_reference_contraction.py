"""Products, attention and convolutions against torch in f64 or int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.values import Array, Case, case


def _out_dtype(c: Case) -> Any:
    return c.attrs["out"].numpy if "out" in c.attrs else c.arrays[0].dtype


def test_matmul() -> None:
    def oracle(c: Case) -> list[Array]:
        wide = torch.float64 if c.arrays[0].dtype.kind == "f" else torch.int64
        a, b = (torch.tensor(x).to(wide) for x in c.arrays)
        a = a.mT if c.attrs.get("trans_a") else a
        b = b.mT if c.attrs.get("trans_b") else b
        return [torch.matmul(a, b).numpy().astype(_out_dtype(c))]

    check_against("matmul", oracle)


def _visible(c: Case, s: int, t: int) -> torch.Tensor:
    rows, columns = torch.arange(s)[:, None], torch.arange(t)[None]
    return columns <= rows + c.attrs.get("causal_offset", 0)


def test_attention() -> None:
    def oracle(c: Case) -> list[Array] | None:
        q, k, v = (torch.tensor(x).to(torch.float64) for x in c.arrays[:3])
        s, t = q.shape[2], k.shape[2]
        if t == 0 or s == 0:
            return None
        mask = torch.zeros(s, t, dtype=torch.float64)
        if c.attrs["has_mask"]:
            given = torch.tensor(c.arrays[3])
            if given.dtype == torch.bool:
                given = torch.where(given, 0.0, -torch.inf)
            mask = mask + given.to(torch.float64)
        if c.attrs["causal"]:
            mask = torch.where(_visible(c, s, t), mask, -torch.inf)
        if c.attrs.get("nan_rows"):  # a row of -inf alone is NaN, where torch's operator has 0
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
            weights = ((q @ k.mT) * c.attrs["scale"] + mask).softmax(-1)
            if c.attrs.get("zero_nan_rows"):
                weights = torch.where(weights.isnan(), 0.0, weights)
            return [(weights @ v).numpy().astype(c.arrays[0].dtype)]
        out = functional.scaled_dot_product_attention(
            q, k, v, mask, scale=c.attrs["scale"], enable_gqa=True
        )
        return [out.numpy().astype(c.arrays[0].dtype)]

    check_against("attention", oracle)


def test_attention_without_keys_is_zero() -> None:
    q, k = np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, 0, 3), np.float32)
    assert not run("attention", case(q, k, k, scale=1.0, causal=False, has_mask=False))[0].any()
    x = np.ones((1, 1, 2, 3), np.float32)
    hidden = np.array([[True, False], [False, False]])
    out = run("attention", case(x, x, x, hidden, scale=1.0, causal=False, has_mask=True))[0]
    assert out[0, 0].tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]


def _pads(lo: Any, hi: Any) -> list[int]:
    """torch's order: the last dimension first."""
    return [p for pair in zip(reversed(lo), reversed(hi), strict=True) for p in pair]


def _activations(c: Case) -> torch.Tensor:
    x = torch.tensor(c.arrays[0]).to(torch.float64)
    return x.movedim(-1, 1) if c.attrs.get("channels_last") else x


def _finish(out: torch.Tensor, c: Case) -> list[Array]:
    if c.attrs["has_bias"]:
        bias = torch.tensor(c.arrays[2]).to(torch.float64)
        out = out + bias.reshape(-1, *[1] * (out.ndim - 2))
    out = out.movedim(1, -1) if c.attrs.get("channels_last") else out
    dtype = _out_dtype(c)
    return [out.numpy().astype(np.int64 if dtype.kind != "f" else dtype).astype(dtype)]


def test_conv() -> None:
    def oracle(c: Case) -> list[Array]:
        a, x = c.attrs, _activations(c)
        x = functional.pad(x, _pads(a["pads_lo"], a["pads_hi"]))
        function = (functional.conv1d, functional.conv2d, functional.conv3d)[x.ndim - 3]
        w = torch.tensor(c.arrays[1]).to(torch.float64)
        return _finish(function(x, w, None, a["strides"], 0, a["dilations"], a["groups"]), c)

    check_against("conv", oracle)


def test_conv_transpose() -> None:
    def oracle(c: Case) -> list[Array]:
        a, x = c.attrs, _activations(c)
        function = (
            functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d,
        )[x.ndim - 3]  # fmt: skip
        w = torch.tensor(c.arrays[1]).to(torch.float64)
        out = function(x, w, None, a["strides"], 0, 0, a["groups"], a["dilations"])
        ends = [e - p for e, p in zip(a["output_padding"], a["pads_hi"], strict=True)]
        return _finish(functional.pad(out, _pads([-p for p in a["pads_lo"]], ends)), c)

    check_against("conv_transpose", oracle)


def test_integers_wrap() -> None:
    x = np.array([[100, 100]], np.uint8)
    assert run("matmul", case(x, x.T))[0].tolist() == [[20000 % 256]]
    big = np.array([[2**62, 2**62]])
    assert run("matmul", case(big, np.array([[2], [2]])))[0].tolist() == [[0]]


_CONV: dict[str, Any] = {
    "strides": (1, 1), "pads_lo": (0, 0), "pads_hi": (0, 0), "dilations": (1, 1), "groups": 1,
    "has_bias": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "weight", "attrs", "reason"),
    [
        ((1, 3, 4, 4), (2, 2, 3, 3), {}, "input channels"),
        ((1, 3, 2, 4), (2, 3, 3, 3), {}, "kernel fits spatial dimension 0"),
        ((1, 4, 4, 4), (3, 2, 1, 1), {"groups": 2}, "can't form 2 groups"),
        ((1, 3, 4, 4), (2, 3, 3, 3), {"strides": (0, 1)}, "must be positive"),
        ((1, 3, 4, 4), (2, 3, 3, 3), {"dilations": (1,)}, "needs 2 entries"),
        ((1, 3, 4, 4), (2, 3, 3), {}, "differ in rank"),
        ((1, 3, 4, 4), (2, 3, 3, 3), {"has_bias": True}, "ask for 3 operands"),
    ],
)
def test_wrong_convolutions_are_refused(
    shape: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any], reason: str
) -> None:
    wrong = case(np.zeros(shape, np.float32), np.zeros(weight, np.float32), **{**_CONV, **attrs})
    with pytest.raises(InvalidModelError, match=reason):
        infer("conv", wrong)


def test_wrong_products_are_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidModelError, match="inner dimension"):
        infer("matmul", case(x, x))
    with pytest.raises(InvalidModelError, match="batches of one rank"):
        infer("matmul", case(np.zeros((1, 2, 2, 2)), np.zeros((1, 2, 2))))
    with pytest.raises(InvalidModelError, match="one dtype"):
        infer("matmul", case(x, x.T.astype(np.float64)))
    heads = np.zeros((1, 3, 2, 2), np.float32), np.zeros((1, 2, 2, 2), np.float32)
    with pytest.raises(InvalidModelError, match="can't share"):
        infer("attention", case(heads[0], heads[1], heads[1], scale=1.0, causal=False,
                                has_mask=False))  # fmt: skip
