"""Valid calls of every operator, for references and, later, for compiled kernels.

``cases(name, rng)`` gives them; an operator without a generator is a failure of
test_reference_registry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.ops import (
    generators_cast,
    generators_compute,
    generators_linalg,
    generators_maps,
    generators_movement,
    generators_region,
    generators_sizes,
    generators_special,
    generators_trees,
    generators_windows,
)
from tests.ops.values import Case, Rng

Generator = Callable[[Rng], Iterator[Case]]

GENERATORS: dict[str, Generator] = {
    **generators_maps.GENERATORS,
    **generators_cast.GENERATORS,
    **generators_movement.GENERATORS,
    **generators_compute.GENERATORS,
    **generators_windows.GENERATORS,
    **generators_special.GENERATORS,
    **generators_linalg.GENERATORS,
    **generators_trees.GENERATORS,
    **generators_sizes.GENERATORS,
    **generators_region.GENERATORS,
}


def cases(op_name: str, rng: Rng) -> Iterator[Case]:
    """Calls of ``cuvil.<op_name>`` (the dialect may be left out). Raises KeyError for an operator
    that has no generator."""
    yield from GENERATORS[op_name.removeprefix("cuvil.")](rng)
