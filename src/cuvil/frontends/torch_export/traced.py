"""A program that torch.export made, with what is known of its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from cuvil.frontends.torch_export.spec import DynamicSpec


@dataclass
class Traced:
    """A program whose user inputs are tensors, one for each of ``names``.

    ``source`` is the module that was traced, called with the flat inputs (None for a program
    that was exported elsewhere); ``places`` maps the text of a guard to a line of user code;
    ``labels`` the names of tensors in ``source`` to those in the model, where they differ.
    """

    program: ExportedProgram
    names: list[str]
    spec: DynamicSpec
    examples: list[torch.Tensor]
    call: dict[str, Any]
    model_name: str
    source: torch.nn.Module | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    prefix: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    def name_of(self, target: str) -> str:
        """The model's own name of a buffer or constant of the program."""
        name = target.removeprefix(self.prefix)
        return self.labels.get(name, name)
