"""The models that the onnx package ships: compiled, against the outputs that come with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import cuvil
from cuvil.errors import InputError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import run_ort
from tests.models.judge import assert_alive, assert_close, run
from tools import zoo
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

# These take and give strings, which a host step handles before the native call.
STRINGS = tuple(
    f"test_strnorm_model_{name}"
    for name in (
        "monday_casesensintive_lower", "monday_casesensintive_nochangecase",
        "monday_casesensintive_upper", "monday_empty_output", "monday_insensintive_upper_twodim",
        "nostopwords_nochangecase",
    )
)  # fmt: skip
SUITES = ("simple", "pytorch-converted", "pytorch-operator")
FOLDERS = [p.parent for suite in SUITES for p in sorted((DATA / suite).glob("*/model.onnx"))]
NUMERIC = [folder for folder in FOLDERS if folder.name not in STRINGS]


def tensor(path: Path) -> Array:
    """The array of a file that holds one TensorProto."""
    proto = TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def numbered(folder: Path, kind: str) -> list[Array]:
    """input_0.pb, input_1.pb ... or the outputs."""
    return [tensor(folder / f"{kind}_{i}.pb") for i in range(len(list(folder.glob(f"{kind}_*"))))]


def test_every_case_is_among_those_below() -> None:
    assert len(NUMERIC) == 134 and len(FOLDERS) == 140


@pytest.mark.parametrize("folder", NUMERIC, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_case_gives_the_expected_outputs(folder: Path, tmp_path_factory: Any) -> None:
    path = folder / "model.onnx"
    graph = onnx.load(path).graph
    stored = {t.name for t in graph.initializer}
    names = [v.name for v in graph.input if v.name not in stored]
    shaping = "sequence_model" in folder.name  # positions in sequences are decided when compiling
    objects = tmp_path_factory.getbasetemp()
    sets = sorted(folder.glob("test_data_set_*"))
    assert sets
    for data in sets:
        inputs = dict(zip(names, numbered(data, "input"), strict=True))
        fixed = {k: v for k, v in inputs.items() if shaping and v.dtype.kind == "i"}
        given = {k: v for k, v in inputs.items() if k not in fixed}
        module = capture_onnx(path, fixed_inputs=fixed)
        want = numbered(data, "output")
        assert_close(run_module(module, given), want, "the reference")
        with quick_build(module, objects) as artifact:
            assert_close(run(artifact, given), want, "the artifact")


@pytest.mark.parametrize("name", STRINGS)
def test_case_of_strings_gives_the_expected_outputs(name: str, tmp_path: Path) -> None:
    folder = DATA / "simple" / name
    (given,), (want,) = (numbered(folder / "test_data_set_0", k) for k in ("input", "output"))
    compiled = cuvil.compile(folder / "model.onnx")
    compiled.save(tmp_path / "m.cuvilpkg")
    for artifact in (compiled, cuvil.load(tmp_path / "m.cuvilpkg")):
        for got in (artifact(given), artifact.run({"x": given})["y"], artifact(given.astype("U"))):
            assert got.dtype == object and got.shape == want.shape
            assert got.tolist() == want.tolist()


def test_a_shape_given_by_an_input_may_be_fixed() -> None:
    path = DATA / "simple" / "test_expand_shape_model1" / "model.onnx"
    assert capture_onnx(path).main.input_names == ["X", "shape"]
    module = capture_onnx(path, fixed_inputs={"shape": np.array([3, 1], np.int64)})
    assert module.source["fixed_inputs"] == ["shape"]
    assert module.main.input_names == ["X"]


@pytest.mark.parametrize("name", ["expand_shape_model1", "expand_shape_model4", "sequence_model8"])
def test_inputs_that_decide_shapes_are_fixed_through_compile(name: str) -> None:
    path = DATA / "simple" / f"test_{name}" / "model.onnx"
    stored = {t.name for t in onnx.load(path).graph.initializer}
    names = [v.name for v in onnx.load(path).graph.input if v.name not in stored]
    data = path.parent / "test_data_set_0"
    inputs = dict(zip(names, numbered(data, "input"), strict=True))
    fixed = {k: v for k, v in inputs.items() if v.dtype.kind == "i"}
    given = {k: v for k, v in inputs.items() if k not in fixed}
    for _ in range(2):  # the second is found in the cache
        artifact = cuvil.compile(path, inputs, options={"fixed_inputs": fixed})
        assert_close(run(artifact, given), numbered(data, "output"), "the artifact")


def test_another_fixed_value_is_another_artifact() -> None:
    """The values differ where a repr is shortened."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2000])
    k = helper.make_tensor_value_info("k", TensorProto.FLOAT, [2000])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2000])
    graph = helper.make_graph([helper.make_node("Add", ["x", "k"], ["y"])], "g", [x, k], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    for middle in (1.0, 2.0):
        k_array = np.zeros(2000, np.float32)
        k_array[1000] = middle
        artifact = cuvil.compile(model, options={"fixed_inputs": {"k": k_array}})
        assert artifact(np.zeros(2000, np.float32))[1000] == middle


def test_fixed_inputs_that_fit_nothing_are_refused() -> None:
    path = DATA / "simple" / "test_expand_shape_model1" / "model.onnx"
    with pytest.raises(InputError, match="no input 'size'"):
        cuvil.compile(path, options={"fixed_inputs": {"size": np.array([3, 1])}})
    with pytest.raises(InputError, match=r"fixed_inputs is \["):
        cuvil.compile(path, options={"fixed_inputs": [3, 1]})


def _ramp(module: Module) -> dict[str, Array]:
    (value,) = module.main.inputs
    shape = tuple(int(d) for d in value.type.shape)  # type: ignore[call-overload]
    count = int(np.prod(shape))
    return {value.name: (np.arange(count).reshape(shape) / count).astype(np.float32)}


# Weights of half a gigabyte, folded from one number, take their time.
HEAVY = ("bvlc_alexnet", "vgg19", "zfnet512")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n for n in zoo.LIGHT]
)
def test_classic_network_gives_the_expected_output(name: str, tmp_path: Path) -> None:
    path = zoo.light(name)
    module = capture_onnx(path)
    assert all(v.type.is_static for v in module.main.outputs)
    assert module.main.constraints == []
    weights = [op.operands[1].op for op in module.main.walk() if op.short == "conv"]
    assert all(op is not None and op.short == "constant" for op in weights)
    with quick_build(module, tmp_path) as artifact:
        want = tensor(path.with_name(path.stem + "_output_0.pb"))
        assert_close(run(artifact, _ramp(module)), [want], name)


def randomised(proto: ModelProto) -> ModelProto:
    """The network with random weights for those that are shipped as one repeated number."""
    graph = proto.graph
    rng = np.random.default_rng(0)
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    kept, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = stored[node.input[0]]
        fan = max(int(np.prod(shape[1:])), 1)
        # Vectors are variances and scales as well: they stay positive.
        array = rng.uniform(0.5, 1.5, shape) if len(shape) == 1 else (
            rng.standard_normal(shape) * np.sqrt(2 / fan)
        )
        weights.append(numpy_helper.from_array(array.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)
    read = {name for node in kept for name in node.input}
    held = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(held)
    names = [v for v in graph.input if v.name in read]
    del graph.input[:]
    graph.input.extend(names)
    return proto


def _logits(proto: ModelProto) -> ModelProto:
    """The network without its last softmax, which hides differences."""
    last = proto.graph.node[-1]
    if last.op_type != "Softmax":
        return proto
    kept = list(proto.graph.node)[:-1]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    del proto.graph.output[:]
    proto.graph.output.append(
        helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None)
    )
    return proto


def _against_onnxruntime(name: str, folder: Path) -> None:
    proto = _logits(randomised(onnx.load(zoo.light(name))))
    module = capture_onnx(proto)
    inputs = _ramp(module)
    want = run_ort(proto, inputs)
    assert_alive(want, name)
    with quick_build(module, folder, opt_level=3) as artifact:
        assert_close(run(artifact, inputs), want, name)


@pytest.mark.parametrize(
    "name",
    [
        n if n in ("squeezenet", "shufflenet") else pytest.param(n, marks=pytest.mark.slow)
        for n in zoo.LIGHT
    ],
)
def test_classic_network_with_random_weights(name: str, tmp_path: Path) -> None:
    proto = _logits(randomised(onnx.load(zoo.light(name))))
    module = capture_onnx(proto)
    inputs = _ramp(module)
    want = run_ort(proto, inputs)
    assert_alive(want, name)
    with quick_build(module, tmp_path, opt_level=3) as artifact:
        assert_close(run(artifact, inputs), want, name)
