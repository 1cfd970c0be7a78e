"""What a model of the zoo is, and inputs that several share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Entry:
    """``make(folder)`` gives the model (a module, or the path of an ONNX file); ``inputs(sizes)``
    its inputs by name for some sizes; ``dynamic`` as for cuvil.compile; ``sizes`` what to try,
    the first for timing."""

    name: str
    make: Callable[[Path], Any]
    inputs: Callable[[Mapping[str, int]], dict[str, Array]]
    dynamic: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    sizes: tuple[Mapping[str, int], ...] = ({},)
    onnx: bool = False


BATCH_SIZES = ({"batch": 1}, {"batch": 2})


def ids(sizes: Mapping[str, int]) -> Array:
    """Token numbers ``[batch, seq]``."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 1000, (sizes["batch"], sizes["seq"]), dtype=np.int64)


def masked(sizes: Mapping[str, int]) -> dict[str, Array]:
    """Token numbers, the last row's last third of which is padding."""
    numbers = ids(sizes)
    mask = np.ones_like(numbers)
    if sizes["seq"] > 2:
        mask[-1, sizes["seq"] - sizes["seq"] // 3 :] = 0
    return {"input_ids": numbers, "attention_mask": mask}
