"""Late outputs through the C interface: the library allocates, the caller frees."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, I64, TensorType
from cuvil.runtime.late_artifact import LateArtifact
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import symbol
from tests.codegen.compile_graph import build
from tests.runtime.dltensor import CModel, DLTensor, tensor

OK, SHAPE, CONSTRAINT, LATE = 0, 5, 6, 15


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CModel:
    """Elements of x[n] above 0, and the indices of them as rows and columns of a given width."""
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((symbol("n"),), F32))
    width = e.input("width", TensorType((1,), I64))
    at = e.positions(e.with_scalar("gt", x, 0), "kept", "how many are above 0")
    rows, columns = at.type.shape[0], e.bind(width, ["width"], "the width", [4])[0]
    values = e.op("gather", x, at, axis=0, from_end=False)
    wide = e.broadcast(e.unsqueeze(at, 1), (rows, columns))
    total = e.op("reduce_sum", values, axes=(0,), keepdims=True)
    module = e.finish([values, wide, total], ["values", "wide", "total"])
    module.main.constraints.append(Constraint(symbol("kept"), "<=", 6, "the test"))
    artifact = build(module)
    assert isinstance(artifact, LateArtifact)
    package = artifact._open().package
    weights = np.array(package.weights) if package.weights.size else None
    made = CModel(bytes(package.library), tmp_path_factory.mktemp("c"), weights)
    assert made.create() == OK, made.status.text
    return made


def late(dtype: type, rank: int) -> DLTensor:
    made = tensor(np.zeros((1,) * rank, dtype))
    made.data = None
    return made


def contents(made: DLTensor, dtype: type) -> np.ndarray:
    shape = [made.shape[i] for i in range(made.ndim)]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(made.data, size), dtype).reshape(shape)


def call(model: CModel, x: np.ndarray, width: int) -> tuple[int, list[DLTensor], np.ndarray]:
    total = np.zeros(1, np.float32)
    outputs = [late(np.float32, 1), late(np.int64, 2), tensor(total)]
    code = model.run([tensor(x), tensor(np.array([width]))], outputs)
    return code, outputs, total


def free(model: CModel, *made: DLTensor) -> None:
    release: Callable[[ctypes.c_void_p], None] = model.c.cuvil_free
    for one in made:
        release(ctypes.c_void_p(one.data))


@pytest.mark.parametrize("x", [[], [1], [-1, 0], [3, -1, 2, 5], [1, 2, 3, 4, 5, 6]])
@pytest.mark.parametrize("width", [0, 1, 4])
def test_late_outputs_are_handed_out(model: CModel, x: list[float], width: int) -> None:
    array = np.array(x, np.float32)
    code, outputs, total = call(model, array, width)
    assert code == OK, model.status.text
    kept = np.flatnonzero(array > 0)
    np.testing.assert_array_equal(contents(outputs[0], np.float32), array[kept])
    np.testing.assert_array_equal(
        contents(outputs[1], np.int64), np.repeat(kept[:, None], width, axis=1)
    )
    assert total[0] == array[kept].sum()
    free(model, *outputs[:2])


def test_a_failure_says_why_and_hands_out_nothing(model: CModel) -> None:
    for x, width, code, words in (
        ([1.0], 5, SHAPE, "the size width is 5; allowed is 0 <= width <= 4 (the width"),
        ([1.0], -1, SHAPE, "the size width is -1"),
        ([1.0] * 7, 2, CONSTRAINT, "the constraint kept <= 6 (from the test) does not hold"),
    ):
        got, outputs, _ = call(model, np.array(x, np.float32), width)
        assert got == code and words in model.status.text
        assert outputs[0].data is None and outputs[1].data is None
    free(model, late(np.float32, 1))  # null is fine


def test_the_description_tells_late_symbols(model: CModel) -> None:
    told = {s["name"]: s.get("source") for s in json.loads(model.c.cuvil_describe())["symbols"]}
    assert told == {"n": None, "kept": "how many are above 0", "width": "the width"}
    inputs = [tensor(np.ones(3, np.float32)), tensor(np.array([1]))]
    assert model.output_shape(inputs, 0)[0] == LATE
    assert "depends on data" in model.status.text
    assert model.output_shape(inputs, 2) == (OK, [1] + [-7] * 15)
    assert model.workspace_size(inputs)[0] == OK
