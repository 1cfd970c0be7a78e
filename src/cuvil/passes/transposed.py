"""Transposed convolutions of few channels as one product.

Where windows don't overlap, each input pixel makes a block of the output: a product with all taps
of all channels as its columns, whose blocks are then moved beside each other. The kernel for
transposed convolutions makes a product for each tap instead, which fills few lanes of a vector
where the channels are few.
"""

from __future__ import annotations

import numpy as np

from cuvil.ir.core import Op, Value, Weight
from cuvil.passes.matching import constant_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import mul


def rules(columns: int) -> list[Rule]:
    """The rule, for products of ``columns`` at most: what a panel of the target takes, as above
    that the lanes are full either way."""

    @rule("transposed-conv-as-product", "conv_transpose")
    def transposed_as_product(op: Op, context: Context) -> Outcome:
        """conv_transpose(x, w) {strides = kernel} -> depth_to_space(matmul(x, w)), few channels"""
        return _as_product(op, columns)

    return [transposed_as_product]


def _as_product(op: Op, columns: int) -> Outcome:
    weight = constant_of(op.operands[1])
    if weight is None or len(op.operands) > 2:
        return Refusal("its weights are not constant, or it has a bias")
    attrs, kernel = op.attrs, weight.shape[2:]
    if not attrs.get("channels_last") or attrs["groups"] != 1:
        return Refusal("its channels are not last, or in groups")
    if kernel != tuple(attrs["strides"]) or {*attrs["dilations"]} != {1}:
        return Refusal("its windows overlap or leave gaps")
    if any(any(attrs[name]) for name in ("pads_lo", "pads_hi", "output_padding")):
        return Refusal("its output is cut or grown")
    outputs = weight.shape[1]
    if int(np.prod(kernel)) * outputs > columns:
        return Refusal("its channels fill the lanes of a vector")

    def action(rw: Rewriter) -> list[Value]:
        matrix = np.moveaxis(weight, 1, -1).reshape(weight.shape[0], -1)
        source = op.operands[1].op
        assert source is not None
        name = source.attrs["value"].name
        w = rw.value("constant", value=Weight(np.ascontiguousarray(matrix), name))
        return [_blocks(rw, rw.value("matmul", [op.operands[0], w]), kernel, outputs)]

    return action


def _blocks(rw: Rewriter, product: Value, kernel: tuple[int, ...], outputs: int) -> Value:
    """[n, *sizes, *kernel * outputs] to [n, *(size * tap), outputs]."""
    n, *sizes = product.type.shape[:-1]
    apart = rw.value("reshape", [product], shape=(n, *sizes, *kernel, outputs))
    axes = len(kernel)
    places = [place for i in range(axes) for place in (1 + i, 1 + axes + i)]
    beside = rw.value("transpose", [apart], perm=(0, *places, 1 + 2 * axes))
    whole = [mul(size, tap) for size, tap in zip(sizes, kernel, strict=True)]
    return rw.value("reshape", [beside], shape=(n, *whole, outputs))
