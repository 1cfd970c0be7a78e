"""How large a kernel may grow: ops in one, and index arithmetic in a row.

A model may have thousands of operators one after the other. A kernel of them all would be text
that nobody reads, and the compiler's time grows faster than such a text; so fusion stops at a
size, and a long row of movements is stored on its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.ir.core import Block, Op, Value
from cuvil.ops.registry import registry
from cuvil.passes.stages import DECOMPOSED
from cuvil.rewrite.rewriter import Rewriter

LARGEST = 128  # ops in one kernel
MOST_REDUCTIONS = 16  # in one kernel: each is a pass over what comes before it
DEEPEST = 32  # ops that a kernel reads through, one after the other
MOST_READS = 16  # places where the text of an element reads what is stored, and that text twice
FULL = f"a kernel holds no more than {LARGEST} operators, {MOST_REDUCTIONS} of them reductions"

# Maps this cheap are recomputed by each reader rather than stored, when only movements read them.
CHEAP = ("neg", "cast", "not", "abs", "add", "sub", "mul", "eq", "lt", "le", "gt", "ge", "and")
_MOVES = ("concat", "slice", "transpose", "pad")


def fusion_class(op: Op) -> str:
    """The op's fusion class; composites, and what is no operator of the table, stand alone."""
    definition = None if op.short in DECOMPOSED else registry().get(op.name)
    return definition.fusion if definition is not None else "control"


def is_full(ops: Sequence[Op], more: Sequence[Op]) -> bool:
    """Whether a kernel of ``ops`` has no room for ``more``."""
    if len(ops) + len(more) > LARGEST:
        return True
    reductions = sum(fusion_class(op) == "reduce" for op in more)
    if not reductions:
        return False
    return reductions + sum(fusion_class(op) == "reduce" for op in ops) > MOST_REDUCTIONS


def moved_only(op: Op) -> bool:
    """Whether a movement is all that reads the result of ``op``, and it once."""
    return len(op.result.uses) == 1 and op.result.users[0].short in _MOVES


def cut_deep_reads(rewriter: Rewriter, block: Block) -> None:
    """Put a ``materialize`` where more than DEEPEST ops would be read through in a row, or where a
    text that reads MOST_READS places would stand twice: parts of one tensor that are written one
    after the other double it each time."""
    depths: dict[int, int] = {}  # by id(op); of what may be read through
    reads: dict[int, int] = {}  # as well
    from_index: dict[int, bool] = {}
    stored: dict[int, Value] = {}  # by id(value)

    def of(counts: dict[int, int], value: Value, least: int) -> int:
        return least if value.op is None else counts.get(id(value.op), least)

    for op in block.ops:
        kind = fusion_class(op)
        from_index[id(op)] = kind == "source" or op.short == "constant" or (
            kind in ("map", "movement")
            and all(v.op is not None and from_index.get(id(v.op), False) for v in op.operands)
        )  # fmt: skip
        through = kind in ("source", "movement") or (
            kind == "map"
            and (from_index[id(op)] or (op.short in CHEAP and moved_only(op)))
        )
        if not through or op.short == "materialize":
            continue
        for index, value in enumerate(op.operands):
            twice = len(value.uses) > 1 and of(reads, value, 1) >= MOST_READS
            deep = of(depths, value, 0) >= DEEPEST
            if (deep or twice) and rewriter.begin("cut-deep-reads", op, required=True):
                if id(value) not in stored:
                    stored[id(value)] = rewriter.value("materialize", [value])
                rewriter.set_operand(op, index, stored[id(value)])
        depths[id(op)] = 1 + max((of(depths, v, 0) for v in op.operands), default=0)
        reads[id(op)] = max(1, sum(of(reads, v, 1) for v in op.operands))
