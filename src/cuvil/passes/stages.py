"""The stages of a module, and which ops may occur after each."""

from __future__ import annotations

from cuvil.errors import CuvilError
from cuvil.ir.control import CONTROL, REQUIRE, blocks
from cuvil.ir.core import Module, walk
from cuvil.ir.keeping import KEEP, KEPT
from cuvil.ops.registry import registry

STAGES = ("captured", "canonical", "fused")

# Composites that canonicalisation takes apart.
DECOMPOSED = (
    "softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm", "group_norm",
    "instance_norm", "lrn", "lp_norm",
)  # fmt: skip

# What is no operator: it holds regions, or ends one.
_STRUCTURE = ("cuvil.fused", "cuvil.yield", "func.return", REQUIRE, KEEP, KEPT, *CONTROL)


def check_stage(module: Module, composites: frozenset[str] = frozenset()) -> None:
    """Raise CuvilError when the module holds an op that its stage does not allow. ``composites``
    may stay, each by itself."""
    stage = module.stage
    for op in walk(module.main.body):
        if op.name not in registry() and op.name not in _STRUCTURE:
            raise CuvilError(f"unknown op {op.name} at stage {stage}", where=str(op.loc))
        if stage != "captured" and op.short in DECOMPOSED and op.short not in composites:
            raise CuvilError(f"{op.name} is left at stage {stage}", where=str(op.loc))
    if stage != "fused":
        return
    for block in blocks(module.main):
        for op in block.ops:
            known = op.name in registry() and op.short not in composites
            fusion = registry()[op.name].fusion if known else "control"
            if fusion in ("map", "reduce", "contraction"):
                raise CuvilError(f"{op.name} is outside every kernel", where=str(op.loc))
