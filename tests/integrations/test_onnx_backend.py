"""The onnx package's interface for backends."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.runner import Runner

from cuvil.errors import InputError, UnsupportedOpError
from cuvil.integrations import onnx_backend
from cuvil.integrations.onnx_backend import CuvilBackend
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.onnx_cases import NodeCase, is_drawn, node_cases
from tools.onnx_operators import DATA
from tools.onnx_truth import CORRECTIONS

PICKED = (
    "test_add", "test_split_equal_parts_1d_opset18", "test_reshape_reduced_dims",
    "test_sequence_insert_at_front", "test_sequence_map_add_2_sequences", "test_if_seq",
    "test_split_to_sequence_1", "test_split_to_sequence_2",
    "test_strnormalizer_export_monday_empty_output", "test_momentum_multiple",
    "test_affine_grid_3d_align_corners", "test_resize_downsample_sizes_nearest_not_smaller",
)  # fmt: skip

# The runner asks each item of a list for its length, and an expected item of rank 0 has none.
NOT_COMPARED = frozenset({"test_loop16_seq_none"})


def _run(case: NodeCase, **arguments: object) -> None:
    rep = CuvilBackend.prepare(case.model, "CPU", **arguments)
    assert not case.problem(rep.run(list(case.inputs.values()))), case.name


@pytest.mark.parametrize("name", [*PICKED, *sorted(NOT_COMPARED)])
def test_cases_run_through_the_interface(name: str) -> None:
    _run(next(c for c in node_cases() if c.name == name))


def test_the_standard_runner_takes_it() -> None:
    tests = Runner(CuvilBackend, __name__).include("^test_(relu|concat_1d_axis_0)_c").test_cases
    suite = tests["OnnxBackendNodeModelTest"]
    suite("test_relu_cpu").test_relu_cpu()
    suite("test_concat_1d_axis_0_cpu").test_concat_1d_axis_0_cpu()
    assert "doesn't support device CUDA" in suite.test_relu_cuda.__unittest_skip_why__


@pytest.mark.parametrize("name", sorted(NOT_COMPARED))
def test_the_runner_can_not_compare_what_is_expected_with_itself(name: str) -> None:
    case = next(c for c in node_cases() if c.name == name)
    with pytest.raises(TypeError, match="Unable to compare"):
        Runner.assert_similar_outputs(case.outputs, case.outputs, case.rtol, case.atol)


def test_outputs_go_by_number_and_name() -> None:
    proto = model(
        [node("Split", ["x"], ["a", "b"], axis=0)], {"x": (FLOAT, (4,))}, ["a", "b"], opset=13
    )
    x = np.arange(4, dtype=np.float32)
    for found in (onnx_backend.run_model(proto, [x]), CuvilBackend.prepare(proto).run({"x": x})):
        assert found[0].tolist() == found["a"].tolist() == found.a.tolist() == [0, 1]
        assert found["b"].tolist() == [2, 3]


def test_a_value_that_decides_a_shape_may_change() -> None:
    proto = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        {"x": (FLOAT, (2, 3)), "shape": (INT64, (2,))},
        ["y"],
    )
    rep = CuvilBackend.prepare(proto)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ((3, 2), (1, 6), (3, 2)):
        assert rep.run([x, np.array(shape)])[0].shape == shape


def test_a_value_that_decides_how_many_tensors_come_out_may_change() -> None:
    split = node("SplitToSequence", ["x", "size"], ["parts"], axis=1)
    proto = model([split], {"x": (FLOAT, (3, 6)), "size": (INT64, ())}, ["parts"])
    assert onnx_backend.is_compatible(proto)
    rep = CuvilBackend.prepare(proto)
    x = np.arange(18, dtype=np.float32).reshape(3, 6)
    for size in (2, 4, 6, 2):
        (parts,) = rep.run([x, np.array(size)])
        want = np.split(x, range(size, 6, size), axis=1)
        assert [p.tolist() for p in parts] == [w.tolist() for w in want]


def test_inputs_without_a_declared_shape_get_that_of_the_call() -> None:
    proto = model([node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, ["y"])
    rep = CuvilBackend.prepare(proto)
    for shape in ((2, 3), (4,), ()):
        x = np.ones(shape, np.float32)
        assert np.array_equal(rep.run([x])[0], -x)


def test_one_node() -> None:
    a, b = np.array([1, 2], np.int64), np.array([5, 7], np.int64)
    (found,) = onnx_backend.run_node(node("Add", ["a", "b"], ["y"]), [a, b])
    assert found.tolist() == [6, 9] and found.dtype == np.int64
    clip = node("Clip", ["x", "", "top"], ["y"])
    (found,) = onnx_backend.run_node(clip, [np.float32([1, 9]), np.float32(3)], opset_version=13)
    assert found.tolist() == [1, 3]


def test_sequences_of_another_length_are_compiled_again() -> None:
    x = helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("ConcatFromSequence", ["xs"], ["y"], axis=0)]
    opset = helper.make_opsetid("", 13)
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[opset])
    rep = CuvilBackend.prepare(proto)
    for sizes in ((2, 3), (1,), (2, 3)):
        rows = [np.full(k, k, np.float32) for k in sizes]
        assert rep.run([rows])[0].tolist() == [float(k) for k in sizes for _ in range(k)]


def test_what_can_not_be_done_is_refused() -> None:
    refused = model([node("ImageDecoder", ["x"], ["y"])], {"x": (TensorProto.UINT8, (9,))}, ["y"],
                    opset=20)  # fmt: skip
    assert not onnx_backend.is_compatible(refused)
    with pytest.raises(UnsupportedOpError, match="decodes files"):
        onnx_backend.prepare(refused)
    fine = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, (2,))}, ["y"])
    assert onnx_backend.is_compatible(fine) and not onnx_backend.is_compatible(fine, "CUDA")
    assert onnx_backend.supports_device("CPU:0") and not onnx_backend.supports_device("CUDA:1")
    with pytest.raises(InputError, match="no device 'CUDA'"):
        onnx_backend.prepare(fine, "CUDA")
    with pytest.raises(InputError, match="1 input; 2 were given"):
        onnx_backend.prepare(fine).run([np.ones(2, np.float32)] * 2)
    fine.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 2
    fine.graph.node[0].input[0] = "z"
    with pytest.raises(onnx.checker.ValidationError):
        onnx_backend.prepare(fine)


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(
    "category", ["NodeModel", "SimpleModel", "PyTorchConvertedModel", "PyTorchOperatorModel",
                 "RealModel"],
)  # fmt: skip
def test_the_standard_suite(category: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test as the onnx package runs it: compiled with optimization, verified, called."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    listed = {name for name, entry in json.loads(DATA.read_text(encoding="utf-8")).items()
              if entry[1]}  # fmt: skip
    items = Runner(CuvilBackend, __name__, {"cache": False})._test_items[category]
    problems: dict[str, str] = {}
    skipped, right = set(), 0
    for name, item in items.items():
        case = name.removesuffix("_cpu")
        if name.endswith("_cuda") or case in {*CORRECTIONS, *NOT_COMPARED} or is_drawn(case):
            continue
        try:
            item.func(None)
            right += 1
        except (unittest.SkipTest, UnsupportedOpError):
            skipped.add(case)
        except Exception as error:
            problems[case] = f"{type(error).__name__}: {error}"[:300]
    assert not problems, "\n".join(f"{name}: {text}" for name, text in problems.items())
    assert skipped <= listed, sorted(skipped - listed)
    assert right >= {"NodeModel": 1600}.get(category, len(items) // 2)
