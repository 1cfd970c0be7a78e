"""How large the memory is that a call works in, as expressions that a package holds."""

from __future__ import annotations

from dataclasses import dataclass

from cuvil.codegen.kernel import THREADS
from cuvil.passes.memory import ALIGNMENT, aligned
from cuvil.sym.expr import Dim, add, substitute, symbol, symbols_of


@dataclass(frozen=True)
class Workspace:
    """Bytes of all, and of the ``places`` of intermediates in it. ``threads`` is the name by which
    the number of threads goes in the expressions, which is no symbol's."""

    bytes: Dim
    places: Dim
    threads: str = "threads"

    def described(self) -> dict[str, str]:
        """As it stands in a manifest."""
        return {"bytes": str(self.bytes), "places": str(self.places), "threads": self.threads}


def workspace_of(places: Dim, scratch: Dim) -> Workspace:
    """The places, what kernels take for themselves, and room to align it."""
    whole = add(add(places, aligned(scratch)), ALIGNMENT)
    threads = "threads"
    while threads in symbols_of(whole):
        threads += "_"
    return Workspace(substitute(whole, {THREADS: symbol(threads)}), places, threads)
