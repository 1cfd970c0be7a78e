"""Tensors that hold no elements one by one are refused by name, wherever they are given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import cuvil


def _nested(layout: Any) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.qint8)


def _csr() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(4).to_sparse_csr()


ODD: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "meta": (lambda: torch.empty(4, 4, device="meta"), "device meta"),
    "nested": (lambda: _nested(torch.strided), "nested tensor"),
    "jagged": (lambda: _nested(torch.jagged), "nested tensor"),
    "coo": (lambda: torch.eye(4).to_sparse(), "layout torch.sparse_coo"),
    "csr": (_csr, "layout torch.sparse_csr"),
    "mkldnn": (lambda: torch.eye(4).to_mkldnn(), "layout torch._mkldnn"),
    "quantized": (_quantized, "quantized"),
    "fake": (lambda: FakeTensorMode().from_tensor(torch.eye(4)), "FakeTensor"),
    "wrapper": (lambda: TwoTensor(torch.eye(4), torch.eye(4)), "TwoTensor.*memory"),
    "no shape": (torch.nn.parameter.UninitializedParameter, "no shape yet"),
    "bits": (lambda: torch.empty(4, 4, dtype=torch.bits8), "torch.bits8"),
}


def _model() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, 1, [4, 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def artifact() -> Any:
    return cuvil.compile(torch.nn.ReLU(), (torch.eye(4),), cache=False)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("kind", ODD)
def test_odd_tensors_are_refused(kind: str, artifact: Any) -> None:
    make, said = ODD[kind]
    odd, relu = make(), torch.nn.ReLU()
    uses: list[Callable[[], Any]] = [
        lambda: cuvil.compile(relu, (odd,)),
        lambda: cuvil.compile(relu, {"input": odd}, cache=False),
        lambda: cuvil.compile(_model(), {"x": odd}),
        lambda: cuvil.verify(artifact, (odd,)),
        lambda: cuvil.debug_trace(relu, (odd,)),
    ]
    for use in uses:
        with pytest.raises(cuvil.errors.InputError, match=said):
            use()
    if kind != "meta":  # which asks for the shapes of the outputs
        with pytest.raises(cuvil.errors.InputError, match="input"):
            artifact(odd)


@pytest.mark.parametrize("kind", [k for k in ODD if k != "no shape"])
def test_nothing_is_written_to_odd_tensors(kind: str, artifact: Any) -> None:
    """A wrapper has no address: writing there would end the process."""
    with pytest.raises(cuvil.errors.InputError, match="output"):
        artifact.run({"input": torch.eye(4)}, out={"output": ODD[kind][0]()})


def test_ordinary_ones_are_taken() -> None:
    """Parameters, subclasses without memory of their own kind, and no elements."""

    class Plain(torch.Tensor):
        pass

    for x in (torch.nn.Parameter(-torch.eye(4)), (-torch.eye(4)).as_subclass(Plain)):
        made = cuvil.compile(_model(), (x,), cache=False)
        np.testing.assert_array_equal(made.run({"x": np.eye(4, dtype=np.float32)})["y"], -np.eye(4))
    cuvil.compile(torch.nn.ReLU(), (torch.zeros(0, 4),), cache=False)


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(cuvil.errors.InputError, match="object"):
        cuvil.compile(torch.nn.ReLU(), (np.array([[None]]),))


def test_an_input_that_is_an_output_too_in_onnx(tmp_path: Path) -> None:
    """It keeps its one name; an output that only shares the name has a similar one."""
    x, y, z = (helper.make_tensor_value_info(n, 1, ["k"]) for n in "xyz")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x, z], [y, z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made = cuvil.compile(model, target="onnx", cache=False)
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    found = made.run({"x": a, "z": b})
    np.testing.assert_array_equal(found["y"], -a)
    np.testing.assert_array_equal(found["z"], b)
    made.save(tmp_path / "m.onnx")
    saved = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(saved, full_check=True)
    assert [o.name for o in saved.graph.output] == ["y", "z"]


def test_an_output_with_an_inputs_name_in_onnx() -> None:
    class Named(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"x": y * 2, "y": x + 1}

    made = cuvil.compile(Named(), (torch.ones(2), torch.zeros(2)), target="onnx", cache=False)
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    found = made.run({"x": a, "y": b})
    np.testing.assert_array_equal(found["x"], b * 2)
    np.testing.assert_array_equal(found["y"], a + 1)
