"""Where torch rounds to a wrong result, and float64 shows it, the artifact isn't blamed."""

from __future__ import annotations

import math

import pytest
import torch

import cuvil
from cuvil.api.verification import bisect_artifact
from cuvil.errors import VerificationError
from tests.frontends.torch_helper import Fn

_ENDS = torch.tensor([math.inf, -1.0, 0.5, 2.0] * 8)
_TINY = (torch.tensor([1.0, 7.5] * 16), torch.tensor([1e-40, 3e-39] * 16))


def _torch_is_off() -> bool:
    return bool(torch.nn.functional.gelu(_ENDS).isnan().any())


@pytest.mark.skipif(not _torch_is_off(), reason="this version of torch is right")
def test_gelu_of_infinity() -> None:
    want = torch.nn.functional.gelu(_ENDS.double())
    assert want[0] == math.inf and want.isfinite().any()
    with cuvil.compile(torch.nn.GELU(), (_ENDS,)) as artifact:
        assert torch.allclose(artifact(_ENDS).double(), want, rtol=1e-5)
        for report in (cuvil.verify(artifact), cuvil.verify(artifact, (_ENDS,), rtol=1e-4)):
            assert report.passed
            (note,) = report.source_off
            assert "is nan in the model, inf in the model in float64, and inf in the art" in note
            assert f"the model itself is off: {note}" in str(report)
            assert report.as_dict()["source_off"] == [note]
        assert not cuvil.verify(artifact, (_ENDS.clamp(max=5.0),)).source_off


def test_fmod_by_denormal_numbers() -> None:
    want = torch.fmod(*(x.double() for x in _TINY))
    with cuvil.compile(Fn(torch.fmod), _TINY) as artifact:
        assert torch.allclose(artifact(*_TINY).double(), want, rtol=1e-5, atol=0)
        report = cuvil.verify(artifact)
        assert report.passed
        assert bool(report.source_off) == torch.fmod(*_TINY).isnan().any()


@pytest.mark.parametrize("other", [torch.relu, torch.nn.functional.silu])
def test_an_artifact_that_is_wrong_is_not_excused(other: object) -> None:
    with cuvil.compile(torch.nn.GELU(), (_ENDS,)) as artifact:
        artifact.source.origin.model = Fn(other)
        report = cuvil.verify(artifact, (_ENDS,))
        assert not report.passed and not report.source_off


@pytest.mark.skipif(not _torch_is_off(), reason="this version of torch is right")
def test_a_model_whose_own_casts_keep_it_from_float64_is_not_excused() -> None:
    """Nothing says that torch is off there."""
    model = Fn(lambda x: torch.nn.functional.gelu(x.float()))
    with pytest.raises(VerificationError, match="disagrees with its model"):
        cuvil.compile(model, (_ENDS,))


def test_the_model_and_the_usual_type_are_as_before() -> None:
    layer = torch.nn.Linear(4, 4)
    with cuvil.compile(layer, (torch.ones(2, 4),)) as artifact:
        assert artifact.source.exact is not None
        (wide,) = artifact.source.exact({artifact.inputs[0].name: torch.ones(2, 4).numpy()})
    assert wide.dtype == "float64" and layer.weight.dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32


def test_bisecting_blames_no_capture_where_the_model_itself_is_off() -> None:
    with cuvil.compile(torch.nn.GELU(), (_ENDS,)) as artifact:
        assert bisect_artifact(artifact, (_ENDS,)) is None
