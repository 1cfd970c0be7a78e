"""Values that ONNX leaves open, as the guide to ONNX has them, from the built library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node, retyped

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def _run(op: str, *inputs: Any, kinds: tuple[int, ...] = (), **attrs: Any) -> list[list[Any]]:
    """An operator's outputs; each input is an array, long enough for vectors and a rest."""
    arrays = {f"x{i}": np.asarray(a) for i, a in enumerate(inputs)}
    given = {k: (np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in arrays.items()}
    kinds = kinds or (given["x0"][0],)
    names = [f"y{i}" for i in range(len(kinds))]
    proto = model([node(op, list(arrays), names, **attrs)], given, names, opset=18)
    with cuvil.compile(retyped(proto, *kinds), cache=False, verify=False) as artifact:
        return [array.tolist() for array in artifact.run(arrays).values()]


def _long(values: list[float], dtype: Any = np.float32) -> Array:
    return np.array(values * 17, dtype)


@pytest.mark.parametrize("zero", [np.uint8(7), np.int8(-7)])
def test_quantize_linear(zero: Any) -> None:
    kind = np_dtype_to_tensor_dtype(zero.dtype)
    low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
    values = _long([NAN, INF, -INF, 1e30, -1e30, 3.0])
    (found,) = _run("QuantizeLinear", values, np.float32(1), zero, kinds=(kind,))
    assert found == [int(zero), high, low, high, low, int(zero) + 3] * 17
    (found,) = _run("QuantizeLinear", _long([0.0, 1.0, -1.0]), np.float32(0), zero, kinds=(kind,))
    assert found == [int(zero), high, low] * 17


@pytest.mark.parametrize("odd", [[NAN], [INF, -INF], [INF], [-INF], [NAN, INF]])
def test_dynamic_quantize_linear(odd: list[float]) -> None:
    kinds = (TensorProto.UINT8, FLOAT, TensorProto.UINT8)
    values = _long([1.0, 2.0, *odd])
    found, scale, zero = _run("DynamicQuantizeLinear", values, kinds=kinds)
    np.testing.assert_equal(scale, NAN if np.isnan(odd).any() else INF)
    assert zero == 0 and set(found) == {0}


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integers(dtype: Any) -> None:
    least = int(np.iinfo(dtype).min)
    a, b = _long([5, -5, least, 0], dtype), _long([0, 0, -1, 0], dtype)
    assert _run("Div", a, b) == [[0, 0, least, 0] * 17]
    for fmod in (0, 1):
        assert _run("Mod", a, b, fmod=fmod) == [[0, 0, 0, 0] * 17]
    assert _run("Abs", a[2:3]) == _run("Neg", a[2:3]) == [[least]]


def test_powers_of_integers() -> None:
    bases, powers = [2, -1, 0, 1, -1, 2, 3], [-1, -3, -1, -5, -2, 40, 31]
    (found,) = _run("Pow", _long(bases, np.int32), _long(powers, np.int32))
    assert found == [0, -1, 0, 1, 1, 0, _wrapped(3**31, 32)] * 17


def _wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_shifts(dtype: Any) -> None:
    bits = np.iinfo(dtype).bits
    a, b = _long([1, 255, 255, 255], dtype), _long([bits, bits + 1, 200, 1], dtype)
    assert _run("BitShift", a, b, direction="RIGHT") == [[0, 0, 0, 127] * 17]
    last = 510 % 2**bits
    assert _run("BitShift", a, b, direction="LEFT") == [[0, 0, 0, last] * 17]


def test_nan_among_the_data() -> None:
    x = np.array([1, NAN, 3, NAN] * 9, np.float32)
    for op in ("ReduceMax", "ReduceMin"):
        assert np.isnan(_run(op, x, keepdims=0)[0]).all()
    for op, args in {"Max": (x * 0 + 5,), "Min": (x * 0 + 5,), "Relu": ()}.items():
        assert np.isnan(_run(op, x, *args)[0]).tolist() == [False, True] * 18
    (found,) = _run("Clip", x, np.float32(0), np.float32(2))
    np.testing.assert_equal(found, [1, NAN, 2, NAN] * 9)
    (pooled,) = _run("MaxPool", x.reshape(1, 1, -1), kernel_shape=[2])
    assert np.isnan(pooled).all()
    for op in ("ArgMax", "ArgMin"):
        assert _run(op, x, axis=0, kinds=(TensorProto.INT64,)) == [[1]]
    assert _run("Hardmax", x, axis=0)[0] == [0.0, 1.0, *[0.0] * 34]
    values, places = _run("TopK", x, np.array([3]), kinds=(FLOAT, TensorProto.INT64), axis=0)
    assert np.isnan(values).all() and places == [1, 3, 5]
