"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.ir.types import Shape
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_JOINS: Mapping[str, str] = {"sum": "TreeSum", "min": "TreeLeast", "max": "TreeGreatest"}
_WALKS = 8  # kWalks of native/trees.hpp
_BLOCK = 64  # kTreeBlock
_CACHED = 1 << 17


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
        ("tiles", _tiles(x.shape, targets, x.dtype.size)), ("bits", op.attrs["bits"]),
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


def _tile_bytes(shape: Shape, targets: int, size: int) -> int:
    """A tile of eight rows, and their sums in f64."""
    features = shape[1]
    assert isinstance(features, int)
    return _WALKS * ((features + 1) * size + targets * 8)


def _tiles(shape: Shape, targets: int, size: int) -> int:
    """Tiles at once: enough rows for each tree that is brought in, no more than a cache holds."""
    return min(max(_CACHED // _tile_bytes(shape, targets, size), 2), 64)


def _scratch(shape: Shape, trees: Dim, targets: int, size: int) -> Dim:
    """Enough for both ways that native/trees.hpp may take."""
    tiles = _tiles(shape, targets, size) * _tile_bytes(shape, targets, size)
    blocks = mul(floordiv(add(trees, _BLOCK - 1), _BLOCK), targets * 8)
    return maximum(mul(symbol(THREADS), tiles), add(blocks, mul(add(shape[1], 1), size)))
