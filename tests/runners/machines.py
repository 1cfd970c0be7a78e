"""Small models that reach the kernels which differ between CPUs, and what they should give."""

from __future__ import annotations

import copy
import functools
import shutil
import subprocess
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def needs(program: str) -> pytest.MarkDecorator:
    """Skips a test where the emulator is not installed."""
    there = shutil.which(program) or shutil.which(f"{program}-static")
    return pytest.mark.skipif(there is None, reason=f"{program} is not installed")


@functools.cache
def emulates(program: str, cpu: str) -> bool:
    """Whether the emulator that is installed knows the CPU."""
    found = shutil.which(program) or shutil.which(f"{program}-static")
    if found is None:
        return False
    done = subprocess.run([found, "-cpu", "help"], capture_output=True, text=True, check=False)
    return cpu.split(",")[0] in done.stdout.split()


class Mixed(torch.nn.Module):
    """Convolutions (Winograd, strided, depthwise), LSTM, products, softmax, GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 40, 3, padding=1)
        self.second = torch.nn.Conv2d(40, 64, 3, stride=2, padding=1)
        self.third = torch.nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.lstm = torch.nn.LSTM(64, 40, bidirectional=True)
        self.linear = torch.nn.Linear(80, 50)
        self.gru = torch.nn.GRU(50, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        x, _ = self.lstm(self.third(x).flatten(2).permute(2, 0, 1)[:6])
        x, _ = self.gru(torch.softmax(self.linear(x), -1))
        return x


@functools.cache
def mixed() -> tuple[torch.nn.Module, Array, Array]:
    """The model, its input, and its output as f64 arithmetic has it."""
    torch.manual_seed(0)
    model = Mixed().eval()
    x = torch.randn(2, 3, 20, 20)
    with torch.no_grad():
        want = copy.deepcopy(model).double()(x.double()).numpy()
    return model, x.numpy(), want


@functools.cache
def products() -> tuple[torch.nn.Module, Array, Array]:
    """Two products of sizes that fill no tile, which bf16 can do, as f64 arithmetic has them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(74, 45), torch.nn.ReLU(), torch.nn.Linear(45, 38))
    x = torch.randn(13, 74)
    with torch.no_grad():
        want = copy.deepcopy(model).double()(x.double()).numpy()
    return model.eval(), x.numpy(), want


class Attends(torch.nn.Module):
    """Attention between two products."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(30, 120)
        self.last = torch.nn.Linear(40, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.first(x).unflatten(-1, (3, 2, 20)).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(y.transpose(1, 2).flatten(2))


@functools.cache
def attends() -> tuple[torch.nn.Module, Array, Array]:
    """Attention of sizes that fill no tile, which bf16 can do, as f64 arithmetic has it."""
    torch.manual_seed(0)
    model = Attends().eval()
    x = torch.randn(2, 45, 30)
    with torch.no_grad():
        want = copy.deepcopy(model).double()(x.double()).numpy()
    return model, x.numpy(), want


@functools.cache
def bytes_product(signed: bool) -> tuple[onnx.ModelProto, Array, Array]:
    """x @ w of bytes, x signed or not, w signed; with sizes that fill no tile."""
    random = np.random.default_rng(1)
    element = np.int8 if signed else np.uint8
    low, high = np.iinfo(element).min, np.iinfo(element).max
    x = random.integers(low, high, (13, 75), element, endpoint=True)
    w = random.integers(-128, 127, (75, 45), np.int8, endpoint=True)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    kind = TensorProto.INT8 if signed else TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "bytes",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (13, 45))],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model, x, x.astype(np.int64) @ w.astype(np.int64)
