"""Programs whose shapes can't be: each error names the places in conflict, the values, the way out.

A call's shapes are bound as an artifact binds them, without building one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

from cuvil import CuvilError, Dim
from cuvil.api.capture import capture
from cuvil.api.manifest import ORIGINS, signature_of
from cuvil.api.request import CompileRequest
from tests.frontends.torch_helper import Fn

FILE = r"test_wrong_shapes\.py:\d+"
CONV = r"torch/nn/modules/conv\.py:\d+, aten\.conv2d"


@dataclass(frozen=True)
class Wrong:
    """A model with what is asked of it; ``call`` are shapes, where only a call is wrong."""

    model: Any
    shapes: Sequence[tuple[int, ...]]
    dims: Any
    said: Sequence[str]
    constraints: tuple[str, ...] = ()
    call: Sequence[tuple[int, ...]] | None = None


def _same(x: Any) -> Any:
    return x + 1


def _add(x: Any, y: Any) -> Any:
    return x + y


def _branch(x: Any) -> Any:
    return x + 1 if x.shape[0] == 4 else x - 1


def _given(text: str) -> str:
    return rf"given by the user as {text}"


WRONG: dict[str, Wrong] = {
    "constraints contradict": Wrong(
        _same, [(4, 3)], [["n"]],
        [r"n >= 10 \(" + _given("'n >= 10'"), r"n <= 5 \(" + _given("'n <= 5'"), "drop or change"],
        ("n >= 10", "n <= 5"),
    ),
    "constraints over two dims contradict": Wrong(
        _same, [(4, 3)], [["n", "m"]], [_given("'n > m'"), _given("'m > n'")], ("n > m", "m > n"),
    ),
    "a constraint against a bound": Wrong(
        _same, [(4, 3)], [{0: Dim("n", max=4)}],
        [_given("'n >= 10'"), r"n <= 4 \(" + _given(r"Dim\('n', max=4\) for axis 0 of 'args_0'")],
        ("n >= 10",),
    ),
    "divisibility": Wrong(
        _same, [(4, 3)], [["seq"]], [_given("'seq % 8 == 0'"), _given("'seq == 12'")],
        ("seq % 8 == 0", "seq == 12"),
    ),
    "divisibility that a reshape contradicts": Wrong(
        lambda x: x.reshape(-1, 8), [(16,)], [["seq"]],
        [r"\[-1, 8\].* input of size seq", "seq % 8 == 4: " + _given("'seq % 8 == 4'"),
         "traced at seq = 20", FILE + r", aten\.reshape", "make these dims static"],
        ("seq % 8 == 4",),
    ),
    "derived dims": Wrong(
        _add, [(4, 3), (4, 3)], [["2 * s"], ["s + 1"]],
        [r"a \(\(2 \* s\)\) must match the size of tensor b \(\(s \+ 1\)\)",
         r"s: given by the user as '2 \* s'", "s >= 2: " + _given("'s >= 2'"), FILE],
        ("s >= 2",),
    ),
    "derived dims by constraints": Wrong(
        _same, [(4, 3)], [["s"]], [r"2 \* s == s \+ 1 \(given", r"s >= 2 \(given"],
        ("2 * s == s + 1", "s >= 2"),
    ),
    "two inputs are equal, and said to differ": Wrong(
        _add, [(4, 3), (4, 3)], [["n"], ["m"]],
        [_given("'n != m'"), rf"the model needs m == n \(axis 0 of 'args_1', at {FILE}, aten\.add"],
        ("n != m",),
    ),
    "two inputs are equal, with bounds that exclude it": Wrong(
        _add, [(4, 3), (9, 3)], [{0: Dim("n", max=4)}, {0: Dim("m", min=5)}],
        [r"Dim\('n', max=4\) for axis 0 of 'args_0'", r"Dim\('m', min=5\) for axis 0 of 'args_1'"],
    ),
    "two inputs are equal, and are not in a call": Wrong(
        _add, [(4, 3), (4, 3)], [["n"], ["m"]],
        ["input 'args_1', axis 0 is 5; expected n = 4", "n is 4 by axis 0 of 'args_0'",
         rf"the model needs m == n .*{FILE}, aten\.add", "pass inputs"], (), [(4, 3), (5, 3)],
    ),
    "the inner dims of a product": Wrong(
        lambda x, y: x @ y, [(4, 3), (3, 5)], [{1: "k"}, {0: "j"}],
        ["input 'args_1', axis 0 is 2; expected k = 3",
         rf"the model needs j == k .*{FILE}, aten\.matmul"], (), [(4, 3), (2, 5)],
    ),
    "a product with a weight": Wrong(
        torch.nn.Linear(3, 5), [(4, 3)], [{1: "k"}],
        ["dim 1 of 'input'.* fixes it to 3; k is given by the user as 'k'",
         r"linear\.py:\d+, aten\.linear", "change the line that needs exactly 3"],
    ),
    "2 with n": Wrong(
        lambda x: x + torch.ones(2), [(4, 2)], [{1: "n"}],
        [r"dim 1 of 'args_0' .*\(n\), but the model fixes it to 2", FILE + r", aten\.add"],
    ),
    "2 with n of at least 3": Wrong(
        lambda x: x * torch.ones(2), [(4, 2)], [{1: Dim("n", min=3)}],
        [r"tensor a \(n\) must match the size of tensor b \(2\)",
         r"n: given by the user as Dim\('n', min=3\)", FILE + r", aten\.mul"],
    ),
    "concatenation": Wrong(
        lambda x, y: torch.cat([x, y], 1), [(4, 3), (4, 5)], [["n"], ["m"]],
        ["axis 0 is 6; expected n = 4", rf"the model needs m == n .*{FILE}, aten\.cat"],
        (), [(4, 3), (6, 5)],
    ),
    "a reshape that can't be for this value": Wrong(
        lambda x: x.reshape(-1, 4), [(4, 3)], [["n"]],
        [r"n % 4 == 0 \(from the model's own code at " + FILE + r", aten\.reshape",
         "n = 3", "n is axis 0 of input 'args_0'", "pass inputs of sizes that fit"],
        (), [(3, 3)],
    ),
    "a view of one size": Wrong(
        lambda x: x.view(1, 12), [(4, 3)], [["n"]],
        ["dim 0 of 'args_0' .* fixes it to 4", FILE + r", aten\.view", "leave it out"],
    ),
    "a batch folded into a weight's size": Wrong(
        lambda x: F.linear(x.view(1, -1), torch.ones(5, 12)), [(4, 3)], [["batch"]],
        [r"dim 0 of 'args_0' .*\(batch\), but the model fixes it to 4", FILE + r", aten\.linear"],
    ),
    "statistics of a batch of one": Wrong(
        lambda x: F.batch_norm(x, None, None, training=True), [(4, 3)], [["batch"]],
        [r"axis 0 \(batch\) is 1; allowed is 2 <= batch", "from the model's own code at " + FILE],
        (), [(1, 3)],
    ),
    "a division by a size": Wrong(
        lambda x: x + 12 // x.shape[0], [(4, 3)], [["n"]],
        [r"n >= 1 \(from a division by n at floordiv \(\w+\.py:\d+", "n = 0"], (), [(0, 3)],
    ),
    "an expansion": Wrong(
        lambda x: x.expand(4, 3), [(1, 3)], [{0: Dim("n", min=2)}],
        ["expand.* length n -> 4", r"Dim\('n', min=2\)", FILE + r", aten\.expand"],
    ),
    "a slice beyond the end": Wrong(
        lambda x: x.narrow(0, 0, 10), [(16, 3)], [{0: Dim("n", max=8)}],
        [r"length \(10\) exceeds dimension size \(n\)", r"Dim\('n', max=8\)", "n = 8", FILE],
    ),
    "an index beyond the end of a call's input": Wrong(
        lambda x: x[7], [(16, 3)], [["n"]],
        [r"axis 0 \(n\) is 3; allowed is 8 <= n", "n > 7 .from the model's own code at " + FILE],
        (), [(3, 3)],
    ),
    "a convolution without output": Wrong(
        torch.nn.Conv2d(3, 4, 7), [(1, 3, 9, 9)], [{2: Dim("h", max=5)}],
        [r"input size per channel: \(h x 9\)", r"h: given by the user as Dim\('h', max=5\)", CONV],
    ),
    "a convolution without output in a call": Wrong(
        torch.nn.Conv2d(3, 4, 7), [(1, 3, 9, 9)], [{2: "h"}],
        [r"axis 2 \(h\) is 5; allowed is 7 <= h", CONV], (), [(1, 3, 5, 9)],
    ),
    "pooling without output": Wrong(
        torch.nn.MaxPool2d(3), [(1, 3, 9, 9)], [{2: Dim("h", max=2)}],
        [r"3xhx9", r"Dim\('h', max=2\)", r"aten\.max_pool2d"],
    ),
    "a branch on a size": Wrong(
        _branch, [(4, 3)], [["n"]], ["fixes it to 4", FILE, "n is given by the user as 'n'"],
    ),
    "two branches": Wrong(
        lambda x, y: x.view(4, 3).sum() + y.view(5), [(4, 3), (5,)], [["n"], ["m"]],
        ["dim 0 of 'args_0' .* fixes it to 4", "dim 0 of 'args_1' .* fixes it to 5",
         FILE, "exactly 4 or 5"],
    ),
    "an unknown name": Wrong(
        _same, [(4, 3)], [["n"]],
        ["q % 8 == 0 speaks of 'q', which is no dynamic dim", _given("'q % 8 == 0'"),
         "the dynamic dims are n"], ("q % 8 == 0",),
    ),
    "bounds given twice": Wrong(
        _add, [(4, 3), (4, 3)], [{0: Dim("n", min=8)}, {0: Dim("n", max=4)}],
        ["'n' exclude one another: >= 8 and <= 4", r"Dim\('n', min=8\) for axis 0 of 'args_0'",
         r"Dim\('n', max=4\) for axis 0 of 'args_1'"],
    ),
    "an axis out of range": Wrong(
        _same, [(4, 3)], [{5: "n"}], ["axis 5 of 'args_0', which has rank 2", "axes are 0 to 1"],
    ),
    "a constraint that a call breaks": Wrong(
        _same, [(8, 3)], [["seq"]],
        [r"seq % 8 == 0 \(" + _given("'seq % 8 == 0'"), "seq = 12", "axis 0 of input 'args_0'"],
        ("seq % 8 == 0",), [(12, 3)],
    ),
    "a bound that a call breaks": Wrong(
        _same, [(8, 3)], [{0: Dim("seq", max=16)}],
        [r"axis 0 \(seq\) is 17; allowed is 0 <= seq <= 16", r"Dim\('seq', max=16\) for axis 0"],
        (), [(17, 3)],
    ),
    "a fixed size": Wrong(
        _same, [(8, 3)], [["n"]], ["axis 1 is 4; expected 3", "fixed in the artifact", "dynamic"],
        (), [(8, 4)],
    ),
}  # fmt: skip


def _bind(request: CompileRequest, shapes: Sequence[tuple[int, ...]] | None) -> None:
    module = capture(request).module
    if shapes is not None:
        signature_of(module.main, module.source.get(ORIGINS)).bind(shapes)


@pytest.mark.parametrize("name", WRONG)
def test_the_error_names_both_places(name: str) -> None:
    case = WRONG[name]
    torch.manual_seed(0)
    model = case.model if isinstance(case.model, torch.nn.Module) else Fn(case.model)
    request = CompileRequest(
        model=model, example_inputs=tuple(torch.randn(shape) for shape in case.shapes),
        dynamic_dims=case.dims, constraints=case.constraints,
    )  # fmt: skip
    with pytest.raises(CuvilError) as caught:
        _bind(request, case.call)
    for words in case.said:
        caught.match(words)


def test_a_dim_without_sizes() -> None:
    with pytest.raises(CuvilError, match=r"need 0 <= min <= max, got 5\.\.2"):
        Dim("n", min=5, max=2)


def test_two_names_for_one_fixed_size() -> None:
    spec = [("x", torch.float32, ("b", 3)), ("y", torch.float32, ("c", 3))]
    model = Fn(lambda x, y: x + y + torch.ones(2, 3))
    with pytest.raises(CuvilError) as caught:
        _bind(CompileRequest(model=model, input_spec=spec), None)
    for name, said in (("x", "b"), ("y", "c")):
        caught.match(rf"dim 0 of '{name}' .* to 2; {said} is given by the user as '{said}'")
    caught.match(FILE)


def test_a_users_constraint_stays_where_the_model_needs_none() -> None:
    request = CompileRequest(
        model=Fn(_same), example_inputs=(torch.randn(4, 3),), dynamic_dims=[["n"]],
        constraints=("n >= 3",),
    )  # fmt: skip
    with pytest.raises(CuvilError, match=r"is 2; allowed is 3 <= n"):
        _bind(request, [(2, 3)])


def _onnx(node: Any, inputs: dict[str, tuple[Any, ...]]) -> Any:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "graph", infos, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


ONNX: dict[str, tuple[Callable[[], Any], Any, tuple[str, ...], Any, Sequence[str]]] = {
    "a name used for unequal sizes": (
        lambda: _onnx(
            helper.make_node("Add", ["x", "y"], ["out"]), {"x": ("n", 3), "y": ("n", 3)}
        ),
        None, (), [(4, 3), (5, 3)],
        ["'y', axis 0 is 5; expected n = 4", "n is 4 by axis 0 of 'x'", "the model's dim 'n'"],
    ),
    "inner dims by other names": (
        lambda: _onnx(
            helper.make_node("MatMul", ["x", "y"], ["out"], name="product"),
            {"x": (4, "k"), "y": ("j", 5)},
        ),
        None, (), [(4, 3), (2, 5)], ["k == j|j == k", "product", "k = 3", "j = 2"],
    ),
    "constraints contradict": (
        lambda: _onnx(helper.make_node("Relu", ["x"], ["out"]), {"x": ("n", 3)}),
        None, ("n >= 10", "n <= 5"), None, [_given("'n >= 10'"), _given("'n <= 5'")],
    ),
    "a bound against a constraint": (
        lambda: _onnx(helper.make_node("Relu", ["x"], ["out"]), {"x": ("n", 3)}),
        {"x": {0: Dim("n", max=4)}}, ("n % 8 == 0", "n >= 1"), None,
        [_given(r"Dim\('n', max=4\) for axis 0 of 'x'"), _given("'n % 8 == 0'")],
    ),
    "a constraint over an unknown name": (
        lambda: _onnx(helper.make_node("Relu", ["x"], ["out"]), {"x": ("n", 3)}),
        None, ("q >= 1",), None, ["no dimension is called q", "dimensions are: n", "given by"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_the_error_of_an_onnx_model_names_both_places(name: str) -> None:
    make, dims, constraints, call, words = ONNX[name]
    model: onnx.ModelProto = make()
    request = CompileRequest(model=model, dynamic_dims=dims, constraints=constraints)
    with pytest.raises(CuvilError) as caught:
        _bind(request, call)
    for said in words:
        caught.match(said)
