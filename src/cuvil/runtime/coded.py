"""Strings and maps as the library has them: numbers of strings, values of keys.

A string's number is its place in the plan's vocabulary; at each call, strings beyond it get the
numbers after it in the order they come in, so that what only moves strings gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError, InputError

Array = np.ndarray[Any, Any]
# Of an ONNX element type: the dtype of a map's values, and what a key that is not there gives.
_VALUES: Mapping[str, tuple[str, Any]] = MappingProxyType(
    {"FLOAT": ("float32", 0.0), "DOUBLE": ("float64", 0.0), "INT64": ("int64", 0)}
)


@dataclass(frozen=True)
class MapSpec:
    """An input that is a map: its keys' type, its values', and the rows that are made of it."""

    texts: bool
    value: str
    columns: tuple[tuple[str, tuple[Any, ...]], ...]  # the library's input, its keys


class Codes:
    """The numbers of strings in one call."""

    def __init__(self, words: Array, known: Mapping[str, int]) -> None:
        self._words = words  # 1-D, of str
        self._known = known  # the place of each of them
        self._new: dict[str, int] = {}

    def number(self, word: str) -> int:
        """The number of a string, a new one if it has none."""
        found = self._known.get(word)
        if found is None:
            found = self._new.setdefault(word, len(self._known) + len(self._new))
        return found

    def encode(self, words: Array) -> Array:
        """The numbers of an array of str."""
        flat = [self.number(w) for w in words.reshape(-1)]
        return np.array(flat, dtype=np.int64).reshape(words.shape)

    def decode(self, numbers: Array) -> Array:
        """The strings of an array of numbers."""
        every = np.concatenate([self._words, texts(self._new)]) if self._new else self._words
        out: Any = every[numbers]  # of a number alone a str
        return out if numbers.ndim else texts([out]).reshape(())


def texts(words: Iterable[str]) -> Array:
    """A 1-D array of str."""
    kept = list(words)
    out = np.empty(len(kept), dtype=object)
    out[:] = kept
    return out


def rows_of_map(name: str, value: Any, spec: MapSpec, codes: Codes) -> dict[str, Array]:
    """The library's inputs that a map stands for. Raises InputError for anything but a map of the
    declared types."""
    wanted = str if spec.texts else (int, np.integer)
    if not isinstance(value, Mapping):
        raise InputError(f"input {name!r} takes a dict, not {type(value).__name__}")
    for key in value:
        if not isinstance(key, wanted) or isinstance(key, bool):
            kind = "text" if spec.texts else "integers"
            raise InputError(f"input {name!r} has the key {key!r}; its keys are {kind}")
    if spec.value == "STRING":
        words = [[str(value.get(key, "")) for key in keys] for _, keys in spec.columns]
        made = [np.array([[codes.number(w) for w in row]], np.int64) for row in words]
        return {column: row for (column, _), row in zip(spec.columns, made)}
    dtype, absent = _VALUES[spec.value]
    try:
        return {
            column: np.array([[value.get(key, absent) for key in keys]], dtype=dtype)
            for column, keys in spec.columns
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"input {name!r} has a value that is no {dtype}: {error}") from None


def maps_of_rows(values: Array, keys: Sequence[Any]) -> list[dict[Any, float]]:
    """One dict for each row, from keys to the row's numbers. Of equal keys the last counts."""
    return [dict(zip(keys, row)) for row in values.tolist()]


def map_spec(item: Mapping[str, Any], malformed: Callable[[str], ArtifactError]) -> MapSpec:
    """A map input as the manifest has it. Raises ArtifactError."""
    texts, value, columns = item.get("key") == "str", item.get("value"), item.get("columns")
    if item.get("key") not in ("str", "i64") or value not in (*_VALUES, "STRING"):
        raise malformed(f"the map {item.get('name')!r} is from {item.get('key')} to {value}")
    if not isinstance(columns, list):
        raise malformed(f"the map {item.get('name')!r} has no columns")
    made = []
    for column in columns:
        keys = column.get("keys") if isinstance(column, dict) else None
        if not are_keys(keys, str if texts else int) or not isinstance(column.get("input"), str):
            raise malformed(f"the map {item.get('name')!r} has the columns {column!r}")
        made.append((column["input"], tuple(column["keys"])))
    return MapSpec(texts, str(value), tuple(made))


def are_keys(keys: Any, kind: type) -> bool:
    """Whether a value from a manifest is a list of keys."""
    return isinstance(keys, list) and bool(keys) and all(type(k) is kind for k in keys)
