"""What a graph does beside computing outputs, seen by running it on tensors without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Effects:
    """``written`` are inputs (by number) and attributes (by name) that the graph writes to;
    ``views`` the outputs that share memory with an input or attribute, ``shared`` pairs of other
    outputs that share memory with each other; ``random`` an operator that draws numbers."""

    written: list[int | str] = field(default_factory=list)
    views: set[int] = field(default_factory=set)
    shared: list[tuple[int, int]] = field(default_factory=list)
    random: str = ""


class _Watch(TorchDispatchMode):
    """Notes an operator that draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.random = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            self.random = str(func)
        return func(*args, **kwargs)


def _draws(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Attention is tagged as random for its dropout, which is mostly 0."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            given = args[place] if place < len(args) else argument.default_value
            return bool(kwargs.get("dropout_p", given))
    return True


def effects_of(graph: torch.fx.GraphModule, inputs: Sequence[Any], real: bool = False) -> Effects:
    """Run ``graph`` at the sizes of ``inputs`` (tensors and ints), which are not touched.

    With ``real`` it runs on copies of them. Raises whatever the graph raises, for example where it
    needs data and gets none.
    """
    mode = nullcontext() if real else FakeTensorMode(allow_non_fake_inputs=True)
    attributes = dict(graph.named_parameters()) | dict(graph.named_buffers())
    with torch.no_grad():
        fakes = [_stand_in(x, mode) if torch.is_tensor(x) else x for x in inputs]
        held = {name: _stand_in(x, mode) for name, x in attributes.items()}
    sources: dict[int | str, torch.Tensor] = {
        **{i: x for i, x in enumerate(fakes) if torch.is_tensor(x)}, **held
    }  # fmt: skip
    before = {key: x._version for key, x in sources.items()}
    watch = _Watch()
    with mode, watch, torch.no_grad():
        outputs = torch.func.functional_call(graph, held, tuple(fakes))
    found = Effects(random=watch.random)
    found.written = [key for key, x in sources.items() if x._version != before[key]]
    owners = {_storage(x) for x in sources.values()}
    seen: dict[int, int] = {}
    for place, value in enumerate(outputs):
        if not torch.is_tensor(value):
            continue
        if _storage(value) in owners:
            found.views.add(place)
        elif _storage(value) in seen:
            found.shared.append((seen[_storage(value)], place))
        seen.setdefault(_storage(value), place)
    return found


def _stand_in(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    if isinstance(mode, FakeTensorMode):
        return mode.from_tensor(tensor.detach())
    return tensor.detach().clone(memory_format=torch.preserve_format)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
