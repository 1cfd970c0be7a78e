"""Values put aside: what goes from trip to trip of a loop and has another size each time.

A carried value has one type for all trips. One whose size changes is put aside instead, and what is
carried is its *token* and its sizes. A place of a call has two sides, so that a trip may read one
while it fills the other.

- ``cuvil.keep(x, side) {place}``: keeps ``x`` until the same side of the place is filled again. Its
  result is the token, which is the side (0 or 1).
- ``cuvil.kept(token) {place}``: the value that was kept; its sizes are known by then.

Each place belongs to one loop: filled before it and once in each trip, in turns, and read in the
trips and once after it. So a token that can be reached always stands for the value it was made of,
whatever order its readers run in.
"""

from __future__ import annotations

from cuvil.ir.core import Function, Op
from cuvil.ir.types import I64, TensorType

KEEP, KEPT = "cuvil.keep", "cuvil.kept"
TOKEN = TensorType((), I64)
PLACE = "place"


def is_keeping(op: Op) -> bool:
    """Whether the op puts a value aside or brings it back."""
    return op.name in (KEEP, KEPT)


def keeping_fault(op: Op) -> str | None:
    """What is wrong with a ``cuvil.keep`` or ``cuvil.kept``, or None."""
    if not isinstance(op.attrs.get(PLACE), int) or len(op.results) != 1:
        return "needs the number of a place and one result"
    types = [v.type for v in op.operands]
    if op.name == KEPT:
        return None if types == [TOKEN] else "needs a token"
    if len(types) != 2 or types[1] != TOKEN or op.results[0].type != TOKEN:
        return "needs a value and a side, and gives a token"
    return None


def places_kept(function: Function) -> int:
    """How many places a call needs: one more than the highest number."""
    return max((op.attrs[PLACE] + 1 for op in function.walk() if is_keeping(op)), default=0)
