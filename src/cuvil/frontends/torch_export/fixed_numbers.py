"""Whole numbers that a model keeps in its buffers, where it makes sizes of them.

Torch traces a buffer without its value, so a stride or a padding that is kept in one can't become
a size. While a model is traced, such buffers are replaced by constants, whose values torch follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cuvil.frontends.torch_export.own_state import state_refused

_WHOLE = (torch.int64, torch.int32, torch.bool)


def fixed_numbers(model: torch.nn.Module) -> dict[str, int]:
    """The values of a model's buffers that are one whole number each, by their names."""
    return {
        name: int(buffer)
        for name, buffer in model.named_buffers()
        if buffer.dim() == 0 and buffer.dtype in _WHOLE and buffer.device.type != "meta"
    }


@contextmanager
def as_constants(model: torch.nn.Module, numbers: dict[str, int]) -> Iterator[None]:
    """Inside, these buffers are constants of the program that is being traced.

    Raises InvalidModelError where the model writes to one of them.
    """
    kept: list[tuple[str, torch.nn.Module, str, torch.Tensor, torch.Tensor, int]] = []
    for path, number in numbers.items():
        place, _, name = path.rpartition(".")
        module = model.get_submodule(place)
        buffer = module._buffers[name]
        assert buffer is not None
        constant = torch.tensor(number, dtype=buffer.dtype)
        module._buffers[name] = constant
        kept.append((path, module, name, buffer, constant, constant._version))
    try:
        yield
        for path, module, name, _, constant, version in kept:
            if module._buffers[name] is not constant or constant._version != version:
                raise state_refused(path)
    finally:
        for _, module, name, buffer, _, _ in kept:
            module._buffers[name] = buffer
