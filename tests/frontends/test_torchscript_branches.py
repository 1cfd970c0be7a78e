"""TorchScript's branches and loops that a tensor decides: right, or refused with the line."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch

import cuvil
from cuvil.errors import InvalidModelError, ShapeConstraintError
from tests.frontends import script_branches

_INPUTS = [[1.0, 2, 3, 4], [-1.0, -2, -3, -4], [0.1] * 4, [-0.1, 0.1, 0.2, -0.3], [5.0] * 4]
_REFUSED = {
    "WritesTensor": ("the attribute 'state' is written", "keep the value in a variable"),
    "WritesNumber": ("the attribute 'n' is written", "keep the value in a variable"),
    "CountsTrips": ("the attribute 'n' is written", "keep the value in a variable"),
    "SetsItem": ("an item of a list or dict is set", "write to a tensor of a fixed size"),
    "Clears": ("a list or dict is changed (clear)", "write to a tensor of a fixed size"),
    "Adds": ("a list or dict is changed (add_)", "write to a tensor of a fixed size"),
    "WritesInPlace": ("a tensor from outside is written to in place", "make a new tensor"),
    "WritesBuffer": ("a tensor from outside is written to in place (add_)", "make a new tensor"),
    "DoublesInPlace": ("a tensor from outside is written to in place (mul_)", "make a new tensor"),
    "MayRaise": ("the model raises an error (too large)", "take the check out"),
    "ReturnsInside": ("a return stands in a loop that a tensor ends", "break, and return it"),
    "Triangles": ("triu is given a number", "gather, index_select"),
    "OneGivesNone": ("gives something else than tensors: a tensor here and None", "both branches"),
}


def _script(name: str) -> torch.jit.ScriptModule:
    torch.manual_seed(0)
    return torch.jit.script(getattr(script_branches, name)().eval())


@pytest.mark.parametrize("name", ["LayerInside", "WrittenInside", "Leaving", "Lists"])
def test_every_way_is_the_modules_own(name: str) -> None:
    script = _script(name)
    artifact = cuvil.compile(script, (torch.tensor(_INPUTS[0]),), cache=False)
    for values in _INPUTS:
        x = torch.tensor(values)
        want = copy.deepcopy(script)(x)
        torch.testing.assert_close(artifact(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", _REFUSED)
def test_what_only_a_call_would_decide_is_refused_at_its_line(name: str) -> None:
    lines, first = inspect.getsourcelines(getattr(script_branches, name))
    (line,) = [first + i for i, text in enumerate(lines) if "# refused" in text]
    what, instead = _REFUSED[name]
    with pytest.raises(InvalidModelError) as caught:
        cuvil.compile(_script(name), (torch.tensor(_INPUTS[0]),), verify=False)
    assert what in caught.value.message
    assert "that a tensor" in caught.value.message
    assert f"script_branches.py:{line}" in str(caught.value.where)
    assert instead in str(caught.value.hint)


@pytest.mark.parametrize("large", range(5))
def test_a_loop_over_rows_is_left_at_any_of_them(large: int) -> None:
    script = _script("Rows")
    x = torch.arange(12.0).reshape(4, 3) / 12
    artifact = cuvil.compile(script, (x,))
    x[large:] += 20
    torch.testing.assert_close(artifact(x), script(x))
    rows = x.double().numpy()
    want = rows[0] + sum((rows[i] * i + rows[-1 - i] for i in range(large)), 0 * rows[0])
    torch.testing.assert_close(artifact(x).double().numpy(), want, rtol=1e-5, atol=1e-6)


def test_a_dynamic_number_of_trips_is_refused_at_the_scripts_line() -> None:
    lines, first = inspect.getsourcelines(script_branches.EachRow)
    (line,) = [first + i for i, text in enumerate(lines) if "# as many trips" in text]
    with pytest.raises(ShapeConstraintError, match="the model fixes it to 5") as caught:
        cuvil.compile(_script("EachRow"), (torch.randn(5, 3),), dynamic_dims=["n"])
    assert str(caught.value.where).startswith(f"script_branches.py:{line}")
