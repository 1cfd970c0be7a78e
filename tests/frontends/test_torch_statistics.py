"""Statistics, gamma functions and order, against torch where its sample inputs don't look."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cuvil
from cuvil.errors import UnsupportedOpError
from tests.frontends.torch_helper import Fn, check


class _Named(Fn):
    def forward(self, e: torch.Tensor, x: torch.Tensor) -> Any:
        return self.function(e, x)


def test_covariance_is_traced_whole_as_function_and_method() -> None:
    x, w = torch.randn(3, 7), torch.rand(7)
    check(lambda x, w: (torch.cov(x), x.cov(correction=0, aweights=w), torch.corrcoef(x)), x, w)
    check(lambda x: torch.combinations(x, 3), torch.randn(5))


@pytest.mark.parametrize("name", ["lgamma", "erfinv"])
def test_gamma_and_the_inverse_error_function(name: str) -> None:
    x = torch.cat([torch.linspace(-0.999, 0.999, 41), torch.tensor([-1.0, 1.0, torch.nan])])
    check(getattr(torch, name), x)


def test_incomplete_gamma_functions_of_great_and_small_arguments() -> None:
    a, x = torch.meshgrid(
        torch.tensor([0.0, 1e-3, 0.5, 1.0, 30.0, 500.0, 2e5, torch.inf], dtype=torch.float64),
        torch.tensor([0.0, 1e-3, 1.0, 29.0, 480.0, 2e5, torch.inf], dtype=torch.float64),
        indexing="ij",
    )  # fmt: skip
    check(lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)), a, x, rtol=1e-5)


def test_medians_and_quantiles_with_nan() -> None:
    x = torch.tensor([[3.0, torch.nan, 1.0], [2.0, 2.0, 5.0], [torch.nan] * 3])
    check(lambda x: (*x.median(1), *x.nanmedian(1), x.median(), x.nanmedian()), x)
    q = torch.tensor([0.0, 0.3, 1.0])
    for kind in ("linear", "lower", "higher", "nearest", "midpoint"):
        check(lambda x, q, k=kind: (x.quantile(q, 1, interpolation=k),
                                    x.nanquantile(q, 1, True, interpolation=k)), x, q)  # fmt: skip


@pytest.mark.parametrize("kind", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles_of_infinities(kind: str) -> None:
    inf = torch.inf
    x = torch.tensor([[-inf] * 3, [inf] * 3, [-inf, -inf, 1], [-inf, 1, inf], [1, inf, inf]])
    q = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    check(lambda x, q: (x.quantile(q, 1, interpolation=kind),
                        x.nanquantile(q, 1, interpolation=kind)), x, q)  # fmt: skip


def test_the_logarithm_of_a_sum_of_nothing() -> None:
    x = torch.zeros(0, 3)
    check(lambda x: (x.logsumexp(0), x.logsumexp(0, True), x.logsumexp((0, 1)), x.logsumexp(1)), x)


def test_mode_takes_the_least_of_the_most_frequent() -> None:
    check(lambda x: x.mode(-1), torch.tensor([[4, 1, 4, 1, 3], [2, 2, 2, 9, 9], [5, 4, 3, 2, 1]]))


def test_the_last_of_equal_running_extremes_and_nan() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, torch.nan, 5.0, torch.nan, 2.0])
    check(lambda x: (*x.cummax(0), *x.cummin(0)), x)
    y = torch.tensor([-torch.inf, -torch.inf, 1.0, 800.0, -5.0, torch.inf])
    check(lambda y: (y.logcumsumexp(0), y.cumprod(0)), y)


def test_searches_of_nan_and_of_ties() -> None:
    edges = torch.tensor([[1.0, 2.0, 2.0, 7.0], [-1.0, 0.0, 3.0, torch.inf]])
    x = torch.tensor([[2.0, torch.nan, -torch.inf], [torch.inf, 0.0, 9.0]])
    check(lambda e, x: (torch.searchsorted(e, x), torch.searchsorted(e, x, right=True)), edges, x)


def _lines_that_end_in_nan(n: int) -> torch.Tensor:
    """Sorted lines of n, with 0 to n NaN at their ends."""
    at = torch.arange(n)
    return torch.where(at < at.new_tensor(range(n + 1))[:, None], at // 2 * 1.0, torch.nan)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 13, 16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_searches_of_lines_that_hold_nan(n: int, dynamic: bool) -> None:
    """torch halves with ``not edge >= value``: what it finds depends on where the NaN lie."""
    lines = _lines_that_end_in_nan(n)
    ends = torch.tensor([torch.nan, torch.inf, -torch.inf, -1.0])
    keys = torch.cat([ends, torch.arange(n + 2) / 2]).expand(n + 1, -1).contiguous()

    def run(e: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = [torch.searchsorted(e, x, right=right) for right in (False, True)]
        last, second = e[-1], e[1 % e.shape[0]]
        return (*found, torch.bucketize(x, last), torch.bucketize(x, second, right=True))

    if not dynamic:
        check(run, lines, keys)
    elif n > 1:
        shapes = {"e": {1: torch.export.Dim("n", min=2, max=64)}, "x": None}
        more = _lines_that_end_in_nan(2 * n)[: n + 1]
        check(_Named(run), lines, keys, dynamic=shapes, sizes=[(more, keys)])


def test_a_search_compiled_and_of_constant_edges_with_nan() -> None:
    edges = torch.tensor([1.0, 2.0, torch.nan])
    x = torch.tensor([0.0, 1.5, 2.0, 5.0, torch.nan])
    assert torch.searchsorted(edges, x[:2]).tolist() == [0, 1]
    check(lambda x: (torch.bucketize(x, edges), torch.bucketize(x, edges[:2], right=True)), x)
    model = Fn(lambda e, x: (torch.searchsorted(e, x), torch.bucketize(x, e, right=True)))
    found = cuvil.compile(model, example_inputs=(edges, x))(edges, x)
    for have, want in zip(found, model(edges, x), strict=True):
        torch.testing.assert_close(have, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_the_sign_of_nan_is_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([torch.nan, -0.0, 0.0, -2.0, 3.0, torch.inf, -torch.inf], dtype=dtype)
    model = Fn(lambda x: (torch.sign(x), torch.sgn(x), x.clone().sign_()))
    check(model, x)
    for have, want in zip(cuvil.compile(model, example_inputs=(x,))(x), model(x), strict=True):
        torch.testing.assert_close(have, want, rtol=0, atol=0)
    check(torch.linalg.slogdet, torch.full((2, 2), torch.nan))


def test_neighbours_and_parts_of_denormal_numbers() -> None:
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-42, 1.0, -3.5, 3e38, torch.inf, -torch.inf, torch.nan])
    check(lambda x: (*torch.frexp(x), torch.nextafter(x, -x), torch.nextafter(x, x + 1)), x)
    check(lambda x: (*torch.frexp(x), torch.nextafter(x, -x)), x.double(), rtol=0, atol=0)


def test_a_strided_view_of_a_view_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="outside of it"):
        check(lambda x: x[1:].as_strided((2,), (1,), 0), torch.arange(6.0))


def test_a_part_that_starts_where_a_tensor_says() -> None:
    x = torch.arange(20.0).reshape(4, 5)
    for start in (0, 2, -3):
        check(lambda x, s: (x.narrow(1, s, 2), torch.narrow(x, 0, 1, 2)), x, torch.tensor(start))


def test_comparisons_in_place_keep_the_numbers_dtype() -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = torch.stack([x, y])
        base[0].eq_(y)
        return base, x.clone().logical_not_()

    check(run, torch.tensor([1.0, 0.0, 3.0]), torch.tensor([1.0, 2.0, 3.0]))


def test_runs_of_equal_parts_along_a_dim_from_the_back() -> None:
    x = torch.tensor([[1.0, 1.0, 2.0], [3.0, 3.0, 4.0]])
    check(lambda x: (x.unique_consecutive(dim=-1), torch.unique_consecutive(x, dim=0)), x)


def test_signs_of_nan_and_hypotenuses_beyond_the_range_of_squares() -> None:
    x = torch.tensor([torch.nan, -torch.inf, -0.0, 1e30, 3e-30, torch.inf, 5.0])
    y = torch.tensor([torch.inf, torch.nan, 0.0, -1e30, 4e-30, 1.0, torch.nan])
    check(lambda x, y: (x.sign(), x.sgn(), torch.hypot(x, y)), x, y, atol=0)
    wide = (x.double() * 1e280, y.double() * 1e280)
    check(lambda x, y: (x.sign(), torch.hypot(x, y) / 1e280), *wide)
