"""Operators that are several steps here: on 16-bit floats the steps are done in f32, rounded once.

Rounding after each step would lose digits, and numbers that only an intermediate sum or square
takes out of range. An operator that is one step accumulates in f32 by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.onnx.node import Handler, Item, Node, Result
from cuvil.ir.core import Value
from cuvil.ir.types import BF16, F16, F32, DType

STEPS = frozenset({
    "BatchNormalization", "Celu", "Col2Im", "DFT", "Einsum", "Elu", "Gemm", "GlobalLpPool",
    "GridSample", "GroupNormalization", "HardSigmoid", "HardSwish", "InstanceNormalization", "LRN",
    "LpNormalization", "LpPool", "Mean", "MeanVarianceNormalization", "Mish",
    "NegativeLogLikelihoodLoss", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceSumSquare", "RotaryEmbedding", "STFT", "Selu", "SoftmaxCrossEntropyLoss", "Softsign",
    "Sum", "Swish",
})  # fmt: skip
_SHORT = (F16, BF16)


def widened(name: str, handler: Handler) -> Handler:
    """The handler, or one that computes in f32 if it takes several steps."""
    if name not in STEPS:
        return handler

    def handle(n: Node) -> Result | None:
        first = n.inputs[0] if n.inputs else None
        if not isinstance(first, Value) or first.type.dtype not in _SHORT:
            return handler(n)
        result = handler(_in_f32(n))
        if isinstance(result, Sequence):
            return [_narrowed(n, item, first.type.dtype) for item in result]
        return _narrowed(n, result, first.type.dtype)

    return handle


def _in_f32(n: Node) -> Node:
    def wide(item: Item | None) -> Item | None:
        short = isinstance(item, Value) and item.type.dtype in _SHORT
        return n.e.cast(item, F32) if short else item  # type: ignore[arg-type]

    inputs = [wide(item) for item in n.inputs]
    return Node(
        n.op, n.domain, n.version, inputs, n.outputs, n.attrs, n.e, n.knowledge, n.folder
    )  # fmt: skip


def _narrowed(n: Node, item: Item | None, dtype: DType) -> Item | None:
    wide = isinstance(item, Value) and item.type.dtype == F32
    return n.e.cast(item, dtype) if wide else item  # type: ignore[arg-type]
