"""Example inputs for tracing: the user's, with dynamic dims of sizes that hide nothing.

A size of 0 or 1 takes paths of its own in a traced program (broadcasting, ``if n == 1``), so
dynamic dims are traced at 2 or more; values are repeated along the axis, so indices stay valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.spec import DynamicSpec
from cuvil.sym.constraint import Constraint, in_words
from cuvil.sym.expr import Dim, Expr, evaluate, symbols_of
from cuvil.sym.solver import require_satisfiable

_SEARCH = 4096


def choose_sizes(
    tensors: Sequence[torch.Tensor], spec: DynamicSpec, constraints: Sequence[Constraint]
) -> dict[str, int]:
    """A size for each name: the example's if that is 2 or more and fits, else the next that does.

    Raises ShapeConstraintError where bounds and constraints contradict one another, or no size up
    to 4096 satisfies them.
    """
    own = [c for c in constraints if c.symbols() <= spec.bounds.keys()]
    if own:
        require_satisfiable(own, spec.bounds, origins=spec.origins())
    sizes: dict[str, int] = {}
    for tensor, axes in zip(tensors, spec.axes, strict=True):
        for axis, dim in axes.items():
            if isinstance(dim, Expr) and len(symbols_of(dim)) == 1 and str(dim) in spec.bounds:
                sizes[str(dim)] = max(sizes.get(str(dim), 0), tensor.shape[axis])
    for name in spec.bounds:
        sizes[name] = _fitting(name, sizes.get(name, 2), spec, constraints)
    return sizes


def _fitting(name: str, wanted: int, spec: DynamicSpec, constraints: Sequence[Constraint]) -> int:
    low, high = spec.bounds[name]
    rules = [c for c in constraints if c.symbols() == {name}]
    low = max(low, 2) if high is None or high >= 2 else low
    top = low + _SEARCH if high is None else min(high, low + _SEARCH)
    start = min(max(wanted, low), top)
    for size in (*range(start, top + 1), *range(start - 1, low - 1, -1)):
        if all(c.holds({name: size}) for c in rules):
            return int(size)
    said = "; ".join(f"{c} ({in_words(c.origin)})" for c in rules)
    raise ShapeConstraintError(
        f"no size of {name} in {low}..{top} satisfies {said}",
        where=spec.origin(name),
        hint="loosen the bounds or the constraints; or make the dim static, if it has one size",
    )


def resized(
    tensors: Sequence[torch.Tensor],
    axes: Sequence[Mapping[int, Dim]],
    sizes: Mapping[str, int],
) -> list[torch.Tensor]:
    """Copies of the tensors in which each dynamic axis has the size its dim has for ``sizes``."""
    out = []
    for tensor, dims in zip(tensors, axes, strict=True):
        for axis, dim in dims.items():
            tensor = _resize(tensor, axis, evaluate(dim, sizes))
        out.append(tensor.detach().clone(memory_format=torch.contiguous_format))
    return out


def _resize(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    have = tensor.shape[axis]
    if have == size:
        return tensor
    if have == 0:
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        return torch.zeros(shape, dtype=tensor.dtype)
    picks = torch.arange(size) % have
    return tensor.index_select(axis, picks)
