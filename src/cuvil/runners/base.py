"""What a runner is: a way to run an artifact that can't be loaded into this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.package.format import Package

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Runner:
    """One way to run packages of some targets.

    ``name`` is the program that does it. ``missing`` tells what this machine lacks for that and
    how to get it, None if nothing. ``run`` takes a package and inputs by name, row major and of the
    exact dtypes, and gives the outputs by name; it raises ArtifactError, with what the program
    said, where that fails, and ShapeConstraintError for shapes that the artifact refuses.
    ``others`` run other code of the same package, which is to be verified as well.
    """

    name: str
    missing: Callable[[], str | None]
    run: Callable[[Package, Mapping[str, Array]], dict[str, Array]]
    others: tuple[Runner, ...] = ()
