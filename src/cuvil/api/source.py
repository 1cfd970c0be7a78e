"""What an artifact was compiled from, to be checked against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.passes.pipeline import PassOptions
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Source:
    """The captured module, and the source model as a function of flat inputs by name.

    ``lower`` brings a copy of a captured module to stage "fused", ``build`` makes an artifact of
    such a module; both as the artifact itself was made, for ``precision``. ``origin`` is the model
    that was captured. ``profiled`` builds it once more, to be profiled, for a number of threads;
    ``retarget`` compiles it for the target of another form, with all else as it was.
    ``settled`` is ``run`` with the positions of equal elements as the module has them, where the
    source leaves them open; ``exact`` is ``run`` in float64, where the source rounds as it runs.
    """

    module: Module
    run: Callable[[Mapping[str, Array]], list[Array]]
    examples: Mapping[str, Array]
    lower: Callable[[Module], Module]
    build: Callable[[Module], Artifact | Built]
    passes: PassOptions = field(default_factory=PassOptions)
    origin: Any = None
    profiled: Callable[[int], Artifact] | None = None
    precision: str = "f32"
    retarget: Callable[[str], Any] | None = None
    settled: Callable[[Mapping[str, Array]], list[Array]] | None = None
    exact: Callable[[Mapping[str, Array]], list[Array]] | None = None


class DeferredSource(Source):
    """A source that is captured once it is asked for: an artifact from the cache needs none."""

    def __init__(self, make: Callable[[], Source]) -> None:
        object.__setattr__(self, "_make", make)

    def __getattribute__(self, name: str) -> Any:
        held = object.__getattribute__(self, "__dict__")
        if name in Source.__dataclass_fields__ and name not in held:
            held.update(vars(held["_make"]()))
        return object.__getattribute__(self, name)
