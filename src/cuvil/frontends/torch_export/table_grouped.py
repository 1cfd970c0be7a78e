"""Products of groups of rows with a matrix each, as mixtures of experts have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import I64


def _grouped(c: Call, x: Value, weights: Value, ends: Value) -> Value:
    """Row s of the result is row s of x times the matrix of the group it is in; 0 behind the last.

    ``x`` [S, K], ``weights`` [G, K, N], ``ends`` [G]: group g has rows ends[g - 1] to ends[g]. All
    groups' products are made and one is picked: G times the work of a product, at any sizes.
    """
    e = c.e
    rows, inner = x.type.shape
    groups, _, columns = weights.type.shape
    product = e.op("matmul", e.broadcast(x, (groups, rows, inner)), weights)
    position = e.op("iota", shape=(groups, rows), axis=1, dtype=I64)
    passed = e.map("le", e.unsqueeze(e.cast(ends, I64), 1), position)
    group = e.op("reduce_sum", e.cast(passed, I64), axes=(0,), keepdims=True)
    number = e.op("iota", shape=(groups, rows), axis=0, dtype=I64)
    mine = e.unsqueeze(e.map("eq", group, number), 2)
    shape = (groups, rows, columns)
    zero = e.scalar(0, x.type.dtype)
    picked = e.map("select", e.broadcast(mine, shape), product, e.broadcast(zero, shape))
    return e.op("reduce_sum", picked, axes=(0,), keepdims=False)


def _fallback(c: Call) -> Value:
    return _grouped(c, c.tensor("input"), c.tensor("weight"), c.tensor("offs"))


def _grouped_mm(c: Call) -> Value:
    x, weights, ends = c.tensor("self"), c.tensor("mat2"), c.tensor_or_none("offs")
    if x.type.rank != 2 or weights.type.rank != 3 or ends is None:
        raise Refused("only rows in groups times one matrix a group are compiled")
    if c.tensor_or_none("bias") is not None:
        raise Refused("a bias is not compiled")
    return _grouped(c, x, weights, ends)


RULES: Mapping[str, Rule] = MappingProxyType(
    {"transformers::grouped_mm_fallback": _fallback, "_grouped_mm": _grouped_mm}
)
