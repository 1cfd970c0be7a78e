"""Operands of ONNX operators for a given element type, special values among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.ir.types import DType

Array = np.ndarray[Any, Any]
Maker = Callable[[DType], "list[Array]"]

_SPECIAL = (0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 100, -100, 1e-3, np.inf,
            -np.inf, np.nan)  # fmt: skip


@dataclass(frozen=True)
class TypeCase:
    """One call; ``fixed`` are the operands that are constants of the model."""

    op: str
    make: Maker
    label: str = ""
    results: int = 1
    fixed: tuple[int, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.op}.{self.label}" if self.label else self.op


def specials(dtype: DType) -> Array:
    """Zeros, ties, infinities and NaN; or both ends of the integers."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.is_float:
        import ml_dtypes

        info = ml_dtypes.finfo(dtype.numpy)
        ends = (float(info.max), float(info.smallest_normal), float(info.smallest_subnormal))
        with np.errstate(all="ignore"):
            return np.array([*_SPECIAL, *ends]).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    near = [0, 1, 2, 3, 5, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
    return np.array([*near, *([-1, -2, -3, -5] if limits.min else [])], dtype.numpy)


def plain(dtype: DType, *shape: int, seed: int = 0) -> Array:
    """Normal floats, small integers (so that there are ties), bools."""
    rng = np.random.default_rng(seed + sum(shape))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "u" else -6, 9, shape).astype(dtype.numpy)


def _pairs(dtype: DType) -> list[Array]:
    a, b = np.meshgrid(specials(dtype), specials(dtype), indexing="ij")
    return [a.reshape(-1), b.reshape(-1)]


def _shifts(dtype: DType) -> list[Array]:
    amounts = np.array([0, 1, 2, dtype.bits - 1]).astype(dtype.numpy)
    a, b = np.meshgrid(specials(dtype), amounts, indexing="ij")
    return [a.reshape(-1), b.reshape(-1)]


def _rows(dtype: DType) -> Array:
    return np.tile(specials(dtype), 3).reshape(3, -1).T.copy()


def _i(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


_UNARY = """Abs Neg Sign Floor Ceil Round Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh
    Asinh Acosh Atanh Erf Reciprocal Relu Sigmoid Softplus Softsign Elu Selu LeakyRelu
    ThresholdedRelu HardSigmoid HardSwish Celu Mish Gelu Not BitwiseNot IsNaN IsInf Identity"""
_BINARY = """Add Sub Mul Div Mod Max Min And Or Xor BitwiseAnd BitwiseOr BitwiseXor Equal Less
    Greater LessOrEqual GreaterOrEqual PRelu"""
_REDUCTIONS = """ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceSumSquare"""


def cases() -> Iterator[TypeCase]:
    """Calls of the operators whose result does not depend on data in its size."""
    for op in _UNARY.split():
        yield TypeCase(op, lambda t: [specials(t)])
    for op in _BINARY.split():
        yield TypeCase(op, _pairs, attrs={"fmod": 0} if op == "Mod" else {})
    yield TypeCase("Mod", _pairs, "fmod", attrs={"fmod": 1})
    for side in ("LEFT", "RIGHT"):
        yield TypeCase("BitShift", _shifts, side, attrs={"direction": side})
    yield TypeCase("Shrink", lambda t: [specials(t)], attrs={"lambd": 1.5, "bias": 0.5})
    yield TypeCase("Clip", lambda t: [specials(t), specials(t)[0], specials(t)[2]])
    for op in ("Sum", "Mean"):
        yield TypeCase(op, lambda t: [plain(t, 3, 4, seed=s) for s in range(3)])
    for op in _REDUCTIONS.split():
        yield TypeCase(op, lambda t: [plain(t, 3, 40), _i(1)], fixed=(1,))
        yield TypeCase(op, lambda t: [_rows(t), _i(1)], "special", fixed=(1,))
    yield from _rowwise()
    yield from _moving()
    yield from _windows()


def _rowwise() -> Iterator[TypeCase]:
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            attrs = {"axis": 1, "select_last_index": last}
            yield TypeCase(op, lambda t: [plain(t, 3, 17)], f"last{last}", attrs=attrs)
    for op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        yield TypeCase(op, lambda t: [plain(t, 3, 11)], attrs={"axis": -1})
    yield TypeCase("CumSum", lambda t: [plain(t, 3, 11), _i(1)[0]], fixed=(1,))
    yield TypeCase("MatMul", lambda t: [plain(t, 3, 17), plain(t, 17, 5)])
    gemm: Maker = lambda t: [plain(t, 3, 17), plain(t, 17, 5), plain(t, 5)]  # noqa: E731
    yield TypeCase("Gemm", gemm)
    yield TypeCase("Gemm", gemm, "scaled", attrs={"alpha": 0.5, "beta": 2.0})
    yield TypeCase("Einsum", lambda t: [plain(t, 3, 7), plain(t, 7, 5)],
                   attrs={"equation": "ij,jk->ik"})  # fmt: skip
    yield TypeCase("TopK", lambda t: [plain(t, 3, 17), _i(5)], results=2, fixed=(1,))
    layer: Maker = lambda t: [plain(t, 3, 19), plain(t, 19), plain(t, 19)]  # noqa: E731
    yield TypeCase("LayerNormalization", layer)
    yield TypeCase("RMSNormalization", lambda t: layer(t)[:2])
    yield TypeCase("Attention", lambda t: [plain(t, 1, 2, 5, 8, seed=s) for s in range(3)])
    images: Maker = lambda t: [plain(t, 2, 3, 5, 5), plain(t, 3), plain(t, 3)]  # noqa: E731
    yield TypeCase("InstanceNormalization", images)
    yield TypeCase("BatchNormalization", lambda t: [*images(t), plain(t, 3), abs(plain(t, 3))])


def _moving() -> Iterator[TypeCase]:
    yield TypeCase("Gather", lambda t: [plain(t, 5, 4), _i(0, -1, 2)])
    rows = np.array([[0, -1, 2, 3], [0, 1, 2, -3]])
    at = _i(0, 2, 0)[:, None]
    yield TypeCase("GatherElements", lambda t: [plain(t, 5, 4), rows])
    for how in ("none", "add", "mul", "max", "min"):
        attrs = {"reduction": how}
        updates: Maker = lambda t: [plain(t, 5, 4), rows, plain(t, 2, 4)]  # noqa: E731
        yield TypeCase("ScatterElements", updates, how, attrs=attrs)
        places: Maker = lambda t: [plain(t, 5, 4), at, plain(t, 3, 4)]  # noqa: E731
        yield TypeCase("ScatterND", places, how, attrs=attrs)
    yield TypeCase("Tile", lambda t: [plain(t, 2, 3), _i(2, 2)], fixed=(1,))
    yield TypeCase("Expand", lambda t: [plain(t, 1, 3), _i(2, 4, 3)], fixed=(1,))
    yield TypeCase("Trilu", lambda t: [plain(t, 4, 5)])
    pad: Maker = lambda t: [plain(t, 3, 4), _i(1, 0, 2, 3), specials(t)[1]]  # noqa: E731
    yield TypeCase("Pad", pad, fixed=(1, 2))
    yield TypeCase("Concat", lambda t: [plain(t, 2, 3), plain(t, 1, 3)], attrs={"axis": 0})
    yield TypeCase("Transpose", lambda t: [plain(t, 2, 3, 4)])
    yield TypeCase("Range", lambda t: [np.array(n, t.numpy) for n in (2, 23, 3)], fixed=(0, 1, 2))


def _windows() -> Iterator[TypeCase]:
    image: Maker = lambda t: [plain(t, 1, 2, 7, 7)]  # noqa: E731
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield TypeCase("MaxPool", image, attrs={**pads, "strides": [2, 2]})
    yield TypeCase("AveragePool", image, attrs={**pads, "count_include_pad": 1})
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield TypeCase(op, image)
    conv: Maker = lambda t: [plain(t, 1, 4, 9, 9), plain(t, 6, 4, 3, 3), plain(t, 6)]  # noqa: E731
    yield TypeCase("Conv", conv, attrs={"pads": [1, 1, 1, 1]})
    turned: Maker = lambda t: [plain(t, 1, 4, 5, 5), plain(t, 4, 3, 3, 3)]  # noqa: E731
    yield TypeCase("ConvTranspose", turned, attrs={"strides": [2, 2]})
    for op, gates, results in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)):
        def layer(t: DType, gates: int = gates) -> list[Array]:
            return [plain(t, 4, 2, 3), plain(t, 1, 5 * gates, 3), plain(t, 1, 5 * gates, 5)]

        yield TypeCase(op, layer, results=results, attrs={"hidden_size": 5})
