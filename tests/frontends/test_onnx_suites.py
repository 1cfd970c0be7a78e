"""The data that the onnx package ships: whole models with inputs and expected outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import compare

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
REFUSED = ("strnorm", "gradient")


def _models(suite: str) -> list[Path]:
    return sorted(p.parent for p in (DATA / suite).glob("*/model.onnx"))


HOLD_TENSORS = [
    p
    for suite in ("simple", "pytorch-converted", "pytorch-operator")
    for p in _models(suite)
    if not any(word in p.name for word in REFUSED)
]


def _tensor(path: Path) -> Any:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def _numbered(folder: Path, kind: str) -> list[Any]:
    return [_tensor(folder / f"{kind}_{i}.pb") for i in range(len(list(folder.glob(f"{kind}_*"))))]


def test_the_suites_are_there() -> None:
    assert len(HOLD_TENSORS) == 132


@pytest.mark.parametrize("folder", HOLD_TENSORS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_model_gives_the_expected_outputs(folder: Path) -> None:
    path = folder / "model.onnx"
    graph = onnx.load(path).graph
    stored = {t.name for t in graph.initializer}
    names = [v.name for v in graph.input if v.name not in stored]
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = dict(zip(names, _numbered(data, "input"), strict=True))
        fixed: dict[str, Any] = {}
        if any(
            n.op_type == "Expand" or n.op_type.startswith("Sequence") for n in graph.node
        ) or any(n.op_type == "SplitToSequence" for n in graph.node):
            fixed = {k: v for k, v in inputs.items() if v.dtype.kind == "i"}
        module = capture_onnx(path, fixed_inputs=fixed)
        got = run_module(module, {k: v for k, v in inputs.items() if k not in fixed})
        compare(got, _numbered(data, "output"), 1e-4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_strnorm_model_monday_casesensintive_lower", "strings are not supported"),
        ("test_gradient_of_add", "operators of training are not supported"),
    ],
)
def test_what_is_refused_says_why(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedOpError, match=reason):
        capture_onnx(DATA / "simple" / name / "model.onnx")


def test_a_shape_given_by_an_input_is_refused_unless_fixed() -> None:
    path = DATA / "simple" / "test_expand_shape_model1" / "model.onnx"
    with pytest.raises(UnsupportedOpError, match="target shape depends on the data of an input"):
        capture_onnx(path)
    module = capture_onnx(path, fixed_inputs={"shape": np.array([3, 1], np.int64)})
    assert module.source["fixed_inputs"] == ["shape"]
    assert module.main.input_names == ["X"]


LIGHT = sorted((DATA / "light").glob("*.onnx"))
QUICK = ("squeezenet", "shufflenet")


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_model_is_captured_static_and_whole(path: Path) -> None:
    module = capture_onnx(path)
    assert module.stage == "captured"
    assert all(v.type.is_static for v in module.main.outputs)
    assert module.main.constraints == []
    for op in module.main.walk():
        if op.short == "conv":
            weight = op.operands[1].op
            assert weight is not None and weight.short == "constant"


def _run_light(path: Path) -> None:
    module = capture_onnx(path)
    (value,) = module.main.inputs
    shape = tuple(int(d) for d in value.type.shape)  # type: ignore[arg-type]
    count = int(np.prod(shape))
    data = (np.arange(count).reshape(shape) / count).astype(np.float32)
    (got,) = run_module(module, {value.name: data})
    want = _tensor(path.with_name(path.stem + "_output_0.pb"))
    compare([got], [want], 1e-3)


@pytest.mark.parametrize("name", QUICK)
def test_light_model_gives_the_expected_output(name: str) -> None:
    _run_light(DATA / "light" / f"light_{name}.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_every_light_model_gives_the_expected_output(path: Path) -> None:
    _run_light(path)


MODELS = os.environ.get("CUVIL_TEST_MODELS", "")


@pytest.mark.skipif(not MODELS, reason="CUVIL_TEST_MODELS names no folder of models")
@pytest.mark.parametrize(
    ("name", "shapes", "tolerance"),
    [
        ("ch_PP-OCRv4_det_infer.onnx", [(1, 3, 64, 96), (2, 3, 32, 32)], 1e-5),
        ("ch_PP-OCRv4_rec_infer.onnx", [(1, 3, 48, 64), (2, 3, 48, 101)], 1e-4),
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", [(1, 3, 48, 192), (3, 3, 48, 96)], 1e-5),
    ],
)
def test_models_of_symbolic_size(
    name: str, shapes: list[tuple[int, ...]], tolerance: float
) -> None:
    from tests.frontends.onnx_models import check, floats

    path = next(Path(MODELS).rglob(name))
    check(onnx.load(path), *({"x": floats(*s)} for s in shapes), tolerance=tolerance)
