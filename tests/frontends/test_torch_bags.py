"""Bags of embeddings whose offsets are inputs: torch's results, and offsets that are none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuvil
from cuvil.errors import InputError
from cuvil.frontends.torch_export.unchecked import Checked
from tests.frontends.torch_helper import Fn

_INDEX = torch.tensor([1, 2, 9, 0, 0, 4])


def _bag(**named: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.EmbeddingBag(10, 3, **named).eval()


def _dynamic(model: torch.nn.Module, offsets: torch.Tensor) -> Any:
    sizes = {"input": {0: "n"}, "offsets": {0: "b"}}
    return cuvil.compile(model, (_INDEX, offsets), dynamic_dims=sizes)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_up_to_a_last_offset(mode: str, padding: int | None) -> None:
    model = _bag(mode=mode, include_last_offset=True, padding_idx=padding)
    compiled = _dynamic(model, torch.tensor([0, 2, 2, 5, 6]))
    report = cuvil.verify(compiled)  # at other sizes too, which fit one another
    assert report.passed and len(report.cases) > 2
    for index, offsets in (
        (_INDEX, [0, 2, 2, 5, 6]), (_INDEX[:3], [0, 0, 3]), (_INDEX[:0], [0]), (_INDEX[:0], [0, 0]),
    ):  # fmt: skip
        args = index, torch.tensor(offsets)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*args), model(*args))


@pytest.mark.parametrize("offsets", [[0, 2, 3], [0]])
def test_rows_behind_the_last_offset_are_in_no_sum(offsets: list[int]) -> None:
    model = _bag(mode="sum", include_last_offset=True)
    compiled = _dynamic(model, torch.tensor([0, 2, 2, 5, 6]))
    args = _INDEX, torch.tensor(offsets)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), model(*args))


@pytest.mark.parametrize("offsets", [[1, 2], [0, 7], [0, -2], [0, 4, 3], [0, 100_000_000, 5]])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_that_do_not_rise_from_0_are_refused(mode: str, offsets: list[int]) -> None:
    compiled = _dynamic(_bag(mode=mode), torch.tensor([0, 2, 2, 5]))
    with pytest.raises(InputError, match="looked up index"):
        compiled(_INDEX, torch.tensor(offsets))


@pytest.mark.parametrize("offsets", [[0, 2, 3], [0], [0, 7]])
def test_padded_bags_end_with_the_rows(offsets: list[int]) -> None:
    model = _bag(mode="sum", include_last_offset=True, padding_idx=2)
    compiled = _dynamic(model, torch.tensor([0, 2, 2, 5, 6]))
    with pytest.raises(InputError, match="looked up index"):
        compiled(_INDEX, torch.tensor(offsets))


_LOGS = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
_PAIR = torch.tensor([6, 6])
_WRONG = {
    "bags": lambda: F.embedding_bag(
        _INDEX, torch.ones(10, 3), torch.tensor([0]), padding_idx=2, include_last_offset=True
    ),
    "falling": lambda: F.embedding_bag(_INDEX, torch.ones(10, 3), torch.tensor([0, -9, 2])),
    "label": lambda: F.ctc_loss(
        _LOGS, torch.tensor([[1, 9], [3, 1]]), _PAIR, torch.tensor([2, 2])
    ),
    "label in a row": lambda: F.ctc_loss(
        _LOGS, torch.tensor([1, -9, 3]), (6, 6), (2, 1)
    ),
    "lengths": lambda: torch.segment_reduce(
        torch.ones(6, 2), "sum", lengths=torch.tensor([2, 10**8]), axis=0, unsafe=True
    ),
    "offsets": lambda: torch.segment_reduce(
        torch.ones(6, 2), "sum", offsets=torch.tensor([0, 10**8, 6]), axis=0, unsafe=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _WRONG)
def test_torch_is_kept_from_numbers_that_it_does_not_check(name: str) -> None:
    """Each of these reads, and some write, outside of the tensors."""
    with pytest.raises(ValueError, match="embedding_bag|ctc_loss|segment_reduce"), Checked():
        _WRONG[name]()


def test_labels_behind_their_length_are_not_looked_at() -> None:
    targets, lengths = torch.tensor([[1, 2], [3, -1]]), torch.tensor([2, 1])
    plain = F.ctc_loss(_LOGS, targets, _PAIR, lengths)
    with Checked():
        torch.testing.assert_close(F.ctc_loss(_LOGS, targets, _PAIR, lengths), plain)


def test_made_up_labels_do_not_end_the_process() -> None:
    """The lengths, and so the labels that count, are made up for other sizes."""
    model = Fn(lambda x, t, a, b: F.ctc_loss(x, t, a, b, reduction="none"))
    args = _LOGS, torch.tensor([[1, 2], [3, 1]]), _PAIR, torch.tensor([2, 1])
    compiled = cuvil.compile(model, args, dynamic_dims={"args_1": {1: "s"}})
    torch.testing.assert_close(compiled(*args), model(*args))
