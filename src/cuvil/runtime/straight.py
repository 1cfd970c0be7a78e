"""The straight way of a call: the ordinary case in as few steps as Python has for it.

Ordinary is: every argument of one class (NumPy's array or PyTorch's tensor itself), of the very
dtype, row major, aligned and in CPU memory, of shapes that came before. Every other call is told
None, and nothing was done: :class:`cuvil.runtime.artifact.Artifact` then takes the way that handles
all, and says what is wrong. A loop over the arguments costs more than what it does, so the function
is written out for as many inputs and outputs as the model has.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cuvil.runtime.arena import Scratch
from cuvil.runtime.arrays import Slot, data_pointers, torch_dtype_of
from cuvil.runtime.native import Model

Straight = Callable[[Sequence[Any]], "Sequence[Any] | None"]


@dataclass(frozen=True)
class _Class:
    """What one class of tensors is asked, as Python text in which {x} is one: the tests that it
    passes if it is ordinary, where its data lie, and what makes one of the shape {x}_shape."""

    ordinary: str
    address: str
    new: str


_ARRAYS = _Class(
    ordinary="type({x}) is kind and {x}.dtype is {x}_type and {x}.flags.c_contiguous",
    address="memory[id({x}) >> 3]",
    new="empty({x}_shape, {x}_type)",
)
# Neither a gradient nor a name matters to who reads memory. Sizes one by one are parsed faster.
_TENSORS = _Class(
    ordinary="type({x}) is kind and {x}.dtype is {x}_type and {x}.is_cpu"
    " and {x}.layout is layout and {x}.is_contiguous() and not {x}.is_neg()",
    address="{x}.data_ptr()",
    new="{x}_new(*{x}_shape) if {x}_shape else {x}_new(())",
)
_TEXT = """\
def make({names}):
    plans, call = model.plans, model.call
    def straight(args):
        try:
            {inputs} = args
            if not ({ordinary}):
                return None
            {addresses}
            if {elsewhere}:
                return None
            plan = plans.get({shapes})
            if plan is None or not plan.filled:
                return None
            {output_shapes} = plan.outputs
            {new}
            targets = pack_outputs({targets})
        except (MemoryError, RuntimeError):
            return None
        arena = scratch.arena
        if not plan.workspace <= arena.size <= plan.most:
            arena = scratch.fit(plan.workspace)
        sources = pack_inputs({sources})
        if call(model.argument, sources, targets, plan.symbols, arena.argument, None):
            return None
        return {outputs}
    return straight
"""


def untaken(args: Sequence[Any]) -> None:
    """The straight way where there is none."""


def on_arrays(
    model: Model, scratch: Scratch, inputs: Sequence[Slot], outputs: Sequence[Slot]
) -> Straight:
    """The straight way for NumPy's arrays."""
    memory = data_pointers()
    if memory is None or not outputs or any(slot.dtype is None for slot in (*inputs, *outputs)):
        return untaken
    known = {"kind": np.ndarray, "memory": memory, "empty": np.empty}
    types = {f"i{n}_type": slot.dtype for n, slot in enumerate(inputs)}
    types.update((f"o{n}_type", slot.dtype) for n, slot in enumerate(outputs))
    return _made(_ARRAYS, model, scratch, inputs, outputs, {**known, **types})


def on_tensors(
    model: Model, scratch: Scratch, inputs: Sequence[Slot], outputs: Sequence[Slot]
) -> Straight:
    """The straight way for PyTorch's tensors; for a process that has it."""
    types = [torch_dtype_of(slot) for slot in (*inputs, *outputs)]
    if not outputs or None in types:
        return untaken
    torch = sys.modules["torch"]
    known = {"kind": torch.Tensor, "layout": torch.strided}
    known.update((f"i{n}_type", dtype) for n, dtype in enumerate(types[: len(inputs)]))
    for n, dtype in enumerate(types[len(inputs) :]):
        known[f"o{n}_new"] = torch.empty(0, dtype=dtype, device="cpu").new_empty
    return _made(_TENSORS, model, scratch, inputs, outputs, known)


def _made(
    asked: _Class, model: Model, scratch: Scratch, inputs: Sequence[Slot],
    outputs: Sequence[Slot], known: Mapping[str, Any],
) -> Straight:  # fmt: skip
    values = {
        **known, "model": model, "scratch": scratch,
        "pack_inputs": struct.Struct(f"={len(inputs)}Q").pack,
        "pack_outputs": struct.Struct(f"={len(outputs)}Q").pack,
        **{f"i{n}_mask": slot.size - 1 for n, slot in enumerate(inputs)},
    }  # fmt: skip
    found: Straight = _maker(asked, len(inputs), len(outputs), tuple(values))(**values)
    return found


@lru_cache(maxsize=64)
def _maker(
    asked: _Class, inputs: int, outputs: int, names: tuple[str, ...]
) -> Callable[..., Straight]:
    """The function ``make`` of the text for these numbers of inputs and outputs."""
    sources, targets = ([f"{letter}{n}" for n in range(count)]
                        for letter, count in (("i", inputs), ("o", outputs)))  # fmt: skip
    text = _TEXT.format(
        names=", ".join(names),
        inputs=_tuple(sources),
        ordinary=" and ".join(asked.ordinary.format(x=x) for x in sources) or "True",
        addresses="; ".join(f"{x}_at = {asked.address.format(x=x)}" for x in sources) or "pass",
        elsewhere=" or ".join(f"not {x}_at or {x}_at & {x}_mask" for x in sources) or "False",
        shapes=_tuple([f"{x}.shape" for x in sources]),
        output_shapes=_tuple([f"{x}_shape" for x in targets]),
        new="; ".join(f"{x} = {asked.new.format(x=x)}" for x in targets),
        targets=", ".join(asked.address.format(x=x) for x in targets),
        sources=", ".join(f"{x}_at" for x in sources),
        outputs=_tuple(targets),
    )
    scope: dict[str, Any] = {}
    exec(compile(text, "<the straight way of a call>", "exec"), scope)
    made: Callable[..., Straight] = scope["make"]
    return made


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if items else ''})"
