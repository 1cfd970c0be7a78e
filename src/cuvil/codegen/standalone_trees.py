"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.codegen.contraction_kernel import THREADS
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_JOINS: Mapping[str, str] = {"sum": "TreeSum", "min": "TreeLeast", "max": "TreeGreatest"}
_WALKS = 8  # kWalks of native/trees.hpp
_BLOCK = 64  # kTreeBlock


def tree_ensemble(op: Op, facts: Facts, target: Target) -> Kernel:
    """tree_ensemble (native/trees.hpp)"""
    call = NativeCall(op, facts)
    x, targets = op.operands[0].type, op.attrs["targets"]
    element = x.dtype.cxx
    node = "cuvil::NarrowTree" if op.attrs["bits"] else f"cuvil::WideTree<{element}>"
    trees = op.operands[2].type.shape[0]
    call.line(f"cuvil::TreeArgs<{node}> args = {{}};")
    for name, value in (
        ("rows", x.shape[0]), ("features", x.shape[1]), ("trees", trees), ("targets", targets),
        ("bits", op.attrs["bits"]),
    ):  # fmt: skip
        call.set(name, value)
    call.set("x", call.input(0))
    call.set("nodes", f"(const {node} *)({call.input(1)})")
    call.set("roots", call.input(2))
    call.set("out", call.outputs[0])
    call.set("scratch", call.scratch(_scratch(x.shape, trees, targets, x.dtype.size)))
    call.set("pool", "rc.pool")
    join = f"cuvil::{_JOINS[op.attrs['aggregate']]}"
    leaves = [call.input(i) for i in range(3, len(op.operands))]
    kind = {"one": "LeafOne", "dense": "LeafDense", "sparse": "LeafSparse"}[op.attrs["leaves"]]
    if op.attrs["leaves"] == "dense":
        leaves.append(call.text(targets))
    made = f"cuvil::{kind}<{join}, {element}>{{{', '.join(leaves)}}}"
    missing = flag(op.attrs.get("missing"))
    return call.finish("trees.hpp", f"cuvil::tree_ensemble<{join}, {missing}>(args, {made});")


def _scratch(shape: tuple[Dim, ...], trees: Dim, targets: int, size: int) -> Dim:
    """Enough for both ways that native/trees.hpp may take."""
    features = shape[1]
    assert isinstance(features, int)
    tile = (features + 1) * _WALKS * size
    tiles = mul(symbol(THREADS), min(max((1 << 17) // tile, 2), 64) * tile)
    blocks = mul(floordiv(add(trees, _BLOCK - 1), _BLOCK), targets * size)
    return maximum(tiles, add(blocks, (features + 1) * size))
