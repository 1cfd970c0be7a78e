"""Complex tensors, carried as pairs, and Fourier transforms, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret

Function = Callable[..., Any]


def _real(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape)


def _complex(*shape: int) -> torch.Tensor:
    return torch.view_as_complex(_real(*shape, 2))


def _check(function: Function, *args: torch.Tensor, rtol: float = 2e-5) -> None:
    model = Fn(function)
    assert_same(capture_torch(model, args), model, args, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 9, 64, 67, 100, 128, 521])
def test_transforms_of_every_kind_of_length(n: int) -> None:
    x, z = _real(2, n), _complex(2, n)
    _check(lambda x, z: (torch.fft.fft(z), torch.fft.ifft(z), torch.fft.rfft(x),
                         torch.fft.irfft(torch.fft.rfft(x), n=n), torch.fft.hfft(z, n=n)), x, z)


def test_transforms_of_several_axes_and_norms() -> None:
    z = _complex(3, 4, 6)
    _check(lambda z: (torch.fft.fft2(z, norm="ortho"), torch.fft.ifftn(z, s=(5, 4), dim=(0, 2)),
                      torch.fft.irfft2(z, norm="forward"), torch.fft.fftshift(z)), z)


def test_imaginary_parts_that_do_not_count_may_be_infinite() -> None:
    z = torch.tensor([complex(1, np.inf), 2 + 1j, complex(3, np.nan)])
    _check(lambda z: torch.fft.irfft(z, n=4), z)


def test_frequencies() -> None:
    _check(lambda x: tuple(
        x.sum() + f(n, d=d) for f in (torch.fft.fftfreq, torch.fft.rfftfreq)
        for n, d in ((7, 1.0), (8, 0.25), (1, 2.0))
    ), _real(2))  # fmt: skip


def test_stft() -> None:
    window = torch.hann_window(16)
    _check(lambda x: torch.stft(x, 16, 4, window=window, return_complex=True).abs(), _real(2, 70))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * b + 2j * a - b,
        lambda a, b: a / b,
        lambda a, b: (a.abs(), a.angle(), a.real, a.imag, a.conj() * b),
        lambda a, b: (torch.exp(a), torch.log(a), a.sgn(), a**3, 1 / a),
        lambda a, b: (a @ b.mT, a @ b.mH, torch.addmm(a, a @ b.mT, b, beta=0.5, alpha=2)),
        lambda a, b: torch.cat([a, b])[1:, ::2].reshape(-1).sum(),
        lambda a, b: (torch.where(a.real > 0, a, b), a == b, torch.isnan(a), torch.isfinite(a)),
        lambda a, b: (a.to(torch.complex128), torch.zeros_like(a), torch.full_like(a, 1j)),
        lambda a, b: (a.sqrt(), (-b.abs() + 0j).sqrt(), (a * 0).sqrt(), a.sin(), b.cos()),
        lambda a, b: (a + 1.5, a * a.abs(), a.mean(0), torch.stack([a, b]).flip(0)),
    ],
)
def test_arithmetic(function: Function) -> None:
    _check(function, _complex(3, 4), _complex(3, 4) + 0.1)


def test_size_of_large_numbers_does_not_overflow() -> None:
    _check(lambda z: z.abs(), torch.tensor([3e38 + 1e38j, 1e-44j, 0j]))
    _check(lambda z: z.abs(), torch.tensor([1e308 + 1e308j, 0j], dtype=torch.complex128))
    _check(lambda z: 1 / z, torch.tensor([3e30 + 1e30j, 1e-30j]))


def test_rotary_embedding_with_a_complex_buffer() -> None:
    class Rotary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(5, 4), _real(5, 4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = torch.view_as_complex(x.reshape(*x.shape[:-1], 4, 2))
            return torch.view_as_real(z * self.turn).flatten(-2)

    model = Rotary()
    args = (_real(3, 5, 8),)
    assert_same(capture_torch(model, args), model, args)


def test_an_artifact_takes_and_gives_complex_numbers() -> None:
    model = Fn(lambda z, x: {"spectrum": torch.fft.fft(z) * x, "size": z.abs()})
    z, x = _complex(3, 8), _real(3, 8)
    compiled = cuvil.compile(model, example_inputs=(z, x), dynamic_dims=["batch"])
    z, x = _complex(2, 8), _real(2, 8)
    expected = model(z, x)
    found = compiled(z, x)
    assert found["spectrum"].dtype == torch.complex64
    torch.testing.assert_close(found["spectrum"], expected["spectrum"], rtol=1e-5, atol=1e-5)
    plain = compiled(z.numpy(), x.numpy())
    assert plain["spectrum"].dtype == np.complex64
    np.testing.assert_allclose(plain["spectrum"], found["spectrum"].numpy(), rtol=1e-6)
    torch.testing.assert_close(found["size"], expected["size"])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 31, 32, 100, 130])
def test_the_real_bins_of_a_real_signal_have_torchs_zero(n: int) -> None:
    """The sign of that zero decides between the angles pi and -pi."""

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectra = (torch.fft.fft(x), torch.fft.rfft(x), torch.fft.ifft(x))
        return tuple(s.imag[..., :: n // 2] if n > 1 else s.imag for s in spectra)

    for x in (-torch.rand(n) - 0.1, _real(3, n), -torch.rand(2, n)):
        x[..., 0] -= 3
        _check(lambda x: torch.cat([f(x).angle() for f in (torch.fft.fft, torch.fft.rfft)], -1), x)
        model = Fn(parts)
        module = capture_torch(model, (x,))
        for optimized in (False, True):
            if optimized:
                found = [t.numpy() for t in cuvil.compile(model, example_inputs=(x,))(x)]
            else:
                found = interpret(module, (x,))
            for have, view in zip(found, parts(x), strict=True):
                want = view.resolve_neg().numpy()
                real = want == 0
                assert real[..., 0].all()
                np.testing.assert_array_equal(have[real], 0)
                np.testing.assert_array_equal(np.signbit(have)[real], np.signbit(want)[real])


def test_angles_of_a_plane_of_negative_numbers() -> None:
    x = -torch.eye(8) * 9 - torch.rand(8, 8)
    _check(lambda x: torch.fft.fft2(x)[::4, ::4].angle(), x)
    _check(lambda x: torch.fft.fft(x.to(torch.complex64))[..., ::4].angle(), x)


def test_an_operator_without_complex_rule_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="no rule for it"):
        capture_torch(Fn(lambda z: torch.cumprod(z, 0)), (_complex(4),))


_INF, _NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_square_roots_on_the_cut_of_large_and_of_infinite_numbers(dtype: torch.dtype) -> None:
    """As NumPy and C99 (G.6.4.2) have them: the root's imaginary part has the sign of the number's,
    that of a zero too."""
    top = torch.finfo(dtype).max
    values = [(-4.0, 0.0), (-4.0, -0.0), (0.0, -0.0), (-0.0, 0.0), (4.0, -0.0), (top, top),
              (-top, -top), (-top, 1.0), (3e-38, -3e-38), (_INF, 1.0), (-_INF, -1.0),
              (_NAN, _INF), (1.0, -_INF), (-_INF, _INF), (_NAN, 1.0)]  # fmt: skip
    z = np.array([complex(*v) for v in values], np.dtype(str(dtype).removeprefix("torch.")))
    model = Fn(lambda re, im: torch.view_as_real(torch.sqrt(torch.complex(re, im))))
    args = (torch.from_numpy(z.real.copy()), torch.from_numpy(z.imag.copy()))
    found = np.asarray(interpret(capture_torch(model, args), args)[0])
    want = np.stack([np.sqrt(z).real, np.sqrt(z).imag], -1)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found)[real], np.signbit(want)[real])


def test_logarithms_of_large_numbers_do_not_overflow() -> None:
    _check(lambda z: z.log(), torch.tensor([3e38 + 3e38j, -3e38 - 3e38j, 1e-38j]))


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_products_along_an_axis(count: int) -> None:
    _check(lambda z: (z.prod(), z.prod(-1), z.prod(0, keepdim=True)), _complex(3, count))
    _check(lambda x: x.prod(1, dtype=torch.complex64), _real(3, count))


def test_the_product_of_a_scalar_is_itself() -> None:
    _check(lambda z: (z.prod(), z.prod(0)), torch.tensor(2 + 1j))


def test_exponentials_near_overflow_and_of_infinite_parts() -> None:
    """C99, G.6.3.1; 88.8 + 3j has a finite imaginary part, though exp(88.8) overflows f32."""

    class Exponential(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp()

    inf, nan = float("inf"), float("nan")
    z = torch.tensor(
        [100, 88.8 + 3j, complex(-inf, nan), complex(inf, 0), 1 + 2j], dtype=torch.complex64
    )
    with cuvil.compile(Exponential(), (torch.ones_like(z),)) as artifact:
        got = torch.view_as_real(artifact(z))
    right = torch.view_as_real(z.to(torch.complex128).exp()).float()
    torch.testing.assert_close(got, right, rtol=1e-6, atol=0)


def test_quotients_of_zeros_and_infinities_are_those_of_c99() -> None:
    """Annex G, G.5.1: a finite number over infinity is 0, one over 0 or an infinity over a finite
    number is infinite; and nothing in between overflows."""
    inf, nan = _INF, _NAN
    cases = [
        (1, 0, (inf, nan)), (1 + 1j, 0, (inf, inf)), (-2 + 1j, 0, (-inf, inf)),
        (0, 0, (nan, nan)), (1, complex(inf, 0), (0, 0)), (1 + 2j, complex(inf, inf), (0, 0)),
        (1, complex(nan, inf), (0, 0)), (complex(inf, nan), 1 + 1j, (inf, -inf)),
        (complex(inf, 3), 2, (inf, nan)), (complex(nan, 1), 2, (nan, nan)),
        (complex(inf, 0), complex(inf, 0), (nan, nan)),
        (3e38 + 3e38j, 3e38 + 3e38j, (1, 0)), (1e-38, 1e-38j, (0, -1)), (4 + 2j, 1 + 1j, (3, -1)),
    ]  # fmt: skip
    a, b = (torch.tensor([case[i] for case in cases], dtype=torch.complex64) for i in (0, 1))
    for kind in (torch.complex64, torch.complex128):
        got = _real_parts(lambda x, y: x / y, a.to(kind), b.to(kind))
        np.testing.assert_allclose(got, [case[2] for case in cases], rtol=1e-6, atol=1e-9)


def test_reciprocals_of_zeros_and_infinities() -> None:
    z = torch.tensor([0, complex(_INF, 1), complex(1, -_INF), 2j])
    want = [(_INF, _NAN), (0, 0), (0, 0), (0, -0.5)]
    np.testing.assert_array_equal(_real_parts(torch.reciprocal, z), np.array(want, np.float32))


def _real_parts(function: Function, *z: torch.Tensor) -> np.ndarray:
    """Of a function of complex tensors."""
    def run(*parts: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(function(*map(torch.view_as_complex, parts)))

    parts = [torch.view_as_real(x) for x in z]
    return interpret(capture_torch(Fn(run), tuple(parts)), parts)[0]
