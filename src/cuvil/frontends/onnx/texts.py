"""Strings and maps beside the numbers of a graph.

A string tensor is a tensor of numbers, one for each different string: those that the model names
have numbers at capture, others get theirs at each call (runtime/coded.py). What only moves or
compares strings is then a matter of numbers. A map of a sequence of maps is its values' tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Union

import numpy as np

from cuvil.ir.core import Value
from cuvil.ir.types import DType

Array = np.ndarray[Any, Any]
Key = Union[int, str]
CODES, VALUES, MADE = ".codes", ".values", ".made"  # what the library's tensors are called
Dims = list["int | str"]


@dataclass(frozen=True)
class Texts:
    """A string tensor: the i64 number of each of its strings."""

    value: Value


@dataclass(frozen=True)
class HostValue:
    """A tensor of the steps that run in Python: its name there, its shape ("?" for a size that is
    unknown), its dtype (None for strings)."""

    value: str
    shape: Dims
    dtype: DType | None = None


@dataclass(frozen=True)
class Maps:
    """A sequence of maps from ``keys`` to the columns of ``value``, [N, keys]."""

    keys: tuple[Key, ...]
    value: Value


@dataclass(frozen=True)
class MapInput:
    """An input that is one map; ``text_keys`` and ``values`` (an ONNX element type) as declared."""

    name: str
    text_keys: bool
    values: int


@dataclass
class TextPart:
    """The model's strings, and its inputs and outputs that are none of the library's."""

    words: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def number(self, word: str) -> int:
        """The number of a string."""
        return self.words.setdefault(word, len(self.words))

    def numbers(self, words: Iterable[str]) -> Array:
        """The numbers of strings, 1-D."""
        return np.array([self.number(w) for w in words], dtype=np.int64)

    def table(self, words: Sequence[str], absent: int) -> Array:
        """By number: the place of each of ``words`` (the first, if twice); one more for others."""
        numbers = self.numbers(words)
        table = np.full(int(numbers.max(initial=-1)) + 2, absent, np.int64)
        table[numbers[::-1]] = np.arange(len(words))[::-1]
        return table


def text_entry(name: str, shape: Sequence[Any]) -> dict[str, Any]:
    """A string input or output for the manifest."""
    dims = [d if isinstance(d, int) else str(d) for d in shape]
    return {"name": name, "dtype": "str", "shape": dims, "codes": name + CODES}


def host_tree(
    words: TextPart,
    inputs: Sequence[str],
    texts: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, Any],
) -> dict[str, Any]:
    """Plain data for the manifest: ``inputs`` by name in order, ``texts`` those that are none of
    the library's, ``outputs`` what each output of the graph became."""
    outs: list[dict[str, Any]] = []
    for name, item in outputs.items():
        if isinstance(item, HostValue):
            entry = {"name": name, "dtype": "str", "shape": list(item.shape)}
            outs.append({**entry, "value": item.value})
        elif isinstance(item, Texts):
            outs.append(text_entry(name, item.value.type.shape))
        elif isinstance(item, Maps):
            first = item.value.type.shape[0]
            shape = [first if isinstance(first, int) else str(first)]
            entry = {"name": name, "dtype": "map", "shape": shape, "values": name + VALUES}
            outs.append({**entry, "keys": list(item.keys)})
        elif isinstance(item, Value):
            outs.append({"name": name})
        else:
            outs += [{"name": f"{name}_{i}"} for i in range(len(item.items))]
    return {
        "steps": [], "vocabulary": list(words.words), "outputs": outs,
        "inputs": [dict(texts.get(name, {"name": name})) for name in inputs],
    }  # fmt: skip


# Operators whose text outputs are their text inputs' elements at other places.
MOVES: Mapping[tuple[str, str], tuple[int, ...]] = MappingProxyType(
    {
        **{
            ("", op): (0,)
            for op in (
                "Compress", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
                "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose",
                "Unsqueeze",
            )
        },
        ("", "Concat"): (),
        ("", "Where"): (1, 2),
        ("ai.onnx.ml", "ArrayFeatureExtractor"): (0,),
    }
)  # fmt: skip
COMPARES = ("", "Equal")


def moved(key: tuple[str, str], inputs: Sequence[Any]) -> bool:
    """Whether an operator only moves its strings, which stand where it takes data."""
    if key not in MOVES:
        return False
    data = MOVES[key] or tuple(range(len(inputs)))
    return all(
        isinstance(item, Texts) == (i in data) for i, item in enumerate(inputs) if item is not None
    )
