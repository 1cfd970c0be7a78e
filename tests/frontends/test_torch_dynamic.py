"""Names, bounds, guards and relations of dynamic dims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.frontends.torch_export import capture_torch
from cuvil.sym.dim import Dim
from cuvil.sym.parse import parse_constraint
from tests.frontends.torch_helper import Fn, assert_same, interpret


def capture(function: Any, *args: torch.Tensor, **kw: Any) -> Any:
    return capture_torch(Fn(function), args, {}, **kw)


def dims(module: Any, index: int = 0) -> list[str]:
    return [str(d) for d in module.main.inputs[index].type.shape]


def test_names_and_bounds_are_the_users() -> None:
    module = capture(
        lambda x: x * 2,
        torch.randn(2, 8, 3),
        dynamic={"args_0": {0: "batch", 1: Dim("seq", min=1, max=512)}},
    )
    assert dims(module) == ["batch", "seq", "3"]
    assert module.main.symbols == {"batch": (0, None), "seq": (1, 512)}
    assert module.main.constraints == []


@pytest.mark.parametrize(
    "dynamic",
    [
        ["batch"],
        ({0: "batch"},),
        {"args_0": ["batch", None]},
        {"args_0": {-2: "batch"}},
        ({0: torch.export.Dim("batch", min=0)},),
    ],
)
def test_forms_of_the_specification(dynamic: Any) -> None:
    module = capture(lambda x: x + 1, torch.randn(1, 3), dynamic=dynamic)
    assert dims(module) == ["batch", "3"]
    assert module.main.symbols == {"batch": (0, None)}


def test_hints_get_names_of_their_own() -> None:
    module = capture(lambda x: x + 1, torch.randn(2, 3), dynamic=({0: torch.export.Dim.AUTO},))
    assert dims(module) == ["args_0_0", "3"]


def test_examples_of_size_one_and_zero_don_t_specialise() -> None:
    model = Fn(lambda x, y: x + y)
    names = {"args_0": {0: "b", 1: "s"}, "args_1": {0: "b", 1: "s"}}
    module = capture_torch(model, (torch.randn(1, 0, 2), torch.randn(1, 0, 2)), {}, names)
    assert dims(module) == ["b", "s", "2"]
    for b, s in ((0, 3), (1, 1), (4, 2)):
        assert_same(module, model, (torch.randn(b, s, 2), torch.randn(b, s, 2)))


def test_a_branch_on_size_one_is_kept_as_a_constraint() -> None:
    """The two branches differ, so the size that takes the other one is refused."""
    module = capture(
        lambda x: x * 2 if x.shape[0] == 1 else x * 3,
        torch.randn(4, 2),
        dynamic=({0: Dim("n", min=1)},),
    )
    (rule,) = module.main.constraints
    assert str(rule) == "n >= 2"
    assert "test_torch_dynamic.py" in rule.origin
    with pytest.raises(ShapeConstraintError):
        interpret(module, [torch.randn(1, 2)])
    assert_same(module, Fn(lambda x: x * 3), (torch.randn(5, 2),))


def test_a_branch_on_size_one_that_makes_no_difference_is_dropped() -> None:
    module = capture(
        lambda x: x + x if x.shape[0] == 1 else x * 2,
        torch.randn(4, 2),
        dynamic=({0: Dim("n", min=1)},),
    )
    assert module.main.constraints == []
    assert_same(module, Fn(lambda x: x * 2), (torch.randn(1, 2),))


def test_guards_are_constraints_with_their_place() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] >= 10 and x.shape[0] % 8 == 0:
            return x * 2
        return x

    module = capture(f, torch.randn(16, 2), dynamic=["n"])
    assert {str(c) for c in module.main.constraints} == {"n >= 10", "n % 8 == 0"}
    assert all("test_torch_dynamic.py" in c.origin for c in module.main.constraints)
    assert module.main.symbols["n"][0] == 10


def test_a_buffer_bounds_the_length() -> None:
    table = torch.randn(32, 4)
    model = Fn(lambda x: x + table[: x.shape[1]])
    module = capture_torch(model, (torch.randn(2, 5, 4),), {}, {"args_0": {1: "seq"}})
    assert module.main.symbols["seq"][1] == 32
    assert_same(module, model, (torch.randn(2, 32, 4),))
    with pytest.raises(ShapeConstraintError):
        interpret(module, [torch.randn(2, 33, 4)])


def test_equal_dims_become_one() -> None:
    names = {"args_0": {0: "a"}, "args_1": {0: Dim("b", min=2)}}
    module = capture(lambda x, y: x + y, torch.randn(4, 2), torch.randn(4, 2), dynamic=names)
    assert dims(module, 0) == dims(module, 1)
    assert len(module.main.symbols) == 1
    assert list(module.main.symbols.values()) == [(2, None)]
    assert any("==" in note for note in module.source["notes"])


def test_derived_dims_are_adopted() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x], 0) + y

    names = {"args_0": {0: "n"}, "args_1": {0: Dim("m", max=64)}}
    module = capture(f, torch.randn(3, 2), torch.randn(6, 2), dynamic=names)
    assert dims(module, 0) == ["n", "2"] and dims(module, 1) == ["2 * n", "2"]
    assert [str(c) for c in module.main.constraints] == ["n <= 32"]
    assert_same(module, Fn(f), (torch.randn(5, 2), torch.randn(10, 2)))


def test_derived_dims_may_be_given() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x], 0) + y

    names = {"args_0": {0: "n"}, "args_1": {0: "2 * n"}}
    module = capture(f, torch.randn(1, 2), torch.randn(2, 2), dynamic=names)
    assert dims(module, 1) == ["2 * n", "2"]


def test_a_dim_that_the_model_fixes_is_an_error_in_plain_words() -> None:
    weight = torch.randn(16)
    with pytest.raises(ShapeConstraintError, match="fixes it to 16") as caught:
        capture(lambda x: x + weight, torch.randn(2, 16), dynamic={"args_0": {1: "seq"}})
    assert "test_torch_dynamic.py" in caught.value.where
    assert "'args_0'" in str(caught.value)


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"nobody": {0: "b"}}, "nobody"),
        ({"args_0": {5: "b"}}, "axis 5"),
        ([{0: "b"}, {0: "b"}], "2 entries for 1 input"),
    ],
)
def test_wrong_specifications(dynamic: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        capture(lambda x: x, torch.randn(2, 2), dynamic=dynamic)


def test_bounds_that_exclude_one_another() -> None:
    dynamic = {"args_0": {0: Dim("b", min=3), 1: Dim("b", max=2)}}
    with pytest.raises(ShapeConstraintError, match="exclude one another"):
        capture(lambda x: x, torch.randn(2, 2), dynamic=dynamic)


def test_user_constraints_are_kept_and_respected_by_the_example() -> None:
    module = capture(
        lambda x: x.view(-1, 8),
        torch.randn(1, 3),
        dynamic={"args_0": {0: "n", 1: "m"}},
        constraints=[parse_constraint("m % 8 == 0"), parse_constraint("n * m <= 4096")],
    )
    texts = {str(c) for c in module.main.constraints}
    assert texts == {"m % 8 == 0", "m * n <= 4096"}
    assert_same(module, Fn(lambda x: x.view(-1, 8)), (torch.randn(3, 16),))


def test_a_constraint_over_an_unknown_name() -> None:
    with pytest.raises(ShapeConstraintError, match="'sq'"):
        capture(
            lambda x: x, torch.randn(2, 2), dynamic=["seq"],
            constraints=[parse_constraint("sq >= 1")],
        )  # fmt: skip


def test_no_size_satisfies_the_constraints() -> None:
    with pytest.raises(ShapeConstraintError, match="no sizes satisfy"):
        capture(
            lambda x: x, torch.randn(2, 2), dynamic=({0: Dim("n", max=7)},),
            constraints=[parse_constraint("n % 8 == 5"), parse_constraint("n >= 6")],
        )  # fmt: skip


def test_data_dependent_branch() -> None:
    with pytest.raises(InvalidModelError, match="values of a tensor"):
        capture(lambda x: x * 2 if x.sum() > 0 else x, torch.randn(2, 2))


def test_no_example() -> None:
    with pytest.raises(InputError, match="example"):
        capture_torch(torch.nn.Linear(2, 2))


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        return {"y": self.layer(x) * scale}


def exported(low: int = 1) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=low, max=64)
    args = (torch.randn(2, 4),)
    return torch.export.export(Small().eval(), args, dynamic_shapes={"x": {0: batch}})


def test_exported_program_keeps_its_range() -> None:
    module = capture_torch(exported(), dynamic=["batch"])
    assert dims(module) == ["batch", "4"]
    assert module.main.symbols["batch"][1] == 64
    assert module.main.output_names == ["y"]


def test_exported_program_without_names() -> None:
    module = capture_torch(exported())
    assert dims(module) == ["x_0", "4"]


def test_saved_program(tmp_path: Path) -> None:
    program = exported()
    path = tmp_path / "small.pt2"
    torch.export.save(program, str(path))
    module = capture_torch(path, dynamic=["batch"])
    x = torch.randn(5, 4)
    expected = program.module()(x)["y"].detach()
    torch.testing.assert_close(torch.from_numpy(interpret(module, [x])[0]), expected)


class Guarded(torch.nn.Module):
    def forward(self, d: dict[str, Any], y: torch.Tensor) -> torch.Tensor:
        x = d["a"][0]
        if x.shape[1] % 4 == 0 and x.shape[0] * x.shape[1] < 1000:
            return x.view(x.shape[0], -1, 4) * y
        return x[:, :, None] + y


def test_conditions_of_a_saved_program_are_kept(tmp_path: Path) -> None:
    auto = torch.export.Dim.AUTO
    args = ({"a": [torch.randn(3, 8)]}, torch.randn(4))
    shapes = {"d": {"a": [{0: auto, 1: auto}]}, "y": None}
    program = torch.export.export(Guarded(), args, dynamic_shapes=shapes, strict=False)
    path = tmp_path / "guarded.pt2"
    torch.export.save(program, str(path))
    module = capture_torch(path)
    assert dims(module) == ["d_a_0_0", "d_a_0_1"]

    def allowed(rows: int, columns: int) -> bool:
        sizes = {"d_a_0_0": rows, "d_a_0_1": columns}
        bounds = all(
            low <= sizes[name] and (high is None or sizes[name] <= high)
            for name, (low, high) in module.main.symbols.items()
        )
        return bounds and all(c.holds(sizes) for c in module.main.constraints)

    assert allowed(3, 8) and allowed(5, 16)
    assert not allowed(3, 6) and not allowed(100, 16)
    x, y = torch.randn(5, 16), torch.randn(4)
    expected = Guarded()({"a": [x]}, y)
    torch.testing.assert_close(torch.from_numpy(interpret(module, [x, y])[0]), expected)


@pytest.mark.parametrize(
    "text", ["f(L['x'].size()[0]) == 2", "L['z'].size()[0] == 2", "L['x'].size()[0] or 1", "("]
)
def test_conditions_that_cannot_be_read_are_refused(text: str) -> None:
    program = exported()
    program._guards_code = [text]
    with pytest.raises(ShapeConstraintError, match="which can't be kept"):
        capture_torch(program)


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt2"
    path.write_bytes(b"not a program")
    with pytest.raises(InvalidModelError, match="not a program"):
        capture_torch(path)
    with pytest.raises(InvalidModelError, match="no model file"):
        capture_torch(tmp_path / "missing.pt2")


def test_fx_graph_module() -> None:
    model = torch.fx.symbolic_trace(Small())
    module = capture_torch(model, (torch.randn(2, 4),), {}, ["batch"])
    assert_same(module, model, (torch.randn(1, 4),))


def test_an_end_that_counts_from_the_back() -> None:
    """x[-n:] of n elements is all of them, of more its last ones."""

    def ends(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = y.shape[0]
        return y[-n:] * 2, x[-n:], x[:-n]

    x, y = torch.arange(6.0), torch.arange(2.0)
    dynamic = {"args_0": {0: "m"}, "args_1": {0: "n"}}
    module = capture_torch(Fn(ends), (x, y), dynamic=dynamic)
    for n in (1, 2, 5):
        for have, want in zip(interpret(module, [x, x[:n]]), ends(x, x[:n]), strict=True):
            assert have.tolist() == want.tolist()
