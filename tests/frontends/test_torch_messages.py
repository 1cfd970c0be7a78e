"""What a capture says: to users what they can act on, and nothing of torch's own."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuvil
from cuvil.errors import InputError, InvalidModelError, UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.quiet import quiet
from tests.frontends.torch_helper import Fn, check


class Signed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y if y.sum() > 0 else -y


@pytest.mark.parametrize(
    "options",
    [{}, {"reduction": "none"}, {"ignore_index": 2}, {"label_smoothing": 0.1},
     {"reduction": "sum"}, {"weight": torch.linspace(0.5, 1.5, 5)}],
    ids=lambda given: "-".join(given) or "plain",
)  # fmt: skip
def test_cross_entropy(options: dict[str, Any]) -> None:
    x, y = torch.randn(4, 5), torch.tensor([0, 2, 4, 1])
    dynamic = [{0: "n"}, {0: "n"}]
    check(lambda a, b: F.cross_entropy(a, b, **options), x, y, dynamic=dynamic)


def test_unsupported_operators_are_always_named() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        capture_torch(Fn(lambda x: torch.linalg.eigvals(x)), (torch.randn(3, 3),))
    assert "eig" in str(caught.value)


def test_nothing_of_torchs_own_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(2, 8)
    lstm = torch.nn.LSTM(8, 8, num_layers=2, bidirectional=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture_torch(lstm, (x[None],), {}, [{0: "n"}])
        capture_torch(Fn(F.cross_entropy), (x, torch.tensor([1, 2])))
        program = torch.export.export(torch.nn.Linear(8, 8), (x,))
        capture_torch(program)
    with pytest.raises(InvalidModelError, match="same reduction dim"):
        capture_torch(torch.nn.Linear(9, 8), (x,))
    with pytest.raises(InvalidModelError, match="decision from the values"):
        capture_torch(Signed(), (x,))
    assert capfd.readouterr() == ("", "")


def test_loggers_are_as_before() -> None:
    fake = logging.getLogger("torch._subclasses.fake_tensor")
    level = fake.level
    with quiet():
        assert not fake.isEnabledFor(logging.ERROR)
    assert fake.level == level
    try:
        fake.setLevel(logging.DEBUG)
        with quiet():
            assert fake.isEnabledFor(logging.DEBUG)
    finally:
        fake.setLevel(level)


def test_a_decision_on_values_names_the_users_line() -> None:
    with pytest.raises(InvalidModelError) as caught:
        capture_torch(Signed(), (torch.randn(2, 3),))
    line = Signed.forward.__code__.co_firstlineno + 2
    assert caught.value.where == f"test_torch_messages.py:{line}"
    assert "torch.where" in caught.value.hint and "torch.cond" not in caught.value.hint


def test_a_failure_inside_torchs_own_modules_names_the_layers_line() -> None:
    with pytest.raises(InvalidModelError) as caught:
        cuvil.compile(torch.nn.Linear(9, 8), (torch.randn(2, 8),))
    assert re.fullmatch(r"torch/nn/modules/linear\.py:\d+, aten\.linear", caught.value.where)


def test_numbers_as_outputs_say_what_they_depend_on() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(InvalidModelError, match="depends on the values of the inputs"):
        capture_torch(Fn(lambda x: x.sum().item()), (x,))
    with pytest.raises(InvalidModelError, match="^output 1 is a number that depends on the sizes"):
        capture_torch(Fn(lambda x: (x, x.shape[0] * 2)), (x,), {}, [{0: "n"}])


def test_derivatives_inside_the_model() -> None:
    model = Fn(torch.func.grad(lambda x: (x**2).sum()))
    with pytest.raises(InvalidModelError, match="takes derivatives while it runs"):
        capture_torch(model, (torch.randn(3),))


def test_weights_that_torch_has_packed() -> None:
    linear = torch.nn.Sequential(torch.nn.Linear(4, 4))
    packed = torch.ao.quantization.quantize_dynamic(linear, {torch.nn.Linear})
    with pytest.raises(InvalidModelError, match="has packed") as caught:
        capture_torch(packed, (torch.randn(2, 4),))
    assert "before it was quantized" in str(caught.value)


@pytest.mark.parametrize("kept", [0, 100, -3000, -100])
def test_a_damaged_program_is_one_error_and_nothing_else(
    kept: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, damaged = tmp_path / "whole.pt2", tmp_path / "damaged.pt2"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(3),)), whole)
    damaged.write_bytes(whole.read_bytes()[:kept])
    capfd.readouterr()
    with pytest.raises(InvalidModelError, match="not a program that torch.export can") as caught:
        cuvil.compile(damaged)
    assert "warnings above" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


class _Dropping(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.3)


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        return x if scale is None else x * scale


def test_dropout_that_is_always_on_says_how_to_write_it() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        cuvil.compile(_Dropping(), (torch.randn(2, 3),))
    line = _Dropping.forward.__code__.co_firstlineno + 1
    assert f"test_torch_messages.py:{line}" in str(caught.value)
    assert "F.dropout(x, p, training=self.training)" in str(caught.value)


def test_a_tensor_that_is_left_out_of_a_call() -> None:
    x = torch.randn(2, 3)
    artifact = cuvil.compile(_Scaled(), (x, x))
    with pytest.raises(InputError) as caught:
        artifact(x, None)
    assert "'scale' is None; it was an array when the model was compiled" in str(caught.value)
    assert "compile the model again with None there" in str(caught.value)


@pytest.mark.parametrize("layer", [torch.nn.Linear(4, 4), torch.nn.Conv1d(4, 4, 1)])
def test_an_example_of_another_type_than_the_weights(layer: torch.nn.Module) -> None:
    for convert, have in ((torch.Tensor.double, "float64"), (torch.Tensor.bfloat16, "bfloat16")):
        with pytest.raises(InvalidModelError) as caught:
            cuvil.compile(layer, (convert(torch.randn(1, 4, 4)),))
        said = f"the example input 'input' is {have}, the model's weights are float32"
        assert said in str(caught.value) and f"model.to(torch.{have})" in str(caught.value)
