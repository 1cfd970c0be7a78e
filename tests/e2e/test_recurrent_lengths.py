"""One artifact of a recurrent layer for all lengths and batches, held to PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

import cuvil

INPUT, HIDDEN = 5, 7
LENGTHS = ((1, 1), (2, 3), (5, 1), (3, 0), (17, 4), (64, 2))
CASES: dict[str, tuple[str, dict[str, Any], bool, bool]] = {  # layer, options, states, batched
    "lstm": ("LSTM", {}, False, True),
    "lstm, all options": (
        "LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}, True, True,
    ),
    "lstm of one sequence": ("LSTM", {"bidirectional": True}, True, False),
    "gru, all options": (
        "GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}, True, True,
    ),
    "gru of one sequence": ("GRU", {"bias": False}, False, False),
    "rnn": ("RNN", {"nonlinearity": "relu", "num_layers": 2}, True, True),
    "projected lstm": ("LSTM", {"proj_size": 3, "bias": False}, False, True),
    "projected lstm, all options": (
        "LSTM",
        {"proj_size": 3, "num_layers": 2, "bidirectional": True, "batch_first": True},
        True, True,
    ),
    "projected lstm of one sequence": (
        "LSTM", {"proj_size": 3, "num_layers": 2}, True, False,
    ),
}  # fmt: skip


def _inputs(case: str, length: int, batch: int) -> list[torch.Tensor]:
    kind, options, states, batched = CASES[case]
    generator = torch.Generator().manual_seed(length * 100 + batch)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    sizes = [batch, length] if options.get("batch_first") else [length, batch]
    shapes = [[*sizes, INPUT] if batched else [length, INPUT]]
    if states:
        first = options.get("proj_size", HIDDEN)
        widths = [first, HIDDEN] if kind == "LSTM" else [HIDDEN]
        shapes += [[rows, batch, size] if batched else [rows, size] for size in widths]
    return [torch.randn(shape, generator=generator) for shape in shapes]


class _Called(torch.nn.Module):
    """A layer with its states as arguments of their own and flat results."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = None if not states else states[0] if len(states) == 1 else states
        y, last = self.layer(x, given)
        return (y, *last) if isinstance(last, tuple) else (y, last)


@pytest.mark.parametrize("case", CASES)
def test_one_artifact_for_all_lengths(case: str) -> None:
    kind, options, _, batched = CASES[case]
    torch.manual_seed(3)
    layer = _Called(getattr(torch.nn, kind)(INPUT, HIDDEN, **options))
    first = ["batch", "seq"] if options.get("batch_first") else ["seq", "batch"]
    example = _inputs(case, 4, 3)
    states = [{1: "batch"} if batched else None] * (len(example) - 1)
    dims = [first if batched else ["seq"], *states]
    artifact = cuvil.compile(layer, tuple(example), dynamic_dims=dims, verify=False)
    exact = _Called(getattr(torch.nn, kind)(INPUT, HIDDEN, **options)).double()
    exact.load_state_dict({k: v.double() for k, v in layer.state_dict().items()})
    for length, batch in LENGTHS:
        inputs = _inputs(case, length, batch)
        found = artifact(*inputs)
        for a, b in zip(found, exact(*[x.double() for x in inputs]), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a.detach(), b.detach(), atol=2e-6)
    with pytest.raises(cuvil.ShapeConstraintError, match="seq"):
        artifact(*_inputs(case, 0, 1))


def test_a_sequence_stays_one_operator() -> None:
    text = cuvil.dump_ir(
        torch.nn.LSTM(INPUT, HIDDEN, 2), "captured", example_inputs=(torch.randn(4, 3, INPUT),),
        dynamic_dims=[{0: "seq", 1: "batch"}],
    )  # fmt: skip
    assert text.count('"cuvil.lstm"') == 2
    assert "[seq, batch, 5]" in text


class _Packs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(INPUT, HIDDEN)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(self.layer(packed)[0])[0]


@pytest.mark.parametrize("inside", [True, False])
def test_packed_sequences_are_refused(inside: bool) -> None:
    packed = pack_sequence([torch.randn(4, INPUT), torch.randn(3, INPUT)])
    model = _Packs() if inside else torch.nn.GRU(INPUT, HIDDEN)
    example = (torch.randn(4, 2, INPUT), torch.tensor([4, 2])) if inside else (packed,)
    with pytest.raises(cuvil.UnsupportedOpError, match="packed sequences") as caught:
        cuvil.compile(model, example)
    assert "give the layer the padded sequences" in str(caught.value)
    assert ("test_recurrent_lengths.py:" if inside else "inputs of GRU") in str(caught.value)



def test_a_projection_is_a_loop_of_any_length() -> None:
    """One product for the inputs of all steps stands before it."""
    text = cuvil.dump_ir(
        torch.nn.LSTM(INPUT, HIDDEN, proj_size=3), "captured",
        example_inputs=(torch.randn(4, 2, INPUT),), dynamic_dims=[{0: "seq", 1: "batch"}],
    )  # fmt: skip
    assert text.count('"scf.for"') == 1 and "trips = #cuvil.dim<seq>" in text
    before, inside = text.split('"scf.for"')
    assert before.count('"cuvil.matmul"') == 1 and inside.count('"cuvil.matmul"') == 2
