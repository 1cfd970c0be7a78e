"""Questions about sets of constraints: satisfiable? implied? which ones contradict each other?

The linear path answers the ordinary case at once; what it leaves open goes to z3, if that is
installed, for at most a given time. An answer of None means that nobody knows, never a guess.
Divisors are taken to be positive, as everywhere in ``sym``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InputError, ShapeConstraintError
from cuvil.sym.constraint import Constraint, in_words
from cuvil.sym.expr import Atom, Dim, Expr, symbol
from cuvil.sym.linear import SymbolBounds, decide, narrow

MILLISECONDS = 200
_NEGATED: Mapping[str, str] = {
    "==": "!=", "!=": "==", "<=": ">", ">": "<=", ">=": "<", "<": ">=",
}  # fmt: skip


def satisfiable(
    constraints: Sequence[Constraint],
    symbols: SymbolBounds,
    milliseconds: int = MILLISECONDS,
) -> bool | None:
    """Whether some sizes within the inclusive bounds satisfy all constraints; None: unknown."""
    answer = decide(constraints, symbols)
    if answer is not None:
        return answer
    core = _z3_core([*bound_constraints(symbols), *constraints], milliseconds)
    return None if core is None else not core.unsatisfiable


def implied(
    constraint: Constraint,
    constraints: Sequence[Constraint],
    symbols: SymbolBounds,
    milliseconds: int = MILLISECONDS,
) -> bool | None:
    """Whether the constraint holds wherever all the others do; None: unknown."""
    known = constraint.known()
    if known is not None:
        return known
    opposite = Constraint(constraint.left, _NEGATED[constraint.relation], constraint.right)
    counterexample = satisfiable([*constraints, opposite], symbols, milliseconds)
    return None if counterexample is None else not counterexample


def bounds(
    value: Dim, constraints: Sequence[Constraint], symbols: SymbolBounds
) -> tuple[int, int | None]:
    """Inclusive bounds of an expression as far as the linear path finds them.

    Raises ShapeConstraintError if the constraints contradict each other.
    """
    fresh = "value"
    while fresh in symbols:
        fresh += "_"
    named = Constraint(symbol(fresh), "==", value)
    domains = narrow([*constraints, named], {**symbols, fresh: (-(1 << 62), None)})
    if domains is None:
        require_satisfiable(constraints, symbols)
        return 0, None
    return domains[fresh]


def conflict(
    constraints: Sequence[Constraint],
    symbols: SymbolBounds,
    milliseconds: int = MILLISECONDS,
    origins: Mapping[str, str] | None = None,
) -> list[Constraint]:
    """A set of constraints, bounds among them, that contradict each other and of which none can
    be left out; empty if there is no contradiction or none was found in time."""
    items = [*constraints, *bound_constraints(symbols, origins)]
    quick = decide(constraints, symbols)
    if quick is not None:
        return [] if quick else _minimal(items, None)
    core = _z3_core(items, milliseconds)
    if core is None or not core.unsatisfiable:
        return []
    return _minimal(core.constraints, milliseconds)


def require_satisfiable(
    constraints: Sequence[Constraint],
    symbols: SymbolBounds,
    milliseconds: int = MILLISECONDS,
    origins: Mapping[str, str] | None = None,
) -> None:
    """Raise ShapeConstraintError with the smallest contradiction and who asked for each part;
    ``origins`` tells where the bounds of a symbol come from. Raises InputError where the user's
    constraints divide by what may be 0."""
    _require_divisors(constraints, symbols, milliseconds)
    found = conflict(constraints, symbols, milliseconds, origins)
    if not found:
        return
    lines = [f"  - {c}" + (f" ({in_words(c.origin)})" if c.origin else "") for c in found]
    raise ShapeConstraintError(
        "no sizes satisfy these constraints together:\n" + "\n".join(lines),
        hint="drop or change one of them",
    )


def _require_divisors(
    constraints: Sequence[Constraint], symbols: SymbolBounds, milliseconds: int
) -> None:
    """Raise InputError for a constraint of the user that divides by what may be 0 or less."""
    for constraint in constraints:
        if not constraint.asked:
            continue
        others = [c for c in constraints if c is not constraint]
        for divisor in (*_divisors(constraint.left), *_divisors(constraint.right)):
            least = Constraint(divisor, "<=", 0)
            if satisfiable([*others, least], symbols, milliseconds):
                raise InputError(
                    f"the constraint {constraint} divides by {divisor}, which may be 0",
                    where=constraint.origin,
                    hint=f"give bounds, or a constraint of its own, so that {divisor} > 0",
                )


def _divisors(value: Dim) -> list[Expr]:
    """What an expression divides by, numbers left out."""
    found: list[Expr] = []
    atoms = [] if isinstance(value, int) else [a for term, _ in value.terms for a, _ in term]
    for atom in atoms:
        for arg in atom.args:
            found += _divisors(arg)
        if atom.kind in ("floordiv", "mod") and isinstance(atom.args[1], Expr):
            found.append(atom.args[1])
    return found


def bound_constraints(
    symbols: SymbolBounds, origins: Mapping[str, str] | None = None
) -> list[Constraint]:
    """The bounds of symbols as constraints of their own."""
    found = []
    for name, (low, high) in symbols.items():
        origin = (origins or {}).get(name) or f"the bounds of {name}"
        found.append(Constraint(symbol(name), ">=", low, origin))
        if high is not None:
            found.append(Constraint(symbol(name), "<=", high, origin))
    return found


def _minimal(items: Sequence[Constraint], milliseconds: int | None) -> list[Constraint]:
    """Leave out what is not needed, one by one; ``milliseconds`` None: the linear path alone."""
    kept = list(items)
    for item in list(reversed(items)):
        rest = [c for c in kept if c is not item]
        broken = decide(rest, {}) is False
        if not broken and milliseconds is not None:
            core = _z3_core(rest, milliseconds)
            broken = core is not None and core.unsatisfiable
        if broken:
            kept = rest
    return kept


class _Core:
    """What z3 found: whether there is a contradiction, and among which constraints."""

    def __init__(self, unsatisfiable: bool, constraints: Sequence[Constraint] = ()) -> None:
        self.unsatisfiable = unsatisfiable
        self.constraints = list(constraints)


def _z3_core(constraints: Sequence[Constraint], milliseconds: int) -> _Core | None:
    """z3's answer; None if it is not installed or finds none in time."""
    try:
        import z3
    except ImportError:
        return None
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("timeout", milliseconds)
    encoder = _Encoder(z3, context)
    for i, constraint in enumerate(constraints):
        solver.assert_and_track(encoder.constraint(constraint), z3.Bool(f"c{i}", context))
    solver.add(*encoder.side)
    answer = solver.check()
    if answer == z3.sat:
        return _Core(False)
    if answer == z3.unsat:
        indices = sorted(int(str(b)[1:]) for b in solver.unsat_core())
        return _Core(True, [constraints[i] for i in indices])
    return None


class _Encoder:
    """Expressions in z3's terms; ``side`` collects what must hold besides: dimensions are not
    negative, divisors are positive. (For these, z3's div and mod are floor division and its
    remainder.)"""

    def __init__(self, z3: Any, context: Any) -> None:
        self.z3 = z3
        self.context = context
        self.side: list[Any] = []
        self.symbols: dict[str, Any] = {}

    def constraint(self, constraint: Constraint) -> Any:
        a, b = self.dim(constraint.left), self.dim(constraint.right)
        return {
            "==": a == b, "!=": a != b, "<=": a <= b, "<": a < b, ">=": a >= b, ">": a > b,
        }[constraint.relation]  # fmt: skip

    def dim(self, value: Dim) -> Any:
        if not isinstance(value, Expr):
            return self.z3.IntVal(value, self.context)
        total = self.z3.IntVal(0, self.context)
        for monomial, coefficient in value.terms:
            term = self.z3.IntVal(coefficient, self.context)
            for atom, power in monomial:
                factor = self.atom(atom)
                for _ in range(power):
                    term = term * factor
            total = total + term
        return total

    def atom(self, atom: Atom) -> Any:
        if atom.kind == "symbol":
            if atom.name not in self.symbols:
                self.symbols[atom.name] = self.z3.Int(atom.name, self.context)
                self.side.append(self.symbols[atom.name] >= 0)
            return self.symbols[atom.name]
        a, b = (self.dim(arg) for arg in atom.args)
        if atom.kind in ("floordiv", "mod"):
            self.side.append(b > 0)
            return a / b if atom.kind == "floordiv" else a % b
        return self.z3.If(a >= b if atom.kind == "max" else a <= b, a, b)
