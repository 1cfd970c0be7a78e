"""What is added to a product with the factor 0 is not read: no NaN comes from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import floats, one
from tests.frontends.torch_helper import check, interpret

_BAD = [float("nan"), float("inf"), -float("inf"), 1.0]
Product = Callable[..., torch.Tensor]
_TORCH: dict[str, Product] = {
    "addmm": lambda bad, x, beta: torch.addmm(bad, x[0], x[0].T, beta=beta),
    "addmv": lambda bad, x, beta: torch.addmv(bad, x[0], x[0, 0], beta=beta),
    "addr": lambda bad, x, beta: torch.addr(bad, x[0, :, 0], x[0, :, 0], beta=beta),
    "baddbmm": lambda bad, x, beta: torch.baddbmm(bad, x, x.mT, beta=beta),
    "addbmm": lambda bad, x, beta: torch.addbmm(bad, x, x.mT, beta=beta),
}


@pytest.mark.parametrize("opset", [6, 13])
def test_gemm_does_not_read_c_where_beta_is_zero(opset: int) -> None:
    """As ONNX's reference and onnxruntime have it; alpha of 0 is a product like any other."""
    a, b = floats(2, 3), floats(3, 4)
    c = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    more = {"broadcast": 1} if opset < 7 else {}
    proto = one("Gemm", a.shape, opset, {"b": b, "c": c}, alpha=0.5, beta=0.0, **more)
    (got,) = run_module(capture_onnx(proto), {"x": a})
    (want,) = ReferenceEvaluator(proto).run(None, {"x": a})
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(got, 0.5 * (a.astype(np.float64) @ b), rtol=1e-6)
    a[0, 0] = np.nan
    proto = one("Gemm", a.shape, opset, {"b": b, "c": c}, alpha=0.0, beta=0.0, **more)
    (got,) = run_module(capture_onnx(proto), {"x": a})
    np.testing.assert_array_equal(got, ReferenceEvaluator(proto).run(None, {"x": a})[0])


@pytest.mark.parametrize("name", _TORCH)
def test_torch_does_not_read_the_input_where_beta_is_zero(name: str) -> None:
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    bad, operator = torch.tensor(_BAD), _TORCH[name]
    without = operator(torch.zeros(4), x, 1).numpy()
    module = check(lambda bad, x: operator(bad, x, 0), bad, x)
    np.testing.assert_allclose(interpret(module, [bad, x])[0], without, rtol=1e-4, atol=1e-5)
    assert np.isnan(operator(bad, x, 1).numpy()).any()


@pytest.mark.parametrize("name", ["addmm", "baddbmm"])
def test_nor_of_complex_numbers(name: str) -> None:
    x = torch.randn(2, 4, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    bad, operator = torch.tensor(_BAD).to(x.dtype), _TORCH[name]
    assert operator(bad, x, 0).isfinite().all()
    check(lambda bad, x: operator(bad, x, 0), bad, x)
