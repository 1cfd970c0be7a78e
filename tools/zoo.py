"""The models that tests and benches are about: how to make each, and with what inputs."""

from __future__ import annotations

from tools.zoo_entry import Entry
from tools.zoo_onnx import LIGHT, MORE, ONNX, light
from tools.zoo_torch import TORCH, lively

__all__ = ["LIGHT", "MORE", "ONNX", "TORCH", "Entry", "find", "light", "lively"]


def find(name: str) -> Entry:
    """The entry of that name. Raises KeyError."""
    return {e.name: e for e in (*TORCH, *ONNX, *MORE)}[name]
