"""The user's dynamic dimensions, in every form they may come, as one table per input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuvil.errors import InputError, ShapeConstraintError
from cuvil.errors.words import counted, shown
from cuvil.sym.constraint import given_as
from cuvil.sym.dim import Dim as NamedDim
from cuvil.sym.expr import Dim, Expr, symbol, symbols_of
from cuvil.sym.parse import asked_dim, parse_dim

_FORMS = 'give a dict by input name and axis, such as {"x": {0: "batch"}}, or {"x": ["batch"]}'
Bounds = dict[str, tuple[int, "int | None"]]


@dataclass(frozen=True)
class DynamicSpec:
    """``axes[k]`` maps each dynamic axis of input k to its dim; ``bounds`` those of the names.

    ``given`` says how the user gave a name: once for each way in which its bounds were given.
    """

    axes: tuple[Mapping[int, Dim], ...]
    bounds: Mapping[str, tuple[int, int | None]]
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Who asked for a name: the origin of its bounds."""
        found = self.given.get(name, ())
        return given_as(" and ".join(found)) if found else ""

    def origins(self) -> dict[str, str]:
        """The origin of each name's bounds."""
        return {name: self.origin(name) for name in self.bounds}


def parse_dynamic(
    dynamic: Any, names: Sequence[str], shapes: Sequence[Sequence[Any]]
) -> DynamicSpec:
    """Read ``dynamic``: None; names of the leading dims of every input (``["batch"]``); a dict by
    input name; or one entry an input. An entry is a dict by axis or a sequence by axis; a dim is
    a name, an expression (``"2 * seq"``), a cuvil.Dim, a torch.export.Dim, or True/AUTO; static
    are None, False and the number that the size is in ``shapes``, those of the examples.

    Raises InputError for an unknown input, an axis outside the rank or another number,
    ShapeConstraintError for bounds that contradict one another.
    """
    bounds: Bounds = {}
    tables: list[dict[int, Dim]] = [{} for _ in names]
    given: dict[str, tuple[str, ...]] = {}
    for index, entry in _by_input(dynamic, names):
        for axis, item in _by_axis(entry, names[index], len(shapes[index])):
            _check_size(item, shapes[index][axis], f"axis {axis} of {names[index]!r}")
            before = dict(bounds)
            dim = _dim(item, f"{names[index]}_{axis}", bounds)
            if dim is None:
                continue
            tables[index][axis] = dim
            for name in sorted(symbols_of(dim)):
                if name not in given or bounds[name] != before[name]:
                    said = f"{_written(item)} for axis {axis} of {names[index]!r}"
                    given[name] = (*given.get(name, ()), said)
            _need_room(bounds, given)
    return DynamicSpec(tuple(tables), bounds, given)


def _written(item: Any) -> str:
    """A dim of ``dynamic_dims`` as the user may have written it."""
    if isinstance(item, NamedDim):
        return str(item)
    name = getattr(item, "__name__", None)
    return repr(str(item) if name is None else name)


def _need_room(bounds: Bounds, given: Mapping[str, Sequence[str]]) -> None:
    """Raise ShapeConstraintError where the bounds of a name leave no size for it."""
    for name, (low, high) in bounds.items():
        if high is not None and low > high:
            raise ShapeConstraintError(
                f"the bounds given for {name!r} exclude one another: >= {low} and <= {high}",
                where=f"given as {' and '.join(given[name])}",
                hint="give the dimension one range, or two names to two dimensions",
            )


def _by_input(dynamic: Any, names: Sequence[str]) -> list[tuple[int, Any]]:
    if dynamic is None:
        return []
    if isinstance(dynamic, Mapping):
        for name in dynamic:
            if name not in names:
                raise InputError(
                    f"dynamic_dims names the input {name!r}, which the model does not have",
                    hint=f"its inputs are {', '.join(map(repr, names))}",
                )
        return [(names.index(name), entry) for name, entry in dynamic.items()]
    if not isinstance(dynamic, (list, tuple)):
        raise InputError(f"dynamic_dims is {shown(dynamic)}", hint=_FORMS)
    if all(_is_dim(item) for item in dynamic):
        return [(i, _Leading(tuple(dynamic))) for i in range(len(names))]
    if len(dynamic) != len(names):
        raise InputError(
            f"dynamic_dims has {counted(len(dynamic), 'entry', 'entries')} for "
            f"{counted(len(names), 'input')}",
            hint="give one entry an input, None for a static one",
        )
    return list(enumerate(dynamic))


@dataclass(frozen=True)
class _Leading:
    """Names of the first dims of any input; those beyond an input's rank don't apply to it."""

    items: tuple[Any, ...]


def _is_dim(item: Any) -> bool:
    return isinstance(item, (str, NamedDim, Expr)) or hasattr(item, "__name__")


def _by_axis(entry: Any, name: str, rank: int) -> list[tuple[int, Any]]:
    if entry is None:
        return []
    if isinstance(entry, _Leading):
        return list(enumerate(entry.items[:rank]))
    if isinstance(entry, Mapping):
        pairs = list(entry.items())
    elif isinstance(entry, (list, tuple)):
        pairs = list(enumerate(entry))
    else:
        raise InputError(f"dynamic_dims[{name!r}] is {shown(entry)}", hint=_FORMS)
    out = []
    for axis, item in pairs:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise InputError(
                f"dynamic_dims names axis {axis!r} of {name!r}, which has rank {rank}",
                hint=f"axes are 0 to {rank - 1}" if rank else "a scalar has no axes",
            )
        out.append((axis % rank, item))
    return out


def _check_size(item: Any, size: Any, axis: str) -> None:
    """Raise InputError for a number that isn't the example's size."""
    if type(item) is int and not (isinstance(size, int) and item == size):
        raise InputError(
            f"dynamic_dims has the number {item} for {axis}, which is {size} in the example",
            hint='give a name, such as "batch", for a size that varies; leave the axis out, or '
            "change the example, for one that doesn't",
        )


def _dim(item: Any, automatic: str, bounds: Bounds) -> Dim | None:
    """The dim of one entry, its name's bounds noted; None for a static one."""
    if item is None or item is False or type(item) is int:
        return None
    if isinstance(item, (NamedDim, str, Expr)):
        return _own(item, bounds)
    if item is True or type(item).__name__ == "_DimHint":
        if "STATIC" in str(item):
            return None
        low = getattr(item, "min", None)
        return _named(automatic, low or 0, getattr(item, "max", None), bounds)
    text = getattr(item, "__name__", None)
    if text is None:
        raise InputError(f"{item!r} is no dimension", hint="use a name or cuvil.Dim(...)")
    root = getattr(item, "root", item)
    high = getattr(root, "max", None)
    high = high if type(high) is int and high < 1 << 40 else None
    _named(root.__name__, _lower(root), high, bounds)
    return parse_dim(text)


def _lower(dim: Any) -> int:
    low = getattr(dim, "min", 0)
    return low if type(low) is int else 0


def _own(item: NamedDim | str | Expr, bounds: Bounds) -> Dim:
    if isinstance(item, NamedDim):
        return _named(item.name, item.min, item.max, bounds)
    dim = asked_dim(item) if isinstance(item, str) else item
    if isinstance(dim, int):
        raise InputError(
            f"dynamic_dims has {item!r}, which is a constant and no dynamic dimension",
            hint="give a name; leave a dim out that keeps the example's size",
        )
    for name in symbols_of(dim):
        bounds.setdefault(name, (0, None))
    return dim


def _named(name: str, low: int, high: int | None, bounds: Bounds) -> Dim:
    before = bounds.get(name, (0, None))
    low = max(low, before[0])
    ends = [h for h in (high, before[1]) if h is not None]
    bounds[name] = (low, min(ends) if ends else None)
    return symbol(name)
