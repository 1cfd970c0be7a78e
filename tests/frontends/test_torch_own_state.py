"""What a module keeps from call to call: refused in every spelling, and left as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cuvil
from cuvil.errors import InvalidModelError, UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn

Forward = Callable[["_Keeping", torch.Tensor], torch.Tensor]
_SAYS = r"changes its own state '{}' in a call\n  what to do: make the state an input and an output"


class _Keeping(torch.nn.Module):
    b: torch.Tensor
    count = 0  # of the class, until a call makes one of the object

    def __init__(self, function: Forward) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("b", torch.zeros(3))
        self.h = torch.zeros(3)
        self.n = 0
        self.items: list[torch.Tensor] = []
        self.table: dict[str, torch.Tensor] = {}
        self.inside = SimpleNamespace(n=0, items=[])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)

    def seen(self) -> list[Any]:
        """All of it as it is now, to be compared."""
        inside = (self.inside.n, list(self.inside.items))
        rest = sorted(k for k in vars(self) if k not in ("items", "table"))
        tensors = (self.h.tolist(), self.b.tolist())
        return [*tensors, self.n, list(self.items), dict(self.table), inside, rest]


def _buffer_in_place(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.b += x
    return m.b * 1


def _buffer_anew(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.b = m.b + x
    return m.b * 1


def _item_of_buffer(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.b[0] = m.b[0] + x[0]
    return m.b * 1


def _tensor_in_place(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.h += x
    return m.h * 1


def _tensor_anew(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.h = m.h + x
    return m.h


def _previous(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    """Where the input is the same again, so is what it gives, but for the first."""
    before, m.h = m.h, x
    return x - before


def _number(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.n += 1
    return x * m.n


def _number_of_class(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.count += 1
    return x * m.count


def _number_much_later(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.n += 1
    return x if m.n < 100 else -x


def _list(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.items.append(x)
    return torch.stack(m.items).sum(0)


def _dict(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.table["h"] = m.table.get("h", torch.zeros(3)) + x
    return m.table["h"] * 1


def _number_inside(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.inside.n += 1
    return x * m.inside.n


def _list_inside(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.inside.items.append(1)
    return x * len(m.inside.items)


_STATEFUL: list[tuple[Forward, str]] = [
    (_buffer_in_place, "b"), (_buffer_anew, "b"), (_item_of_buffer, "b"),
    (_tensor_in_place, "h"), (_tensor_anew, "h"), (_previous, "h"),
    (_number, "n"), (_number_of_class, "count"), (_number_much_later, "n"),
    (_list, "items"), (_dict, "table"), (_number_inside, "inside.n"),
    (_list_inside, "inside.items"),
]  # fmt: skip


@pytest.mark.parametrize(("forward", "name"), _STATEFUL, ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("x", [torch.ones(3), torch.zeros(3)], ids=["ones", "zeros"])
def test_state_is_refused_and_left_as_it_was(forward: Forward, name: str, x: torch.Tensor) -> None:
    model = _Keeping(forward)
    before = model.seen()
    with pytest.raises(InvalidModelError, match=_SAYS.format(name)):
        cuvil.compile(model, (x,))
    assert model.seen() == before


def test_state_of_a_module_inside_is_named_by_its_path() -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(), _Keeping(_number))
    with pytest.raises(InvalidModelError, match=_SAYS.format("1.n")):
        capture_torch(model, (torch.ones(3),))
    model = torch.nn.Sequential(torch.nn.ReLU(), _Keeping(_buffer_in_place))
    with pytest.raises(InvalidModelError, match=_SAYS.format("1.b")):
        capture_torch(model, (torch.ones(3),))


def _late_cache(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    if "places" not in vars(m):
        m.places = torch.arange(x.shape[0])
    return x + m.places


def _late_buffer(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    if m.n < x.shape[0]:
        m.n = x.shape[0]
        m.register_buffer("places", torch.arange(x.shape[0]), persistent=False)
    return x + m.places


def _remembered(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.n = x.shape[0]
    m.last, m.table["last"] = x * 2, x
    m.items.append(x)
    return x + torch.arange(3)


def _counted(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
    m.n += 1
    return x + torch.arange(3)


@pytest.mark.parametrize("forward", [_late_cache, _late_buffer, _remembered, _counted])
def test_what_makes_no_difference_is_no_state(forward: Forward) -> None:
    model = _Keeping(forward)
    before = model.seen()
    x = torch.tensor([0.5, 1.5, 2.5])
    with cuvil.compile(model, (x,)) as artifact:
        assert model.seen() == before
        assert cuvil.verify(artifact).passed
        assert model.seen() == before
        assert [artifact(x).tolist() for _ in range(2)] == [[0.5, 2.5, 4.5]] * 2


def test_a_model_that_raises_is_left_as_it_was() -> None:
    def forward(m: _Keeping, x: torch.Tensor) -> torch.Tensor:
        m.n, m.b, m.new = 5, m.b + x, x
        m.items.append(x)
        raise ValueError("no such luck")

    model = _Keeping(forward)
    before = model.seen()
    with pytest.raises(InvalidModelError, match="no such luck"):
        cuvil.compile(model, (torch.ones(3),))
    assert model.seen() == before


_CALLS = {"n": 0}


def _of_python(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


def _of_the_process(x: torch.Tensor) -> torch.Tensor:
    _CALLS["n"] += 1
    return x * _CALLS["n"]


def _of_another_shape(x: torch.Tensor) -> torch.Tensor:
    _CALLS["n"] += 1
    return x.repeat(_CALLS["n"])


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_of_python, r"run twice on args_0\[3\], output at \[\d\] is 0\.\d+, then 0\.\d+"),
        (_of_the_process, r"run twice on args_0\[3\], output at \[\d\] is \d+, then \d+"),
        (_of_another_shape, r"output has the shape \[\d+\], then \[\d+\]"),
    ],
)
def test_a_model_that_does_not_repeat_itself(function: Any, says: str) -> None:
    x = (torch.ones(3),)
    says = f"(?s)does not repeat itself: .*{says}.*take random numbers, and what the model keeps"
    with pytest.raises(InvalidModelError, match=says):
        cuvil.compile(Fn(function), x)
    with cuvil.compile(Fn(function), x, verify=False) as artifact:
        for given in ({}, {"atol": 1e-4, "rtol": 1e-3}):
            with pytest.raises(InvalidModelError, match="does not repeat itself"):
                cuvil.verify(artifact, x, **given)


def test_random_numbers_of_torch_are_refused_by_their_operator() -> None:
    with pytest.raises(UnsupportedOpError, match="draws random numbers; pass them in as an input"):
        cuvil.compile(Fn(lambda x: x * torch.rand(())), (torch.ones(3),))
