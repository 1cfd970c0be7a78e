"""Models of thousands of operators in a row."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import cuvil
from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, TensorType
from cuvil.passes.depth import DEEPEST, LARGEST, MOST_REDUCTIONS
from cuvil.passes.grouping import Grouping
from cuvil.passes.pipeline import PassOptions, lower

LENGTH = 2000


def chain(length: int, kinds: Iterable[str], kind: int = TensorProto.FLOAT) -> ModelProto:
    """``length`` operators in a row, the kinds in turn; "Add" adds 0.5, "Mul" halves."""
    kinds = tuple(kinds)
    nodes = []
    for i in range(length):
        name = kinds[i % len(kinds)]
        more = {"Add": ["half"], "Mul": ["half"], "Pad": ["pads"]}.get(name, [])
        nodes.append(helper.make_node(name, [f"t{i}", *more], [f"t{i + 1}"]))
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    half = np.array(0.5 if kind == TensorProto.FLOAT else 1, dtype)
    weights = {"half": half, "pads": np.array([1, 0], np.int64)}
    shape = [3] if kind == TensorProto.INT64 else ["n"]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("t0", kind, shape)],
        [helper.make_tensor_value_info(f"t{length}", kind, None)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["native", "c", "llvm", "onnx"])
@pytest.mark.parametrize("kinds", [("Sin",), ("Add", "Mul")])
def test_many_maps_in_a_row(target: str, kinds: tuple[str, ...]) -> None:
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    want = x.astype(np.float64)
    for i in range(LENGTH):
        name = kinds[i % len(kinds)]
        want = np.sin(want) if name == "Sin" else want + 0.5 if name == "Add" else want * 0.5
    dims = {"t0": {0: cuvil.Dim("n", max=16)}}
    compiled = cuvil.compile(chain(LENGTH, kinds), target=target, dynamic_dims=dims)
    np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stage", ["captured", "canonical", "fused", "planned", "cxx", "dot"])
def test_every_stage_of_it_can_be_printed(stage: str) -> None:
    assert "sin" in cuvil.dump_ir(chain(LENGTH, ("Sin",)), stage)


def test_whole_numbers_in_a_row_whose_values_might_be_sizes() -> None:
    compiled = cuvil.compile(chain(LENGTH, ("Add",), TensorProto.INT64))
    assert compiled(np.array([-1, 0, 7])).tolist() == [LENGTH - 1, LENGTH, LENGTH + 7]


def test_many_movements_in_a_row() -> None:
    """Each negates and pads a 0 in front; -0 comes of what an odd number of steps follow."""
    compiled = cuvil.compile(chain(600, ("Neg", "Pad")))
    out = compiled(np.array([2, -3], np.float32))
    assert out.tolist() == [0] * 300 + [2, -3]


@pytest.mark.parametrize("parts", [16, 17, 1000])
def test_many_parts_side_by_side(parts: int) -> None:
    nodes = [helper.make_node("Mul", ["x", f"k{i}"], [f"p{i}"]) for i in range(parts)]
    nodes.append(helper.make_node("Concat", [f"p{i}" for i in range(parts)], ["y"], axis=0))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(i), f"k{i}") for i in range(parts)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.array([[1, 2, 3], [-4, 5, 6]], np.float32)
    want = np.concatenate([x * np.float32(i) for i in range(parts)])
    np.testing.assert_array_equal(cuvil.compile(model)(x), want)


def test_kernels_have_a_largest_size() -> None:
    e = Emitter()
    line = e.input("x", TensorType((4, 8), F32))
    for _ in range(3 * LARGEST):
        line = e.op("sin", line)
    for _ in range(2 * MOST_REDUCTIONS):
        line = e.op("sub", line, e.op("broadcast", e.op(
            "reduce_max", line, axes=(1,), keepdims=True), shape=(4, 8)))  # fmt: skip
    grouping = Grouping(e.finish([line], ["y"]).main.body)
    for group in grouping.groups:
        assert len(group.ops) <= LARGEST
        assert sum(op.short == "reduce_max" for op in group.ops) <= MOST_REDUCTIONS
    (stop,) = grouping.stops(grouping.groups[1])
    assert stop[2] == "a kernel holds no more than 128 operators, 16 of them reductions"


def test_what_is_read_through_has_a_largest_depth() -> None:
    e = Emitter()
    line = e.input("x", TensorType((4,), F32))
    for _ in range(3 * DEEPEST):
        line = e.op("pad", line, lo=(1,), hi=(0,), value=1.0)
    module = e.finish([line], ["y"])
    lower(module, PassOptions())
    pads = [sum(inner.short == "pad" for inner in op.regions[0].ops)
            for op in module.main.body.ops if op.short == "fused"]  # fmt: skip
    assert max(pads) <= DEEPEST


def test_the_time_to_compile_grows_with_the_model() -> None:
    """Up to the text of the kernels, whose compiler is not ours; 4 times is linear."""

    def seconds(length: int) -> float:
        model = chain(length, ("Sin", "Add", "Mul", "Tanh"))
        begin = time.process_time()
        cuvil.dump_ir(model, "cxx")
        return time.process_time() - begin

    seconds(100)
    short = min(seconds(500) for _ in range(3))
    assert min(seconds(2000) for _ in range(3)) < 10 * short


def _overwritten(places: Iterable[int]) -> ModelProto:
    """A tensor with an element overwritten at each place in turn, by the place's number."""
    name, nodes, weights = "x", [], {"zero": np.array([0]), "end": np.array([2**62])}
    for i, at in enumerate(places):
        weights |= {f"v{i}": np.full(1, at, np.float32), f"a{i}": np.array([at]),
                    f"b{i}": np.array([at + 1])}  # fmt: skip
        nodes += [
            helper.make_node("Slice", [name, "zero", f"a{i}"], [f"before{i}"]),
            helper.make_node("Slice", [name, f"b{i}", "end"], [f"after{i}"]),
            helper.make_node("Concat", [f"before{i}", f"v{i}", f"after{i}"], [f"y{i}"], axis=0),
        ]
        name = f"y{i}"
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [30]) for n in ("x", name)]
    constants = [numpy_helper.from_array(v, k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "overwritten", value[:1], value[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_parts_written_one_after_the_other_do_not_double_the_text() -> None:
    places = [(7 * i) % 24 for i in range(24)]
    model = _overwritten(places)
    assert len(cuvil.dump_ir(model, "cxx")) < 200_000  # 2^24 places read, if each read all before
    got = cuvil.compile(model)(np.full(30, -1, np.float32))
    assert got.tolist() == [*range(24), *[-1] * 6]
