"""torch.special against torch in f64, over ordinary arguments and the ends of each branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cuvil.frontends.torch_export.capture import capture_torch
from cuvil.reference.interpreter import run_module

_UNARY = (
    "i0", "i0e", "i1", "i1e", "ndtr", "entr", "ndtri", "log_ndtr", "erfc", "erfcx", "airy_ai",
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "digamma",
)  # fmt: skip
_POLYNOMIALS = (
    *(f"chebyshev_polynomial_{k}" for k in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{k}" for k in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
)  # fmt: skip


class _Call(torch.nn.Module):
    def __init__(self, name: str, *first: Any) -> None:
        super().__init__()
        self.name, self.first = name, first

    def forward(self, *x: torch.Tensor) -> Any:
        return getattr(torch.special, self.name)(*self.first, *x)


def _check(module: torch.nn.Module, *x: torch.Tensor, tolerance: float = 1e-13) -> None:
    captured = capture_torch(module, x)
    names = captured.main.input_names
    got = run_module(captured, {n: t.numpy() for n, t in zip(names, x, strict=True)})[0]
    want = module(*x).numpy()
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _line() -> torch.Tensor:
    ends = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-8, 1e-30, 2.0, 5.0, 8.0, 104.0, 2.09, -2.09]
    parts = (np.linspace(-30, 60, 901), np.linspace(0, 1, 101), ends)
    return torch.from_numpy(np.concatenate(parts))


@pytest.mark.parametrize("name", _UNARY)
def test_functions_of_one_argument(name: str) -> None:
    _check(_Call(name), _line())


@pytest.mark.parametrize("name", _POLYNOMIALS)
def test_orthogonal_polynomials(name: str) -> None:
    x = torch.tensor([np.nan, -1.5, -1.0, -0.7, 0.0, 0.2, 0.5, 1.0, 1.3], dtype=torch.float64)
    degrees = torch.tensor([-1.0, 0.0, 0.9, 1.0, 2.0, 5.0, 9.0, 12.0], dtype=torch.float64)
    _check(_Call(name), x[:, None], degrees, tolerance=1e-11)


def test_zeta_polygamma_and_xlog1py() -> None:
    x = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 10.0], dtype=torch.float64)[:, None]
    q = torch.tensor([-2.5, -2.0, 0.0, 0.1, 1.0, 40.0, np.nan], dtype=torch.float64)
    _check(_Call("zeta"), x, q, tolerance=1e-12)
    _check(_Call("xlog1py"), torch.tensor([0.0, 1.0, np.nan]).double()[:, None], q)
    for order in (0, 1, 2, 5):
        _check(_Call("polygamma", order), q[:-1], tolerance=1e-12)
