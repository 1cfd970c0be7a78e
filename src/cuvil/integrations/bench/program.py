"""A program of tensors in and tensors out, loaded by a peer that runs beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


class ProgramSession:
    """``call`` takes a list of tensors, in the order of ``names``, and returns some."""

    def __init__(self, call: Callable[[list[torch.Tensor]], Any], names: Sequence[str]) -> None:
        self.call = call
        self.names = names

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        """A call with gradients off."""
        tensors = [torch.from_numpy(inputs[name]) for name in self.names]

        @torch.inference_mode()
        def run() -> Any:
            return self.call(tensors)

        return run

    def arrays(self, outputs: Any) -> Sequence[Any]:
        """The outputs."""
        return [x.numpy() for x in outputs]
