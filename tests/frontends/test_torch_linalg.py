"""torch.linalg against torch; decompositions that are not unique by what they are made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import UnsupportedOpError, VerificationError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret

Function = Callable[..., Any]


def _matrix(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape)


def _check(function: Function, *args: torch.Tensor) -> None:
    model = Fn(function)
    assert_same(capture_torch(model, args), model, args, rtol=2e-4, atol=2e-5)


_UNIQUE: dict[str, Function] = {
    "lu": lambda a: torch.linalg.lu(a),
    "lu_factor": lambda a: torch.linalg.lu_factor(a),
    "solve": lambda a: torch.linalg.solve(a, a.mT + 1),
    "solve a vector": lambda a: torch.linalg.solve(a, a[..., 0]),
    "solve from the right": lambda a: torch.linalg.solve(a, a[..., :2, :], left=False),
    "inv": lambda a: torch.linalg.inv(a),
    "det": lambda a: (torch.linalg.det(a), torch.det(a), torch.logdet(a @ a.mT)),
    "slogdet": lambda a: torch.linalg.slogdet(a),
    "cholesky": lambda a: (torch.linalg.cholesky(a @ a.mT), torch.cholesky_inverse(a.tril())),
    "cholesky upper": lambda a: torch.linalg.cholesky(a @ a.mT, upper=True),
    "cholesky_solve": lambda a: torch.cholesky_solve(a, torch.linalg.cholesky(a @ a.mT)),
    "qr": lambda a: (*torch.linalg.qr(a), *torch.linalg.qr(a[..., :2], mode="complete")),
    "qr of a wide matrix": lambda a: (*torch.linalg.qr(a[..., :2, :]), torch.geqrf(a)[0]),
    "triangular": lambda a: (
        torch.linalg.solve_triangular(a, a.mT, upper=True),
        torch.linalg.solve_triangular(a, a.mT, upper=False, left=False, unitriangular=True),
    ),
    "pinv": lambda a: (torch.linalg.pinv(a[..., :2]), torch.linalg.pinv(a, rtol=0.3)),
    "pinv of a symmetric one": lambda a: torch.linalg.pinv(a @ a.mT, hermitian=True),
    "norms": lambda a: (
        torch.linalg.svdvals(a), torch.linalg.eigvalsh(a), torch.linalg.matrix_norm(a, "nuc"),
        torch.linalg.cond(a), torch.linalg.matrix_rank(a[..., :1] @ a[..., :1, :]),
    ),
    "exponential": lambda a: (torch.matrix_exp(a), torch.linalg.matrix_exp(a - 3)),
    "powers": lambda a: (torch.linalg.matrix_power(a, 3), torch.linalg.matrix_power(a, -2)),
}  # fmt: skip


@pytest.mark.parametrize("name", _UNIQUE)
def test_unique_results(name: str) -> None:
    _check(_UNIQUE[name], _matrix(2, 4, 4) / 2 + 3 * torch.eye(4))


def test_indefinite_systems() -> None:
    a = _matrix(2, 6, 6)
    a = a + a.mT - 2 * torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))  # blocks of two
    _check(lambda a: torch.linalg.ldl_factor_ex(a), a)
    ld, pivots = torch.linalg.ldl_factor(a)
    assert (pivots < 0).any()
    _check(lambda ld, p, b: torch.linalg.ldl_solve(ld, p, b), ld, pivots, _matrix(2, 6, 3))


def test_eigenvalues_of_any_matrix_are_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="order of the eigenvalues"):
        capture_torch(Fn(lambda a: torch.linalg.eigvals(a).abs()), (_matrix(3, 3),))


def test_lu_solve_in_all_four_ways() -> None:
    lu, pivots = torch.linalg.lu_factor(_matrix(2, 4, 4))
    for left in (True, False):
        for adjoint in (True, False):
            _check(
                lambda lu, p, b, left=left, adjoint=adjoint: torch.linalg.lu_solve(
                    lu, p, b, left=left, adjoint=adjoint
                ),
                lu, pivots, _matrix(2, 4, 4),
            )  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 6), (1, 1), (0, 3)])
def test_singular_values_rebuild_the_matrix(shape: tuple[int, ...]) -> None:
    a = _matrix(*shape)
    for full in (False, True):
        module = capture_torch(Fn(lambda a, f=full: torch.linalg.svd(a, full_matrices=f)), (a,))
        u, s, vh = interpret(module, [a])
        k = s.shape[-1]
        rebuilt = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        np.testing.assert_allclose(rebuilt, a.numpy(), atol=1e-5)
        for q in (u, vh.swapaxes(-1, -2)):
            eye = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
            np.testing.assert_allclose(q.swapaxes(-1, -2) @ q, eye, atol=1e-5)


def test_eigenvectors_of_either_triangle() -> None:
    a = _matrix(2, 5, 5)
    for side in ("L", "U"):
        module = capture_torch(Fn(lambda a, s=side: torch.linalg.eigh(a, UPLO=s)), (a,))
        values, vectors = interpret(module, [a])
        wanted = torch.linalg.eigvalsh(a, UPLO=side).numpy()
        np.testing.assert_allclose(values, wanted, atol=1e-5)
        half = torch.tril(a) if side == "L" else torch.triu(a)
        whole = (half + half.mT - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))).numpy()
        np.testing.assert_allclose(whole @ vectors, vectors * values[..., None, :], atol=1e-4)


def test_a_singular_matrix_gives_nan_where_torch_raises() -> None:
    a = torch.ones(2, 2)
    module = capture_torch(Fn(lambda a: (torch.linalg.inv(a), torch.linalg.cholesky(-a))),
                           (torch.eye(2),))  # fmt: skip
    assert all(np.isnan(out).all() for out in interpret(module, [a]))


def test_an_artifact_solves_batches_of_any_size() -> None:
    model = Fn(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.svdvals(a), torch.det(a)))
    a, b = _matrix(3, 4, 4), _matrix(3, 4, 2)
    compiled = cuvil.compile(model, example_inputs=(a, b), dynamic_dims=["batch"])
    a, b = _matrix(5, 4, 4), _matrix(5, 4, 2)
    for have, want in zip(compiled(a, b), model(a, b), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-4)


def test_vectors_of_another_sign_are_told_from_a_fault() -> None:
    class Turned(torch.nn.Module):
        """Eager torch gives the other sign; a capture can't tell."""

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            vectors = torch.linalg.eigh(a)[1]
            if torch.compiler.is_exporting():
                return vectors
            lead = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).sign()
            return -vectors * lead

    a = _matrix(3, 3)
    with pytest.raises(VerificationError, match="free in their sign"):
        cuvil.compile(Turned(), example_inputs=(a @ a.mT,))


def test_an_operator_that_another_one_is_made_of_occurs_beside_it() -> None:
    model = Fn(lambda x: (torch.linalg.svdvals(x), torch.linalg.norm(x, ord=2, dim=(-2, -1))))
    x = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    module = capture_torch(model, (x,), {})
    assert_same(module, model, (x,))
