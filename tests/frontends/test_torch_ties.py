"""A model whose positions of equal elements torch leaves open is verified all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cuvil
from cuvil.api.verification import bisect_artifact
from cuvil.frontends.torch_export.ties import EqualKeepOrder
from cuvil.ir.core import Op
from cuvil.passes import pipeline
from cuvil.rewrite.rule import Context, Outcome, rule
from tests.frontends.torch_helper import Fn

_OPEN: dict[str, Callable[[torch.Tensor], Any]] = {
    "sort": lambda x: x.sort(1, descending=True),
    "argsort": lambda x: x.argsort(1),
    "topk": lambda x: x.topk(8, 1),
    "bottom": lambda x: x.topk(8, 1, largest=False),
    "kthvalue": lambda x: x.kthvalue(5, 1, keepdim=True),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1),
    "mode": lambda x: x.mode(1),
}


def _few() -> torch.Tensor:
    return torch.randint(0, 5, (3, 40), generator=torch.Generator().manual_seed(1)).float()


@pytest.mark.parametrize("name", _OPEN)
def test_settled_positions_are_a_result_that_torch_allows(name: str) -> None:
    x = _few()
    x[1, 3] = torch.nan
    plain = _OPEN[name](x)
    with EqualKeepOrder():
        found = _OPEN[name](x)
    if name == "argsort":
        plain, found = ((x.gather(1, v), v) for v in (plain, found))
    torch.testing.assert_close(found[0], plain[0], rtol=0, atol=0, equal_nan=True)
    assert found[1].shape == plain[1].shape
    wide = found if found[1].dim() == 2 else [v.unsqueeze(1) for v in found]
    torch.testing.assert_close(x.gather(1, wide[1]), wide[0], rtol=0, atol=0, equal_nan=True)


def test_positions_of_equal_elements_pass_verification() -> None:
    x = _few()
    model = Fn(lambda x: (*[f(x) for f in _OPEN.values()], x.relu().topk(8, 1)[1]))
    with cuvil.compile(model, (x,)) as artifact:
        order = artifact(x)[1]
        assert torch.equal(order, torch.argsort(x, dim=1, stable=True))
        assert cuvil.verify(artifact, (x,)).passed


def test_a_wrong_position_still_fails() -> None:
    x = _few()
    with cuvil.compile(Fn(lambda x: x.argsort(1)), (x,)) as artifact:
        source = artifact.source
        source.origin.model = Fn(lambda x: x.argsort(1, descending=True))
        assert not cuvil.verify(artifact, (x,)).passed


@pytest.mark.parametrize("name", _OPEN)
def test_open_positions_are_no_fault_of_a_kernel_or_a_rewrite(name: str) -> None:
    x = _few()
    with cuvil.compile(Fn(lambda x: (_OPEN[name](x), x.argmax(1))), (x,), cache=False) as artifact:
        report = cuvil.verify(artifact, (x,), layerwise=True)
        assert report.passed and report.layers
        assert report.verdict == "every kernel agrees with the reference"
        assert bisect_artifact(artifact, (x,)) is None


def test_a_fault_beside_open_positions_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the capture: what it means is one of the results that torch allows."""
    @rule("tanh-into-sin", "tanh")
    def broken(op: Op, context: Context) -> Outcome:
        """tanh(x) -> sin(x), which is wrong"""
        return lambda rw: [rw.value("sin", [op.operands[0]])]

    monkeypatch.setattr(pipeline, "_CLEAN", [broken, *pipeline._CLEAN])
    x, model = _few(), Fn(lambda x: (x.topk(8, 1), x.tanh()))
    with cuvil.compile(model, (x,), cache=False, verify=False) as artifact:
        report = cuvil.verify(artifact, (x,), layerwise=True)
        assert not report.passed and "a rewrite changes the program" in report.verdict
        culprit = bisect_artifact(artifact, (x,))
        assert culprit is not None and culprit.label == "tanh-into-sin"
