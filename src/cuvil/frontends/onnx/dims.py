"""The symbols of a model's inputs: declared dims to expressions with names Cuvil can write."""

from __future__ import annotations

import keyword
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.ops.base import ShapeContext
from cuvil.sym.constraint import Constraint, given_as
from cuvil.sym.dim import Dim as NamedDim
from cuvil.sym.expr import Dim, Expr, substitute, symbol, symbols_of
from cuvil.sym.parse import asked_dim, parse_constraint, parse_dim
from cuvil.sym.solver import require_satisfiable

log = logging.getLogger("cuvil")

Given = int | str | NamedDim | None
_NAMELESS = re.compile(r"|\?|None|none|-?\d+|unk|unknown|dynamic")
_RESERVED = frozenset(("max", "min", "floordiv", "mod"))


class InputDims:
    """Gives each declared dim an int or an expression; remembers the original names.

    A dim without a name of its own ('', '?', -1) is a symbol of its own; 0 is a size.
    A size left free may be anything from 0 on; a named Dim sets its bounds.
    """

    def __init__(self, context: ShapeContext) -> None:
        self.context = context
        self.originals: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self._by_name: dict[str, str] = {}
        self._fixed: dict[str, int] = {}
        self._renamed: dict[str, Given] = {}
        self._named: set[str] = set()

    def learn(self, declared: Sequence[Any], given: Mapping[int, Given]) -> None:
        """First pass: note which names are dims of their own, and which the user sized or
        renamed: that holds for every dim of that name."""
        for axis, d in enumerate(declared):
            if not isinstance(d, str) or _NAMELESS.fullmatch(d):
                continue
            self._named.add(d)
            size = given.get(axis)
            if isinstance(size, (str, NamedDim)):
                self._renamed.setdefault(d, size)
            if isinstance(size, int) and size >= 0 and self._fixed.setdefault(d, size) != size:
                raise InvalidModelError(
                    f"dimension {d!r} is given two sizes: {self._fixed[d]} and {size}"
                )

    def shape(
        self, tensor: str, declared: Sequence[Any], given: Mapping[int, Given]
    ) -> tuple[Dim, ...]:
        """The dims of one input; ``declared`` has int, str or None entries."""
        asked = [d if given.get(axis) is None else given[axis] for axis, d in enumerate(declared)]
        if any(isinstance(d, int) and d >= 0 and str(a) != str(d) for a, d in zip(asked, declared)):
            words = "input %r is compiled as %s; the file fixes it at %s"
            log.warning(words, tensor, tuple(asked), tuple(declared))
        return tuple(self._dim(tensor, axis, d, given.get(axis)) for axis, d in enumerate(declared))

    def _dim(self, tensor: str, axis: int, declared: Any, given: Given) -> Dim:
        if given is None and isinstance(declared, str):
            given = self._renamed.get(declared)
        place = f"axis {axis} of {tensor!r}"
        if isinstance(given, NamedDim):
            return self._symbol(given.name, f"{given} for {place}", given)
        if isinstance(given, str) and (given.isdigit() or not _NAMELESS.fullmatch(given)):
            return self._asked(given, f"{given!r} for {place}")
        if isinstance(given, int) and given >= 0:
            return given
        if isinstance(declared, int) and declared >= 0 and given is None:
            return declared
        if isinstance(declared, str) and not _NAMELESS.fullmatch(declared):
            if declared in self._fixed:
                return self._fixed[declared]
            return self._expression(declared) or self._symbol(declared)
        name = self._fresh(f"{tensor}_d{axis}")
        self.originals[name] = declared if isinstance(declared, str) else str(declared or "")
        self.origins[name] = f"axis {axis} of {tensor!r}, which the model leaves open"
        return self._new(name, 0, None)

    def _asked(self, given: str, said: str) -> Dim:
        """What the user wrote: a name of the model's or of the user's own, or an expression.

        Raises InputError for anything else."""
        if given in self._named or given.isidentifier():
            return self._symbol(given, said)
        value = asked_dim(given)
        if isinstance(value, int):
            raise InputError(
                f"{said} is a constant and no dynamic dimension",
                hint="give a name, or a size as an int",
            )
        return substitute(value, {name: self._symbol(name, said) for name in symbols_of(value)})

    def _expression(self, text: str) -> Dim | None:
        """Exporters write derived dims as text ("2*seq"): read it if its names are dims too."""
        if text.isidentifier():
            return None
        try:
            value = parse_dim(text)
        except InvalidModelError:
            return None
        names = symbols_of(value)
        if not isinstance(value, Expr) or not names <= self._named or text in names:
            return None
        return value

    def _symbol(self, original: str, said: str = "", dim: NamedDim | None = None) -> Dim:
        """The symbol of a name; ``said`` is what the user gave, "" for a name of the model's."""
        low, high = (0, None) if dim is None else (dim.min, dim.max)
        name = self._by_name.get(original)
        if name is None:
            name = self._by_name[original] = self._fresh(original)
            self.originals[name] = original
            self.origins[name] = given_as(said) if said else f"the model's dim {original!r}"
            return self._new(name, low, high)
        old_low, old_high = self.context.symbols[name]
        if (low, high) != (0, None) and said not in self.origins[name]:
            self.origins[name] += f" and as {said}"
        ends = [end for end in (old_high, high) if end is not None]
        low, high = max(old_low, low), min(ends) if ends else None
        if high is not None and low > high:
            raise ShapeConstraintError(
                f"the bounds given for {name!r} exclude one another: >= {low} and <= {high}",
                where=self.origins[name],
                hint="give the dimension one range, or two names to two dimensions",
            )
        return self._new(name, low, high)

    def _new(self, name: str, low: int, high: int | None) -> Dim:
        self.context.symbols[name] = (low, high)
        return symbol(name)

    def _fresh(self, text: str) -> str:
        name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "d"
        if name[0].isdigit() or name in _RESERVED or keyword.iskeyword(name):
            name = f"d{name}"
        base, k = name, 1
        while name in self.context.symbols:
            k += 1
            name = f"{base}_{k}"
        return name

    def constraints(self, asked: Sequence[str | Constraint]) -> list[Constraint]:
        """The user's constraints; those that bound one symbol narrow its bounds as well."""
        found = []
        given = dict(self.context.symbols)
        for item in asked:
            constraint = parse_constraint(item) if isinstance(item, str) else item
            unknown = constraint.symbols() - set(self.context.symbols)
            if unknown:
                names = ", ".join(sorted(self.context.symbols)) or "none"
                raise ShapeConstraintError(
                    f"constraint {constraint}: no dimension is called {', '.join(sorted(unknown))}",
                    where=constraint.origin,
                    hint=f"the model's dimensions are: {names}",
                )
            found.append(constraint)
        if found:
            require_satisfiable(found, given, origins=self.origins)
        for constraint in found:
            self._narrow(constraint)
        return found

    def _narrow(self, constraint: Constraint) -> None:
        left, relation, right = constraint.left, constraint.relation, constraint.right
        names = symbols_of(left)
        if (
            len(names) != 1
            or left != symbol(name := next(iter(names)))
            or not isinstance(right, int)
        ):
            return
        low, high = self.context.symbols[name]
        if relation in (">", ">=", "=="):
            low = max(low, right + (relation == ">"))
        if relation in ("<", "<=", "=="):
            end = right - (relation == "<")
            high = end if high is None else min(high, end)
        self.context.symbols[name] = (low, high)
