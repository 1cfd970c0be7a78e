"""Models as ONNX: valid, equal to the model in ONNX Runtime, readable by others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import cuvil
from cuvil.errors import UnsupportedOpError
from cuvil.package import onnx_model
from cuvil.runners.built import Built


class _Net(torch.nn.Module):
    """Convolution with a batch norm, pooling, a product, a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.bn = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.linear, self.norm = torch.nn.Linear(128, 16), torch.nn.LayerNorm(16)
        self.bn.running_mean.uniform_(-1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn(self.conv(x)))
        y = torch.nn.functional.max_pool2d(y, 2).flatten(1)
        return torch.nn.functional.gelu(self.norm(self.linear(y))).softmax(-1)


EXAMPLE = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)


def _saved(model: Any, place: Path, *arguments: Any, **options: Any) -> onnx.ModelProto:
    built = cuvil.compile(model, *arguments, target="onnx", **options)
    assert isinstance(built, Built)
    built.save(place)
    onnx.checker.check_model(str(place), full_check=True)
    return onnx.load(place)


def _run(place: Path, *arrays: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(str(place), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip((i.name for i in session.get_inputs()), arrays))))


def test_a_network_with_a_batch_of_any_size(tmp_path: Path) -> None:
    net, place = _Net().eval(), tmp_path / "net.onnx"
    model = _saved(net, place, EXAMPLE, dynamic_dims=["batch"])
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17), ("cuvil", 1)]
    x = torch.randn(5, 3, 8, 8)
    with torch.no_grad():
        np.testing.assert_allclose(_run(place, x.numpy())[0], net(x), rtol=1e-4, atol=1e-5)


def test_groups_are_functions_and_known_operators_are_themselves(tmp_path: Path) -> None:
    model = _saved(_Net().eval(), tmp_path / "net.onnx", EXAMPLE)
    kinds = [(n.domain, n.op_type) for n in model.graph.node]
    assert ("", "MaxPool") in kinds and ("", "LayerNormalization") in kinds
    assert ("", "Softmax") in kinds and ("cuvil", "gelu") in kinds
    (conv,) = [f for f in model.functions if f.name.startswith("conv")]
    assert [n.op_type for n in conv.node] == ["Conv", "Relu"]  # the batch norm is in the weights


def test_another_form_of_a_native_artifact(tmp_path: Path) -> None:
    native = cuvil.compile(_Net().eval(), EXAMPLE)
    native.save(tmp_path / "net.onnx")
    found = _run(tmp_path / "net.onnx", EXAMPLE[0].numpy())[0]
    np.testing.assert_allclose(found, native(EXAMPLE[0].numpy()), rtol=1e-4, atol=1e-5)


def test_weights_lie_beside_a_model_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_model, "LARGEST", 4096)
    net, place = _Net().eval(), tmp_path / "net.onnx"
    built = cuvil.compile(net, EXAMPLE, target="onnx")
    files = built.save(place)
    assert [f.name for f in files] == ["net.onnx", "net.weights"]
    assert place.stat().st_size < files[1].stat().st_size
    onnx.checker.check_model(str(place), full_check=True)
    with torch.no_grad():
        expected = net(EXAMPLE[0])
    np.testing.assert_allclose(_run(place, EXAMPLE[0].numpy())[0], expected, rtol=1e-4, atol=1e-5)


def test_what_onnx_has_no_operators_for_is_listed() -> None:
    class Special(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.erfcx(x) + torch.lgamma(x)

    with pytest.raises(UnsupportedOpError) as caught:
        cuvil.compile(Special(), (torch.ones(3),), target="onnx")
    assert {node.op for node in caught.value.nodes} == {"cuvil.erfcx", "cuvil.lgamma"}
    traced = cuvil.debug_trace(Special(), None, None, input_shape=(3,), target="onnx")
    assert {node["op"] for node in traced["unsupported"]} == {"cuvil.erfcx", "cuvil.lgamma"}


def test_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        cuvil.compile(_Net().eval(), EXAMPLE, target="onnx", verify=False, cache=False).save(
            tmp_path / f"{name}.onnx"
        )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
