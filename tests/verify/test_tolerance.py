"""What is allowed to differ, and what a source refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.api import compiler, verify
from cuvil.errors import InputError, InvalidModelError, VerificationError
from cuvil.verify.report import compare


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "tolerance-cache"
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(folder))


def _compile(model: Any, x: torch.Tensor, dims: Any = None) -> Any:
    return cuvil.compile(model, (x,), dynamic_dims=dims, cache=False, threads=1)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_half_precision_is_judged_by_its_own_rounding(dtype: torch.dtype, atol: float) -> None:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    model = torch.nn.Sequential(*layers).to(dtype).eval()
    report = verify(_compile(model, torch.randn(4, 64).to(dtype)))
    assert report.passed and report.tolerance == {"atol": atol, "rtol": atol}


class TakeApart(torch.nn.Module):
    """Sums whose terms cancel but for a millionth: one unit of rounding is visible in them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x + 0.01, -x.flip(1)], 1).sum(1)


def test_inputs_that_are_ill_conditioned_are_judged_by_how_far_rounding_moves_them() -> None:
    torch.manual_seed(0)
    report = verify(_compile(TakeApart(), 1e4 * torch.randn(8, 512)))
    assert report.passed and report.tolerance == {"atol": 1e-5, "rtol": 1e-3}
    assert len(report.ill_conditioned) == 1 and "ill-conditioned" in str(report)


def test_a_wrong_result_of_well_conditioned_inputs_still_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = compiler.load

    def off(*args: Any, **more: Any) -> Any:
        artifact = real(*args, **more)
        run = artifact.run
        artifact.run = lambda inputs: {n: a * np.float32(1.01) for n, a in run(inputs).items()}
        return artifact

    monkeypatch.setattr(compiler, "load", off)
    with pytest.raises(VerificationError):
        _compile(torch.nn.LayerNorm(64), torch.randn(8, 64))


class Shrink(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=0.5)


class LookUp(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(x.abs().long().flatten(), x)


def test_sizes_that_the_model_refuses_are_left_out() -> None:
    report = verify(_compile(Shrink(), torch.randn(1, 3, 8, 8), [{2: "h", 3: "w"}]))
    assert report.passed and report.cases
    assert any("RuntimeError" in text for text in report.skipped)


def test_an_example_that_the_model_refuses_is_the_models_own_error() -> None:
    with pytest.raises(InvalidModelError, match="the model itself raises IndexError"):
        _compile(LookUp(), torch.rand(4, 3) + 10)


def test_a_negative_tolerance_is_refused() -> None:
    artifact = _compile(torch.nn.Linear(3, 2), torch.randn(2, 3))
    with pytest.raises(InputError, match="atol is -1"):
        verify(artifact, atol=-1)


def test_allowances_count_for_each_element() -> None:
    a, b = np.array([1.0, 2.0]), np.array([1.5, 2.5])
    (error,) = compare(["y"], [a], [b], 1e-5, 1e-3, [np.array([0.5, 0.0])])
    assert error.excess == 1
    whole = [np.array([4, 7])], [np.array([5, 8])]
    (error,) = compare(["y"], *whole, 1e-5, 1e-3, [np.array([1.0, 0.0])])
    assert error.excess == 1 and error.at == (1,)
