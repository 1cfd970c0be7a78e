"""Nested inputs and outputs, in-place writes, state, and what is refused."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError, InvalidModelError, UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, check, interpret, tensors_of

Point = namedtuple("Point", ["x", "y"])


@dataclass
class Answer:
    score: torch.Tensor
    extra: Any = None


def test_output_trees() -> None:
    def f(x: torch.Tensor) -> Any:
        return {"a": x + 1, "b": [x, None, 3, "s"]}, Point(x * 2, (x,)), Answer(x - 1)

    module = check(f, torch.randn(2, 3))
    tree = json.loads(json.dumps(module.call["output_tree"]))
    assert tree["kind"] == "tuple"
    table, point, answer = tree["items"]
    assert table["keys"] == ["a", "b"]
    assert [i["kind"] for i in table["items"][1]["items"]] == ["leaf", "none", "const", "const"]
    assert point["kind"] == "namedtuple" and point["fields"] == ["x", "y"]
    assert answer["kind"] == "dataclass" and answer["name"] == "Answer"
    assert answer["items"][1] == {"kind": "none"}


def test_input_trees() -> None:
    def f(pair: Any, table: Any) -> Any:
        return pair[0] * table["scale"] + pair[1]

    class Model(torch.nn.Module):
        def forward(self, pair: Any, *, table: Any) -> Any:
            return f(pair, table)

    x = torch.randn(2, 3)
    module = capture_torch(Model(), ((x, x + 1),), {"table": {"scale": x * 2, "mode": "k"}})
    assert module.main.input_names == ["pair_0", "pair_1", "table_scale"]
    assert module.call["arg_names"] == ["pair"]
    got = interpret(module, [x, x + 1, x * 2])
    np.testing.assert_allclose(got[0], f((x, x + 1), {"scale": x * 2}).numpy(), rtol=1e-6)


def test_numpy_examples_and_own_names() -> None:
    module = capture_torch(
        torch.nn.Linear(3, 2), (np.ones((1, 3), np.float32),), {}, ["n"],
        input_names=["pixels"], output_names=["scores"],
    )  # fmt: skip
    assert module.main.input_names == ["pixels"] and module.main.output_names == ["scores"]


def test_input_returned_and_used_twice() -> None:
    check(lambda x: (x, x, x + 1), torch.randn(2))


def test_parameter_returned() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.w, x * self.w

    check(Model(), torch.randn(2, 3))


def test_training_flags_are_restored() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.9))
    model[0].eval()
    module = capture_torch(model, (torch.randn(2, 3),))
    assert model.training and not model[0].training and model[1].training
    assert_same(module, model, (torch.randn(2, 3),))


def simple_writes(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.add_(1).mul_(3)
    torch.relu_(y)
    return y + x


def view_writes(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 0] = 5
    row = y[1]
    row.mul_(2)
    y[:, 1:3] += 1
    y.view(-1)[2:4] = 0.5
    return y, row


def slice_copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.shape[0], 4)
    out[:, :2] = x[:, :2]
    out[::2] = out[::2] - 1
    out[x[:, 0] > 0] = 9.0
    return out


def overlapping_reads(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    before = y.t()
    y.add_(1)
    return before * 2


def through_dropout(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    z = torch.nn.functional.dropout(y, 0.5, training=False)
    z.mul_(3)
    return y


def by_index(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[torch.tensor([0, 1])] = 1.0
    y.index_put_((torch.tensor([1]),), torch.tensor(2.0), accumulate=True)
    return y.fill_diagonal_(0) if False else y


def around_einsum(x: torch.Tensor) -> Any:
    y = x + 0
    squares = torch.einsum("ij,ij->ij", y, y)
    y[:, 0] = 7
    squares[:, 1] += 1
    turned = torch.einsum("ij->ji", y)
    turned[2] = 3
    return y, squares, turned


@pytest.mark.parametrize(
    "function",
    [simple_writes, view_writes, slice_copy, overlapping_reads, through_dropout, by_index,
     around_einsum],
)  # fmt: skip
def test_writes_in_place(function: Any) -> None:
    sizes = [[torch.randn(2, 4)], [torch.randn(6, 4)]]
    check(function, torch.randn(5, 4), dynamic=["n"], sizes=sizes)


def test_a_write_to_an_input_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    module = capture_torch(Fn(lambda x: x.mul_(2) + 1), (torch.ones(2),))
    assert any("in place" in note for note in module.source["notes"])
    assert "the caller's tensor is not changed" in caplog.text
    np.testing.assert_array_equal(interpret(module, [torch.ones(2)])[0], [3, 3])


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x + self.seen


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_state_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="seen"):
        capture_torch(Counter(), (torch.ones(2),))


def test_all_unsupported_operators_at_once() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.nonzero(x), torch.linalg.eigvals(x).real, torch.randn_like(x)

    with pytest.raises(UnsupportedOpError) as caught:
        capture_torch(Fn(f), (torch.randn(3, 3),))
    names = {node.op for node in caught.value.nodes}
    assert "aten.randn_like.default" in names and "aten.nonzero.default" not in names
    assert any("eig" in name for name in names)
    assert all(node.where for node in caught.value.nodes)


def test_an_object_of_unknown_class_is_refused() -> None:
    class Odd:
        pass

    with pytest.raises(InvalidModelError, match="Odd"):
        capture_torch(Fn(lambda x: (x, Odd())), (torch.randn(2),))


def test_tied_weights_are_one_constant() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(7, 3)
            self.head = torch.nn.Linear(3, 7, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(ids))

    model = Tied()
    module = capture_torch(model, (torch.tensor([[1, 2]]),))
    arrays = [op.attrs["value"].array for op in module.main.walk() if op.short == "constant"]
    assert [a.shape for a in arrays].count((7, 3)) == 1
    data = model.table.weight.detach().numpy()
    assert any(np.shares_memory(a, data) for a in arrays)


def test_bf16_weights() -> None:
    pytest.importorskip("ml_dtypes")
    model = torch.nn.Linear(8, 4).to(torch.bfloat16)
    module = capture_torch(model, (torch.randn(2, 8, dtype=torch.bfloat16),))
    assert_same(module, model, (torch.randn(2, 8, dtype=torch.bfloat16),), rtol=2e-2, atol=2e-2)


def test_places_are_lines_of_user_code() -> None:
    module = capture_torch(Scaled(), (torch.randn(5, 4),))
    sources = {op.loc.source.split(":")[0] for op in module.main.walk() if op.loc.source}
    assert sources == {"test_torch_trees.py"}


def test_ordered_dict_output() -> None:
    module = check(lambda x: OrderedDict(p=x, q=x + 1), torch.randn(2))
    assert module.main.output_names == ["p", "q"]
    assert len(tensors_of(OrderedDict(p=torch.ones(1)))) == 1


def test_results_with_torchs_names() -> None:
    class Top(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.topk(2), {"m": x.max(dim=0)}

    x = torch.tensor([3.0, 1.0, 2.0])
    found, rest = cuvil.compile(Top(), (x,))(x)
    assert isinstance(found, torch.return_types.topk)
    assert found.values.tolist() == [3.0, 2.0] and found.indices.tolist() == [0, 2]
    assert isinstance(rest["m"], torch.return_types.max) and rest["m"].values.item() == 3.0


class _Optional(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, k: int = 2, *, flag: bool = True
    ) -> torch.Tensor:
        found = x * k if mask is None else x * k + mask
        return found if flag else -found


def test_what_was_left_at_its_default_may_be_given_it() -> None:
    x, model = torch.randn(3), _Optional()
    with cuvil.compile(model, (x,), cache=False) as artifact:
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((x,), {}), ((x, None), {}), ((x, None, 2), {}), ((), {"x": x, "k": 2}),
            ((x,), {"flag": True, "mask": None}),
        ]  # fmt: skip
        for given, named in calls:
            assert torch.equal(artifact(*given, **named), model(*given, **named))
        refused: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
            ((x, x), {}, "mask was None when the model was compiled"),
            ((x, None, 3), {}, "k was 2 when the model was compiled"),
            ((x,), {"flag": False}, "flag was True when the model was compiled"),
            ((x, None), {"mask": None}, "argument 'mask' was given twice"),
            ((x, None, 2, True), {}, "the model has 1 input; 4 were given"),
            ((x,), {"size": 2}, "there is no input 'size'"),
        ]
        for given, named, message in refused:
            with pytest.raises(InputError, match=message):
                artifact(*given, **named)
    with cuvil.compile(model, (x, x), cache=False) as artifact:
        assert torch.equal(artifact(x, mask=x, k=2), model(x, x))
        assert torch.equal(artifact(x, x, 2, flag=True), model(x, x))
