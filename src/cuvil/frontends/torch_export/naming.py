"""Gives torch's symbols the user's names, and says where torch's view of a dim differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.program import FLAT
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable, shape_env
from cuvil.frontends.torch_export.traced import Traced
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, substitute, symbol, symbols_of
from cuvil.sym.solver import require_satisfiable

Bounds = dict[str, tuple[int, "int | None"]]
_ARTEFACT = 2  # torch's lowest size of a dynamic dim, whatever the program


class Naming:
    """The result: ``symbols`` translates, ``bounds`` and ``constraints`` hold for the inputs.

    ``aliases`` are names the user gave to dims that the model makes equal to other dims.
    """

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.env = shape_env(traced.program)
        example = getattr(self.env, "backed_var_to_val", {})
        self.symbols = TorchSymbols(traced.program.range_constraints, example)
        self.bounds: Bounds = dict(traced.spec.bounds)
        self.constraints: list[Constraint] = []
        self.aliases: dict[str, Dim] = {}
        self.equal: list[Constraint] = []  # what makes each alias the dim that it is
        self.shapes = input_shapes(traced)
        self._wanted = [
            (index, axis, dim)
            for index, axes in enumerate(traced.spec.axes)
            for axis, dim in axes.items()
        ]
        self._map_symbols()
        self._relate()
        self._name_the_rest()

    def input_dims(self, index: int) -> tuple[Dim, ...]:
        """The dims of an input in the user's names."""
        return self.symbols.shape(self.shapes[index])

    def resolve(self, constraint: Constraint) -> Constraint:
        """A user's constraint with aliases replaced. Raises ShapeConstraintError for a name that
        no dim has."""
        left, right = (substitute(d, self.aliases) for d in (constraint.left, constraint.right))
        for name in symbols_of(left) | symbols_of(right):
            if name not in self.bounds:
                raise ShapeConstraintError(
                    f"the constraint {constraint} speaks of {name!r}, which is no dynamic dim",
                    where=constraint.origin,
                    hint=f"the dynamic dims are {', '.join(sorted(self.bounds)) or 'none'}",
                )
        return Constraint(left, constraint.relation, right, constraint.origin)

    def _map_symbols(self) -> None:
        """Lone torch symbols take the user's dims: plain names first, then expressions."""
        for plain in (True, False):
            for index, axis, dim in self._wanted:
                if (str(dim) in self.bounds) == plain:
                    self.symbols.bind(self.shapes[index][axis], dim)

    def _relate(self) -> None:
        """Dims that torch found constant, equal or derived."""
        fixed = [w for w in self._wanted if isinstance(self.shapes[w[0]][w[1]], int)]
        if fixed:
            raise self._specialised(fixed)
        for index, axis, dim in self._wanted:
            size = self.shapes[index][axis]
            found = self._translated(size)
            wanted = substitute(dim, self.aliases)
            if found is None or found == wanted:
                continue
            line = self._guard_place(index, axis, sympy.Eq)
            place = f"axis {axis} of {self.traced.names[index]!r}{line and ', at '}{line}"
            reason = f"the model needs {dim} == {found} ({place})"
            used = set().union(*(symbols_of(d) for d in self.symbols.table.values()))
            if isinstance(wanted, Expr) and str(wanted) in self.bounds and str(wanted) not in used:
                self._alias(str(wanted), found, reason)
            else:
                self.constraints.append(Constraint(wanted, "==", found, reason))

    def _translated(self, size: Any) -> Dim | None:
        try:
            return self.symbols.dim(size)
        except Untranslatable:
            return None

    def _alias(self, name: str, dim: Dim, reason: str) -> None:
        self.aliases[name] = dim
        self.equal.append(Constraint(symbol(name), "==", dim, reason))
        self.traced.notes.append(reason)
        require_satisfiable(self.equal[-1:], self.bounds, origins=self.traced.spec.origins())
        low, high = self.bounds.pop(name)
        if isinstance(dim, Expr) and str(dim) in self.bounds:
            old_low, old_high = self.bounds[str(dim)]
            ends = [h for h in (high, old_high) if h is not None]
            self.bounds[str(dim)] = (max(low, old_low), min(ends) if ends else None)
            return
        if low:
            self.constraints.append(Constraint(dim, ">=", low, reason))
        if high is not None:
            self.constraints.append(Constraint(dim, "<=", high, reason))

    def origins(self) -> dict[str, str]:
        """Where each symbol comes from, in words; also why other names are no symbols."""
        found = {n: o for n, o in self.traced.spec.origins().items() if n in self.bounds}
        for rule in self.equal:
            for name in sorted(symbols_of(rule.right) & found.keys()):
                found[name] = "; ".join(filter(None, (found[name], rule.origin)))
        return found

    def _specialised(self, fixed: Sequence[tuple[int, int, Dim]]) -> ShapeConstraintError:
        """Why dims that the user wants dynamic are constants in the program."""
        lines, places = [], []
        for index, axis, dim in fixed:
            name, size = self.traced.names[index], self.shapes[index][axis]
            who = self.traced.spec.origin(str(dim))
            lines.append(
                f"dim {axis} of {name!r} was asked to be dynamic ({dim}), but the model fixes it "
                f"to {size}{who and f'; {dim} is '}{who}"
            )
            places.append(self._guard_place(index, axis))
        sizes = sorted({str(self.shapes[index][axis]) for index, axis, _ in fixed})
        return ShapeConstraintError(
            "\n".join(lines),
            where="; ".join(dict.fromkeys(filter(None, places))),
            hint="leave it out of dynamic_dims, or change the line that needs exactly "
            f"{' or '.join(sizes)} (a weight of that size, a view or a Python int made from the "
            "shape)",
        )

    def _guard_place(self, index: int, axis: int, kind: Any = object) -> str:
        """The place in the model of the first guard (of a kind) over the symbol of a size."""
        source = f"L['{FLAT}'][{index}].size()[{axis}]"
        for sym, sources in getattr(self.env, "var_to_sources", {}).items():
            texts = [s.name() if callable(s.name) else str(s.name) for s in sources]
            if source not in texts:
                continue
            for guard in self.env.guards:
                place = self.traced.places.get(str(guard.expr))
                if place and sym in guard.expr.free_symbols and isinstance(guard.expr, kind):
                    return place
        return ""

    def _name_the_rest(self) -> None:
        """Symbols nobody named (of a program exported elsewhere) are called after their input."""
        for index, shape in enumerate(self.shapes):
            for axis, size in enumerate(shape):
                name = f"{self.traced.names[index]}_{axis}"
                if not isinstance(size, int) and name not in self.bounds:
                    if self.symbols.bind(size, symbol(name)):
                        self.bounds[name] = (0, None)

    def ranges(self) -> list[Constraint]:
        """The program's own ranges. A lower end of 2 is torch's habit, not a need, where the
        user gave bounds; a program without any is taken at its word."""
        out: list[Constraint] = []
        for key, span in self.traced.program.range_constraints.items():
            name = str(self.symbols.table.get(str(key), ""))
            if not isinstance(key, sympy.Symbol) or name not in self.bounds:
                continue
            low = int(span.lower) if span.lower.is_Integer else 0
            named = self.traced.spec.bounds.get(name, (0, None))[0] > 0
            if low == _ARTEFACT and (named or self.traced.source is not None):
                low = 0
            origin = "torch.export's range of this dim"
            if low:
                out.append(Constraint(symbol(name), ">=", low, origin))
            if span.upper.is_Integer:
                out.append(Constraint(symbol(name), "<=", int(span.upper), origin))
        return out


def input_shapes(traced: Traced) -> list[Sequence[Any]]:
    """The sizes of the user's inputs as the program has them (int or SymInt)."""
    nodes = {n.name: n for n in traced.program.graph.nodes if n.op == "placeholder"}
    shapes: list[Sequence[Any]] = []
    for item in traced.program.graph_signature.input_specs:
        value = nodes[item.arg.name].meta.get("val") if item.kind.name == "USER_INPUT" else None
        if isinstance(value, torch.Tensor):
            shapes.append(tuple(_settled(size) for size in value.shape))
    return shapes


def _settled(size: Any) -> Any:
    """A SymInt that a later guard made constant, as that constant."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_Integer else size
