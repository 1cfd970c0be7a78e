"""Operators that users register: C++, compositions, Python functions; from PyTorch and ONNX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import cuvil
from cuvil.errors import ArtifactError, InputError, TargetError, UnsupportedOpError
from cuvil.ops.custom import CUSTOM

SOFTSIGN = """
static float softsign(float x, float slope) {
  return slope * x / (1.0f + __builtin_fabsf(x));
}
"""
ROW_NORM = """
#include "math.hpp"
// Rows divided by their largest magnitude, plus a bias for each column.
void row_norm(const cuvil::Tensor* in, const cuvil::Tensor* out, double floor,
              cuvil::List<int64_t> picks) {
  const float *x = in[0].as<float>(), *bias = in[1].as<float>();
  const int64_t columns = in[0].shape[1];
  for (int64_t row = 0; row < in[0].shape[0]; ++row) {
    float top = float(floor);
    for (int64_t i = 0; i < columns; ++i) {
      const float a = x[row * columns + i] < 0 ? -x[row * columns + i] : x[row * columns + i];
      if (a > top) top = a;
    }
    for (int64_t i = 0; i < columns; ++i)
      out[0].as<float>()[row * columns + i] = x[row * columns + i] / top + bias[i];
    int64_t sum = 0;
    for (int64_t i = 0; i < picks.size; ++i) sum += picks[i];
    out[1].as<int64_t>()[row] = sum;
  }
}
"""


@pytest.fixture(autouse=True)
def _empty_table() -> Iterator[None]:
    """What a test registers is gone after it."""
    yield
    CUSTOM.clear()


def _model(domain: str, op: str, inputs: int = 1, outputs: int = 1, **attrs: Any) -> Any:
    """x * 2 -> op -> + 1, over f32[n, 6]; further inputs are f32[6]."""
    f32 = onnx.TensorProto.FLOAT
    names = ["x", *(f"v{i}" for i in range(1, inputs))]
    values = [helper.make_tensor_value_info("x", f32, ["n", 6])]
    values += [helper.make_tensor_value_info(n, f32, [6]) for n in names[1:]]
    made = [f"y{i}" for i in range(outputs)]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node(op, ["twice", *names[1:]], made, domain=domain, **attrs),
        helper.make_node("Add", ["y0", "y0"], ["out"]),
    ]
    results = [helper.make_tensor_value_info("out", f32, None)]
    results += [helper.make_tensor_value_info(n, onnx.TensorProto.INT64, None) for n in made[1:]]
    graph = helper.make_graph(nodes, "g", values, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets)


def _x(rows: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32)


def _softsign(x: Any, slope: float) -> Any:
    return slope * x / (1 + np.abs(x))


def test_a_map_in_cxx_fuses_with_its_neighbours() -> None:
    cuvil.register_op(
        "test::softsign", cxx=SOFTSIGN, fusion="map", attrs={"slope": "float"}, reference=_softsign
    )
    model = _model("test", "softsign", slope=3.0)
    artifact = cuvil.compile(model)
    np.testing.assert_allclose(artifact(_x()), 2 * _softsign(2 * _x(), 3.0), rtol=1e-6)
    assert len(cuvil.debug_trace(model, path=None)["kernels"]) == 1


def test_a_kernel_in_cxx_has_several_results_and_attributes(tmp_path: Any) -> None:
    def reference(x: Any, bias: Any, floor: float, picks: Any) -> Any:
        top = np.maximum(np.abs(x).max(1, keepdims=True), np.float32(floor))
        return x / top + bias, np.full(len(x), sum(picks), np.int64)

    cuvil.register_op(
        "test.norms::RowNorm",
        cxx=ROW_NORM,
        function="row_norm",
        attrs={"floor": "float", "picks": "ints"},
        shape=lambda x, bias, floor, picks: [x, ((x.shape[0],), "i64")],
        reference=reference,
    )
    model = _model("test.norms", "RowNorm", inputs=2, outputs=2, floor=0.5, picks=[1, -4, 9])
    artifact = cuvil.compile(model)
    artifact.save(tmp_path / "m.cuvilpkg")
    bias = np.arange(6, dtype=np.float32)
    for compiled in (artifact, cuvil.load(tmp_path / "m.cuvilpkg")):
        for rows in (0, 1, 5):
            y, picks = compiled(_x(rows), bias)
            if rows:
                want = reference(2 * _x(rows), bias, 0.5, [1, -4, 9])[0]
                np.testing.assert_allclose(y, 2 * want, rtol=1e-6)
            assert picks.tolist() == [6] * rows


def test_a_composition_is_ordinary_ir() -> None:
    def swish(x: Any, beta: float) -> Any:
        return x * (beta * x).sigmoid() - x.mean(axis=1, keepdims=True)

    cuvil.register_op("test::Swish", compose=swish, attrs={"beta": "float"})
    artifact = cuvil.compile(_model("test", "Swish", beta=1.5))
    x = 2 * _x().astype(np.float64)
    want = 2 * (x / (1 + np.exp(-1.5 * x)) - x.mean(1, keepdims=True))
    np.testing.assert_allclose(artifact(_x()), want, rtol=1e-5, atol=1e-6)


def test_a_python_function_runs_in_this_process_only(tmp_path: Any) -> None:
    seen: list[tuple[int, ...]] = []

    def sorted_rows(x: Any, descending: bool) -> Any:
        seen.append(x.shape)
        return np.sort(x, 1)[:, ::-1] if descending else np.sort(x, 1)

    cuvil.register_op(
        "test::SortRows", python=sorted_rows, shape=lambda x, descending: x,
        attrs={"descending": "bool"},
    )  # fmt: skip
    model = _model("test", "SortRows", descending=1)
    artifact = cuvil.compile(model)
    seen.clear()
    for rows in (4, 0):
        want = 2 * np.sort(2 * _x(rows), 1)[:, ::-1]
        np.testing.assert_array_equal(artifact(_x(rows)), want)
    assert seen == [(4, 6), (0, 6)]
    with pytest.raises(ArtifactError, match=r"Python functions \(test::SortRows\) can't be saved"):
        artifact.save(tmp_path / "m.cuvilpkg")
    table = cuvil.debug_trace(model, path=None)
    (entry,) = [e for e in table["operators"] if "SortRows" in e["op"]]
    assert list(entry["how"]) == ["Python function in this process"]


def test_what_a_python_function_raises_comes_out_of_the_call() -> None:
    calls = []

    def picky(x: Any) -> Any:
        calls.append(1)
        if len(x) == 3:
            raise ZeroDivisionError("three rows")
        return x if len(x) != 5 else x[:1]

    cuvil.register_op("test::Picky", python=picky, shape=lambda x: x)
    artifact = cuvil.compile(_model("test", "Picky"), verify=False)
    with pytest.raises(ZeroDivisionError, match="three rows"):
        artifact(_x(3))
    assert len(calls) == 1
    with pytest.raises(InputError, match=r"gave float32\[1, 6\]; its shape rule said float32\[5"):
        artifact(_x(5))
    np.testing.assert_array_equal(artifact(_x(4)), 4 * _x(4))


def test_an_operator_of_torch_library() -> None:
    @torch.library.custom_op("cuviltest::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor + 1

    scaled.register_fake(lambda x, factor: torch.empty_like(x))

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(scaled(x, 2.5))

    x = torch.from_numpy(_x())
    with pytest.raises(UnsupportedOpError, match="register_op"):
        cuvil.compile(Model(), (x,))
    source = "static float scaled(float x, float factor) { return x * factor + 1; }"
    ways: list[dict[str, Any]] = [
        {"cxx": source, "fusion": "map"},
        {"compose": lambda x, factor: x * factor + 1},
        {"python": lambda x, factor: x * np.float32(factor) + 1},
    ]
    for how in ways:
        cuvil.register_op("cuviltest::scaled", attrs={"factor": "float"}, replace=True, **how)
        artifact = cuvil.compile(Model(), (x,))
        torch.testing.assert_close(artifact(x), Model()(x))


def test_a_wrong_implementation_is_found() -> None:
    cuvil.register_op(
        "test::Half", cxx="static float Half(float x) { return x / 3; }", fusion="map",
        reference=lambda x: x / 2,
    )  # fmt: skip
    with pytest.raises(cuvil.VerificationError):
        cuvil.compile(_model("test", "Half"))


def test_a_changed_implementation_is_compiled_anew() -> None:
    for part in (2, 4):
        source = f"static float Part(float x) {{ return x / {part}; }}"
        cuvil.register_op(
            "test::Part", cxx=source, fusion="map", reference=lambda x, p=part: x / p, replace=True
        )
        artifact = cuvil.compile(_model("test", "Part"))
        np.testing.assert_allclose(artifact(_x()), 4 * _x() / part, rtol=1e-6)


def test_a_fault_in_the_source_is_shown() -> None:
    """At its own line, whose count the include doesn't change; after it the unit's own begins."""
    source = '#include "math.hpp"\nstatic float Bad(float x) {\n  return y;\n}'
    cuvil.register_op("test::Bad", cxx=source, fusion="map")
    with pytest.raises(TargetError, match="test::Bad:3:10: error: .*undeclared identifier 'y'"):
        cuvil.compile(_model("test", "Bad"), verify=False)
    source = "static float Bad(float x, float y) { return x; }"
    cuvil.register_op("test::Bad", cxx=source, fusion="map", replace=True)
    with pytest.raises(TargetError, match=r"kernels0.cpp:(\d+):.*too few arg") as caught:
        cuvil.compile(_model("test", "Bad"), verify=False)
    number, line = re.findall(r"^ *(\d+) \| (.*test__Bad.*)$", str(caught.value), re.MULTILINE)[0]
    unit = cuvil.dump_ir(_model("test", "Bad"), "cxx").split("// kernels0.cpp\n")[1].splitlines()
    assert unit[int(number) - 1] == line


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "no implementation"),
    ({"cxx": "", "python": print}, "cxx and python"),
    ({"python": 3}, "python is 3"),
    ({"python": print, "fusion": "loop"}, "fusion"),
    ({"python": print, "attrs": {"a": "tensor"}}, "the kind 'tensor'"),
    ({"cxx": "", "fusion": "map", "attrs": {"a": "str"}}, "must be a number"),
    ({"cxx": "", "function": "a b"}, "C\\+\\+ function's name"),
    ({"cxx": "float other(float x) { return x; }"}, "has no function op"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[m for _, m in WRONG])
def test_registrations_that_contradict_themselves(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cuvil.register_op("test::op", **arguments)


def test_a_name_is_registered_once_and_is_a_name() -> None:
    cuvil.register_op("test::op", python=print)
    with pytest.raises(InputError, match="registered already"):
        cuvil.register_op("test::op", python=print)
    with pytest.raises(InputError, match="no operator's name"):
        cuvil.register_op("test op", python=print)


def test_without_shape_rule_or_reference_there_is_a_clear_error() -> None:
    cuvil.register_op("test::Kernel", cxx="void Kernel();")
    with pytest.raises(cuvil.InvalidModelError, match="has no shape rule"):
        cuvil.compile(_model("test", "Kernel"))
    cuvil.register_op("test::Map", cxx="static float Map(float x) { return x; }", fusion="map")
    with pytest.raises(InputError, match="no reference to compare with"):
        cuvil.compile(_model("test", "Map"))


def test_what_the_cache_has_is_verified_against_this_model() -> None:
    """One graph, two meanings: an attribute that the composition leaves out."""

    @torch.library.custom_op("test_cache::power", mutates_args=())
    def power(x: torch.Tensor, k: int) -> torch.Tensor:
        return x**k + 1

    power.register_fake(lambda x, k: torch.empty_like(x))
    cuvil.register_op("test_cache::power", compose=lambda x, k: x * x + 1, attrs={"k": "int"})

    class Model(torch.nn.Module):
        def __init__(self, k: int) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.test_cache.power(x, self.k) * 2

    right = cuvil.compile(Model(2), (torch.randn(3),))
    assert right(torch.full((3,), 2.0)).tolist() == [10.0] * 3
    with pytest.raises(cuvil.VerificationError, match="the code that test_cache::power was"):
        cuvil.compile(Model(3), (torch.randn(3),))


def test_an_operator_that_is_implemented_anew_is_verified_again() -> None:
    library = torch.library.Library("test_anew", "DEF")
    library.define("plus(Tensor x) -> Tensor")
    state = {"k": 1.0}
    library.impl("plus", lambda x: x + state["k"], "CPU")
    library.impl("plus", lambda x: torch.empty_like(x), "Meta")
    source = "static float plus(float x) { return x + 1; }"
    cuvil.register_op("test_anew::plus", fusion="map", cxx=source)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.test_anew.plus(x)

    model = Model()
    assert cuvil.compile(model, (torch.randn(3),))(torch.zeros(3)).tolist() == [1.0] * 3
    state["k"] = 5.0
    with pytest.raises(cuvil.VerificationError, match="test_anew::plus"):
        cuvil.compile(model, (torch.randn(3),))


def test_a_reference_that_changed_is_verified_against() -> None:
    source = "static float Next(float x) { return x + 1; }"
    for add in (1, 2):
        cuvil.register_op(
            "test::Next", fusion="map", cxx=source, replace=add == 2,
            reference=(lambda x: x + 1) if add == 1 else (lambda x: x + 2),
        )  # fmt: skip
        if add == 1:
            cuvil.compile(_model("test", "Next"))
    with pytest.raises(cuvil.VerificationError, match="test::Next"):
        cuvil.compile(_model("test", "Next"))
