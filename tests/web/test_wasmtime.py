"""A module without its loader: called through abi.h's functions in wasmtime."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.runners.built import Built

wasmtime = pytest.importorskip("wasmtime", reason="the package wasmtime is not installed")


class Host:
    """One instance, and its memory by address."""

    def __init__(self, module: bytes) -> None:
        config = wasmtime.Config()
        config.wasm_relaxed_simd = True
        engine = wasmtime.Engine(config)
        self.store = wasmtime.Store(engine)
        instance = wasmtime.Instance(self.store, wasmtime.Module(engine, module), [])
        self.exports = instance.exports(self.store)

    def call(self, name: str, *arguments: int) -> int:
        found: int = self.exports[name](self.store, *arguments)
        return found

    def put(self, data: bytes) -> int:
        """The address of a copy of ``data``."""
        at = self.call("cuvil_memory_take", len(data))
        self.exports["memory"].write(self.store, data, at)
        return at

    def get(self, at: int, size: int) -> bytes:
        return bytes(self.exports["memory"].read(self.store, at, at + size))

    def tensor(self, array: np.ndarray[Any, Any]) -> tuple[int, int]:
        """The addresses of a DLTensor of f32, where pointers have 32 bits, and of its data."""
        data = self.put(array.tobytes())
        shape = self.put(struct.pack(f"<{array.ndim}q", *array.shape))
        fields = (data, 1, 0, array.ndim, 2, 32, 1, shape, 0, 0, 0)
        return self.put(struct.pack("<IiiiBBHIIIQ", *fields)), data


@pytest.mark.parametrize("part", ["", "relaxed.wasm"])
def test_a_module_runs_in_wasmtime(part: str) -> None:
    layer = torch.nn.Linear(6, 3)
    made = cuvil.compile(
        layer, (torch.ones(2, 6),), dynamic_dims=["batch"], target="wasm", verify=False
    )
    assert isinstance(made, Built)
    host = Host(made.package.parts[part] if part else made.package.library)
    weights = host.call("cuvil_weights_inside")
    assert weights and host.call("cuvil_weights_size") == made.package.weights.size
    assert host.get(weights, 16) == made.package.weights[:16].tobytes()
    place = host.put(bytes(8))
    assert host.call("cuvil_create", weights, made.package.weights.size, 0, place, 0) == 0
    (model,) = struct.unpack("<I", host.get(place, 4))
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    (given, _), (wanted, at) = host.tensor(x), host.tensor(np.zeros((5, 3), np.float32))
    lists = host.put(struct.pack("<II", given, wanted))
    assert host.call("cuvil_workspace_size", model, lists, 1, place, 0) == 0
    (room,) = struct.unpack("<Q", host.get(place, 8))
    work, status = host.call("cuvil_memory_take", room), host.put(bytes(256))
    assert host.call("cuvil_run", model, lists, 1, lists + 4, 1, work, room, status) == 0
    found = np.frombuffer(host.get(at, 60), np.float32).reshape(5, 3)
    weight, bias = (p.detach().numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    np.testing.assert_allclose(found, x @ weight.T + bias, rtol=1e-4, atol=1e-6)
