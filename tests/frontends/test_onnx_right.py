"""Semantics that runtimes get wrong, compiled as a user's model is, against values of the
specification written out by hand. All models share one library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.onnx_cases import merged
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
_SHAPED = ("CumSum", "Pad", "ReduceMax", "ReduceSum", "TopK")
NAN, INF = float("nan"), float("inf")
BIG = 2**31 + 7
LEAST = -(2**63)
_CODES = {
    "float32": FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "int64": INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8, "bool": TensorProto.BOOL,
}  # fmt: skip


@dataclass(frozen=True)
class Right:
    """Nodes from inputs to ``y``, constants beside them, and what y must be."""

    name: str
    nodes: list[Any]
    inputs: dict[str, Array]
    want: Array
    constants: dict[str, Array] | None = None
    opset: int = 18

    def module(self) -> Module:
        kinds = {k: (_CODES[v.dtype.name], v.shape) for k, v in self.inputs.items()}
        return capture_onnx(model(self.nodes, kinds, ["y"], self.constants, self.opset))


def f32(*values: Any) -> Array:
    return np.array(values, np.float32)


def i64(*values: Any) -> Array:
    return np.array(values, np.int64)


def _one(name: str, op: str, want: Array, *inputs: Array, opset: int = 18, **attrs: Any) -> Right:
    """A single operator on inputs; those that say where are constants."""
    names = [f"x{i}" for i in range(len(inputs))]
    given = dict(zip(names, inputs, strict=True))
    constants = {k: given.pop(k) for k in names[1:] if op in _SHAPED}
    return Right(name, [node(op, names, ["y"], **attrs)], given, want, constants, opset)


def _not_a_number() -> Iterator[Right]:
    x, y = f32(NAN, 1, 2, NAN), f32(1, NAN, 3, NAN)
    yield _one("max takes NaN from either side", "Max", f32(NAN, NAN, 3, NAN), x, y)
    yield _one("min takes NaN from either side", "Min", f32(NAN, NAN, 2, NAN), x, y)
    yield _one("max of three", "Max", f32(NAN, NAN, 9, NAN), x, y, f32(0, 0, 9, 0))
    yield _one("relu keeps NaN", "Relu", f32(0, NAN, 0, 2), f32(-1, NAN, -INF, 2))
    yield _one("clip keeps NaN", "Clip", f32(NAN, 0, 1), f32(NAN, -5, 5), f32(0)[0], f32(1)[0])
    for length in (3, 67):
        for place in (0, 1, length - 1):
            row = np.arange(length, dtype=np.float32)
            row[place] = NAN
            for op in ("ReduceMax", "ReduceMin"):
                name = f"{op} of {length}, NaN at {place}"
                yield _one(name, op, f32(NAN), row, keepdims=1, opset=13)
            yield _one(f"ArgMax of {length}, NaN at {place}", "ArgMax", i64(place), row, axis=0)
    window = f32(0, 0, NAN, 0, 0, 0).reshape(1, 1, 6)
    want = f32(NAN, NAN, NAN, 0).reshape(1, 1, 4)
    yield _one("max pool keeps NaN", "MaxPool", want, window, kernel_shape=[3])
    yield _one("leaky relu keeps NaN", "LeakyRelu", f32(NAN, -0.5), f32(NAN, -1), alpha=0.5)
    yield _one("sign of NaN", "Sign", f32(NAN, -1, 0), f32(NAN, -2, 0))
    yield _one("top of a row with NaN", "TopK", f32(NAN, 3), f32(1, NAN, 3), i64(2), axis=0)


def _infinite() -> Iterator[Right]:
    row = f32(-INF, -INF)
    yield _one("the greatest of -inf", "ReduceMax", f32(-INF), row, opset=13)
    yield _one("the least of inf", "ReduceMin", f32(INF), -row, opset=13)
    yield _one("softmax of -inf", "Softmax", f32(NAN, NAN), row)
    yield _one("log softmax of -inf", "LogSoftmax", f32(NAN, NAN), row)
    yield _one("softmax beside -inf", "Softmax", f32(0, 1), f32(-INF, 3))
    yield _one("log of a sum of -inf", "ReduceLogSumExp", f32(-INF), row, opset=13)
    image = np.full((1, 1, 2, 2), -INF, np.float32)
    yield _one("global max pool of -inf", "GlobalMaxPool", image[..., :1, :1], image)
    least = np.full((1, 1, 3), -3e38, np.float32)
    yield _one("max pool of large negatives", "MaxPool", least[..., :1], least, kernel_shape=[3])
    nothing = np.zeros((0, 2), np.float32)
    yield _one("the greatest of nothing", "ReduceMax", f32(-INF, -INF), nothing, i64(0), keepdims=0)
    yield _one("the sum of nothing", "ReduceSum", f32(0, 0), nothing, i64(0), keepdims=0)


def _integers() -> Iterator[Right]:
    x = i64(BIG, -BIG, 2**62 + 1)
    yield _one("sums beyond 2^31", "Add", i64(BIG + 3, -BIG + 3, 2**62 + 4), x, i64(3))
    yield _one("products beyond 2^31", "Mul", i64(3 * BIG, -3 * BIG, -(2**62) + 3), x, i64(3))
    yield _one("sum of a row beyond 2^53", "ReduceSum", i64(2**62 + 1), x, opset=13, keepdims=1,
               noop_with_empty_axes=0)  # fmt: skip
    yield _one("greatest beyond 2^53", "ReduceMax", i64(2**53 + 1), i64(2**53, 2**53 + 1))
    yield _one("the place of one beyond 2^53", "ArgMax", i64(1), i64(2**53, 2**53 + 1), axis=0)
    yield _one("sorted beyond 2^53", "TopK", i64(2**53 + 1, 2**53), i64(2**53, 2**53 + 1), i64(2),
               axis=0)  # fmt: skip
    yield _one(
        "running sums beyond 2^53", "CumSum", i64(2**53, 2**53 + 1), i64(2**53, 1), i64(0)[0]
    )
    yield _one("equal beyond 2^53", "Equal", np.array([False, True]), i64(2**53, 9),
               i64(2**53 + 1, 9))  # fmt: skip
    yield _one("a product of matrices beyond 2^53", "MatMul", i64([2**53 + 1]).reshape(1, 1),
               i64(2**53, 1).reshape(1, 2), i64(1, 1).reshape(2, 1))  # fmt: skip
    yield _one("the least modulo -1", "Mod", i64(0, 0, -1), i64(LEAST, 5, -4), i64(-1, -1, -3))
    yield _one("the least divided by -1", "Div", i64(LEAST), i64(LEAST), i64(-1))
    yield _one("modulo takes the divisor's sign", "Mod", i64(2, -2), i64(-1, 1), i64(3, -3))
    yield _one("fmod takes the dividend's sign", "Mod", i64(-1, 1), i64(-1, 1), i64(3, -3), fmod=1)
    yield _one("division goes towards zero", "Div", i64(-2, -2, 2), i64(-7, 7, -7), i64(3, -3, -3))
    yield _one("the least has no absolute value", "Abs", i64(LEAST), i64(LEAST))
    byte = np.array([250, 255], np.uint8)
    wraps = [node("Add", ["x0", "x1"], ["s"]), node("Cast", ["s"], ["y"], to=_CODES["int32"])]
    ten = np.array([10, 1], np.uint8)
    yield Right("bytes wrap before they are widened", wraps, {"x0": byte, "x1": ten},
                np.array([4, 0], np.int32))  # fmt: skip
    wide = [node("Mul", ["x0", "x1"], ["s"]), node("Cast", ["s"], ["y"], to=FLOAT)]
    yield Right("bytes wrap before they are floats", wide, {"x0": byte, "x1": ten},
                f32(2500 % 256, 255))  # fmt: skip
    yield _one("bytes wrap below zero", "Sub", np.array([252, 0], np.uint8),
               np.array([1, 5], np.uint8), np.array([5, 5], np.uint8))  # fmt: skip


def _places() -> Iterator[Right]:
    x = f32(1, 2, 3, 4, 5)
    yield _one("negative pads crop", "Pad", f32(2, 3, 4, 0), x[:4], i64(-1, 1), opset=13)
    yield _one("both ends cropped", "Pad", f32(2, 3), x, i64(-1, -2), opset=13)
    yield _one("reflection wider than the axis", "Pad", f32(1, 2, 3, 2, 1, 2, 3, 2, 1, 2), x[:3],
               i64(4, 3), opset=13, mode="reflect")  # fmt: skip
    yield _one("cropped, then reflected", "Pad", f32(3, 4, 5, 4, 3), x, i64(-2, 2), opset=13,
               mode="reflect")  # fmt: skip
    yield _one("cropped, then wrapped", "Pad", f32(2, 3, 1, 2, 3), x[:5], i64(2, -2), opset=19,
               mode="wrap")  # fmt: skip
    yield _one("an edge repeats", "Pad", f32(1, 1, 1, 2, 2), x[:2], i64(2, 1), opset=13,
               mode="edge")  # fmt: skip
    index = i64(1, 1, -1, 3)
    yield _one("the last of equal indices", "ScatterElements", f32(1, 20, 3, 40, 30), x, index,
               f32(10, 20, 30, 40), axis=0)  # fmt: skip
    yield _one("the last of equal rows", "ScatterND", f32(1, 20, 3, 4, 5), x, index[:2, None],
               f32(10, 20))  # fmt: skip
    yield _one("equal indices add up", "ScatterElements", f32(1, 32, 3, 4, 5), x, index[:2],
               f32(10, 20), axis=0, reduction="add")  # fmt: skip
    yield _one("ties go to the first", "ArgMax", i64(1), f32(0, 7, 7), axis=0)
    yield _one("ties go to the last where asked", "ArgMax", i64(2), f32(0, 7, 7), axis=0,
               select_last_index=1)  # fmt: skip
    yield _one("sorted ties keep their order", "TopK", f32(7, 7, 0), f32(7, 0, 7), i64(3), axis=0)
    yield _one("negative indices count from the end", "Gather", f32(5, 4), x, i64(-1, -2))
    steps = i64(4), i64(LEAST), i64(0), i64(-2)
    yield Right("slices backwards", [node("Slice", ["x", "a", "b", "c", "d"], ["y"])], {"x": x},
                f32(5, 3, 1), dict(zip("abcd", steps, strict=True)))  # fmt: skip
    # "starts is clamped to [0, dims-1] for negative stepping" (Slice-13).
    cut = node("Slice", ["x", "a", "b", "c", "d"], ["y"])
    for name, x, want in (("one element", f32(7), f32(7)), ("none", f32(), f32())):
        before = dict(zip("abcd", (i64(-3), i64(LEAST), i64(0), i64(-2)), strict=True))
        yield Right(f"a backward slice from before {name}", [cut], {"x": x}, want, before)
        late, known = ({k: before[k] for k in names} for names in ("ad", "bc"))
        yield Right(f"a backward slice from before {name}, told late", [cut], {"x": x} | late,
                    want, known)  # fmt: skip
    yield _one("halves go to even", "Round", f32(0, 2, 2, -0.0, -2), f32(0.5, 1.5, 2.5, -0.5, -2.5))


def _half() -> Iterator[Right]:
    many = np.full((1, 4096), 1.0009765625, np.float16)
    yield _one("a mean of halves", "ReduceMean", many[:, :1], many, axes=[1], opset=13)
    thousand = np.full((1, 4096), 100, np.float16)
    yield _one("a sum beyond halves on the way", "ReduceMean", thousand[:, :1], thousand, axes=[1],
               opset=13)  # fmt: skip
    pair = np.array([[300, -300] * 32], np.float16)
    ones, zeros = np.ones(64, np.float16), np.zeros(64, np.float16)
    yield _one("a norm of halves whose squares overflow", "LayerNormalization",
               np.array([[1, -1] * 32], np.float16), pair, ones, zeros)  # fmt: skip
    yield _one("a length of halves whose squares overflow", "ReduceL2",
               np.array([[2400]], np.float16), pair, axes=[1], opset=13)  # fmt: skip
    a = np.full((1, 2048), 1, np.float16)
    yield _one("a product of halves", "MatMul", np.array([[2048]], np.float16), a,
               np.ones((2048, 1), np.float16))  # fmt: skip


def _broadcast() -> Iterator[Right]:
    """What is fused keeps the shape that each operator has by itself."""
    x, column = f32(1, 2, 3), f32(10, 20).reshape(2, 1)
    nodes = [node("Relu", ["x"], ["r"]), node("Add", ["r", "c"], ["s"]),
             node("Mul", ["s", "s"], ["y"])]  # fmt: skip
    yield Right("a column joins late", nodes, {"x": x, "c": column}, (x + column) ** 2)
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Add", ["x", "s"], ["t"]),
             node("Sub", ["t", "c"], ["y"])]  # fmt: skip
    yield Right("a scalar sum joins its own row", nodes, {"x": x, "c": column}, x + 6 - column)
    nodes = [node("Expand", ["x", "k"], ["w"]), node("Transpose", ["w"], ["t"], perm=[1, 0]),
             node("Add", ["t", "x2"], ["y"])]  # fmt: skip
    yield Right("repeated, turned, added", nodes, {"x": x, "x2": f32(0, 100)},
                x[:, None] + f32(0, 100), {"k": i64(2, 3)})  # fmt: skip
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])]
    yield Right("a bias wider than the product", nodes,
                {"x": f32(1, 2).reshape(1, 2), "w": f32(3, 4).reshape(2, 1), "b": f32(1, 2, 3)},
                f32(12, 13, 14).reshape(1, 3))  # fmt: skip


def _quantized() -> Iterator[Right]:
    """Zeros alone have no range to divide: runtimes take a scale of 1."""
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             node("Cast", ["q"], ["a"], to=FLOAT), node("Cast", ["z"], ["c"], to=FLOAT),
             node("Add", ["a", "c"], ["b"]), node("Add", ["b", "s"], ["y"])]  # fmt: skip
    yield Right("the scale of zeros", nodes, {"x": f32(0, -0.0)}, f32(1, 1))
    yield Right("the scale of positive numbers", nodes, {"x": f32(255, 51)}, f32(256, 52))


CASES = [
    *_quantized(), *_not_a_number(), *_infinite(), *_integers(), *_places(), *_half(),
    *_broadcast(),
]  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """Results by name, of one optimized library."""
    modules = [case.module() for case in CASES]
    inputs = {f"c{i}_{k}": v for i, case in enumerate(CASES) for k, v in case.inputs.items()}
    with quick_build(merged(modules), tmp_path_factory.mktemp("right"), 3) as artifact:
        made = artifact.run(inputs)
    return {case.name: np.array(made[f"c{i}_y"]) for i, case in enumerate(CASES)}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_compiled_code_is_right(case: Right, found: dict[str, Array]) -> None:
    got = found[case.name]
    assert got.dtype == case.want.dtype and got.shape == case.want.shape
    assert np.array_equal(got, case.want, equal_nan=got.dtype.kind == "f"), got


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_the_reference_is_right(case: Right) -> None:
    (got,) = run_module(case.module(), case.inputs)
    assert got.dtype == case.want.dtype and got.shape == case.want.shape
    assert np.array_equal(got, case.want, equal_nan=got.dtype.kind == "f"), got


def test_names_are_told_apart() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 70
