"""A rewrite rule: guards that refuse with a reason, and an action.

A rule is a function of an op and a :class:`Context`. It reads the graph and either returns a
:class:`Refusal`, a sentence saying why it does not apply, or an action. The action, called by the
driver with the Rewriter, builds new ops in front of the op and gives a replacement for each of its
results. A rule never changes the graph while it is deciding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from cuvil.ir.core import Op, Value
from cuvil.sym.facts import Facts

if TYPE_CHECKING:
    from cuvil.rewrite.rewriter import Rewriter


@dataclass(frozen=True)
class Refusal:
    """Why a rule did not fire, as a sentence."""

    reason: str


Action = Callable[["Rewriter"], Sequence[Value]]
Outcome = Union[Refusal, Action]


@dataclass(frozen=True)
class Context:
    """What a rule may know besides the op: bounds of symbols, and the pass's options.

    ``memo`` is for what rules found out about the graph; the driver empties it at each change.
    """

    facts: Facts
    options: object = None
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """``name`` labels each change; ``roots`` are the op names (without dialect) it starts at.

    A ``required`` rule takes apart what has no kernel, and fires without fuel.
    """

    name: str
    roots: tuple[str, ...]
    apply: Callable[[Op, Context], Outcome]
    required: bool = False

    @property
    def doc(self) -> str:
        """The arrow line."""
        return (self.apply.__doc__ or "").strip()


def rule(name: str, *roots: str) -> Callable[[Callable[[Op, Context], Outcome]], Rule]:
    """Decorator: ``@rule("merge-transposes", "transpose")``."""

    def wrap(function: Callable[[Op, Context], Outcome]) -> Rule:
        return Rule(name, roots, function)

    return wrap
