"""Every element type of ONNX, compiled: packed tensors, casts, quantisation, 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import cuvil
from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import capture_onnx
from cuvil.frontends.onnx.types import dtype_from, tensor_array
from cuvil.ir.types import DTYPES
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import run_ort

Array = np.ndarray[Any, Any]
T = TensorProto
PACKED = ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2")
FLOAT8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
OPSET = min(28, onnx.defs.onnx_opset_version())


def _code(name: str) -> int:
    """The type's number, or a skip where this onnx is too old to have it."""
    code = dict(T.DataType.items()).get(name)
    if code is None:
        pytest.skip(f"this onnx has no {name}")
    return int(code)


def _model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array | TensorProto] | None = None,
) -> ModelProto:
    """A model of these nodes; every result is an output."""
    def value(name: str, array: Array) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    outputs = [helper.make_empty_tensor_value_info(o) for n in nodes for o in n.output]
    weights = [
        v if isinstance(v, TensorProto) else numpy_helper.from_array(v, k)
        for k, v in (constants or {}).items()
    ]
    graph = helper.make_graph(
        list(nodes), "g", [value(k, v) for k, v in inputs.items()], outputs, weights
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=13)
    return onnx.shape_inference.infer_shapes(made)


def _run(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    compiled = cuvil.compile(model, verify=False, cache=False, options={"opt_level": 0})
    return {k: np.asarray(v) for k, v in compiled.run(dict(inputs)).items()}


def _same(got: Array, want: Any, what: str, tolerance: float = 0.0) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, what
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=0, err_msg=what)


def _against_reference(model: ModelProto, inputs: Mapping[str, Array], tolerance: float) -> None:
    want = ReferenceEvaluator(model).run(None, dict(inputs))
    got = _run(model, inputs)
    assert len(got) == len(want)
    for (name, array), expected in zip(got.items(), want, strict=True):
        _same(array, expected, name, tolerance)


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 13])
def test_packed_tensors(name: str, count: int) -> None:
    code = _code(name)
    dtype = dtype_from(code)
    every = np.arange(count * 5, dtype=np.uint8)[::5] & ((1 << dtype.bits) - 1)
    stored = numpy_helper.from_array(every.view(dtype.numpy), "w")
    found = tensor_array(stored)
    assert found.dtype == dtype.numpy and found.shape == (count,)
    wanted = numpy_helper.to_array(stored).astype(np.float32)
    assert found.astype(np.float32).tolist() == wanted.tolist() == every.view(
        dtype.numpy
    ).astype(np.float32).tolist()
    raw = stored.raw_data
    numbers = list(raw) if dtype.bits != 6 else every.tolist()
    listed = TensorProto(data_type=code, dims=[count], int32_data=numbers)
    assert tensor_array(listed).tobytes() == found.tobytes()
    longer = TensorProto(data_type=code, dims=[count], raw_data=raw + b"\0")
    with pytest.raises(InvalidModelError, match=f"needs {len(raw)} bytes, it has {len(raw) + 1}"):
        tensor_array(longer)


def _spread() -> Array:
    exponents = np.float32(2.0) ** np.arange(-24, 20, dtype=np.float32)
    mantissas = np.array([1, 1.0625, 1.125, 1.1876, 1.25, 1.5, 1.75, 1.9375], np.float32)
    positive = np.outer(exponents, mantissas).reshape(-1)
    ends = np.array([0, np.inf, np.nan, 448, 464, 465, 57344, 61440, 1e9], np.float32)
    return np.concatenate([positive, ends, -positive, -ends])


def test_casts_to_every_type() -> None:
    """What ONNX's helpers say, where they follow the specification."""
    x = _spread()
    nodes, want = [], {}
    for name in (*FLOAT8, *PACKED[:5], "FLOAT16", "BFLOAT16", "DOUBLE"):
        code = _code(name)
        dtype = dtype_from(code).numpy
        nodes.append(helper.make_node("Cast", ["x"], [name], to=code))
        with np.errstate(all="ignore"):
            exact = numpy_helper.saturate_cast(x, dtype) if name in FLOAT8 else x.astype(dtype)
        want[name] = exact
        if name in FLOAT8:
            nodes.append(helper.make_node("Cast", ["x"], [f"{name}_"], to=code, saturate=0))
            want[f"{name}_"] = x.astype(dtype)
        nodes.append(helper.make_node("Cast", [name], [f"{name}_back"], to=T.FLOAT))
        want[f"{name}_back"] = exact.astype(np.float32)
    with np.errstate(all="ignore"):
        got = _run(_model(nodes, {"x": x}), {"x": x})
    assert set(got) == set(want)
    for name, array in want.items():
        _same(got[name], array, name)


def test_casts_to_powers_of_two() -> None:
    code = _code("FLOAT8E8M0")
    x = np.array([0, 0.124, 0.25, 0.3, 1.1, 1.5, 2, 3, 8, np.inf, np.nan, 1e-45], np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], [f"{m}{s}"], to=code, round_mode=m, saturate=s)
        for m in ("up", "down", "nearest") for s in (0, 1)
    ]  # fmt: skip
    nodes.append(helper.make_node("CastLike", ["x", "up1"], ["like"]))
    got = _run(_model(nodes, {"x": x}), {"x": x})
    codes = {name: array.view(np.uint8).tolist() for name, array in got.items()}
    assert codes["up1"] == codes["like"] == [0, 124, 125, 126, 128, 128, 128, 129, 130, 254, 255, 0]
    assert codes["down1"] == [0, 123, 125, 125, 127, 127, 128, 128, 130, 254, 255, 0]
    assert codes["nearest1"] == [0, 124, 125, 125, 127, 128, 128, 129, 130, 254, 255, 0]
    for mode in ("up", "down", "nearest"):
        saturated = codes[f"{mode}1"]
        assert codes[f"{mode}0"] == [255, *saturated[1:9], 255, 255, 255]


def _quantize_nodes() -> tuple[list[NodeProto], dict[str, Array]]:
    rng = np.random.default_rng(0)
    scales = {
        "s": np.float32(0.37),
        "s3": rng.uniform(0.1, 1, 3).astype(np.float32),
        "sb": rng.uniform(0.1, 1, (2, 3, 3)).astype(np.float32),
    }
    nodes = []
    for name in ("INT8", "UINT8", "INT16", "UINT16", *PACKED[:4], *FLOAT8, "FLOAT4E2M1"):
        to: dict[str, Any] = {"output_dtype": _code(name)}
        for scale, how in (("s", {}), ("s3", {"axis": 1}), ("sb", {"axis": 2, "block_size": 2})):
            q, d = f"{name}_{scale}", f"{name}_{scale}_d"
            nodes.append(helper.make_node("QuantizeLinear", ["x", scale], [q], **to, **how))
            nodes.append(helper.make_node("DequantizeLinear", [q, scale], [d], **how))
        if name in FLOAT8:
            made = helper.make_node("QuantizeLinear", ["x", "s"], [f"{name}_n"], saturate=0, **to)
            nodes.append(made)
    return nodes, scales


def test_quantisation_to_every_type() -> None:
    nodes, scales = _quantize_nodes()
    x = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32) * 4
    _against_reference(_model(nodes, {"x": x}, scales), {"x": x}, 0.0)


def test_zero_points_of_small_integers() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32)
    constants: dict[str, Array] = {"s": np.array([0.2, 0.5, 1], np.float32)}
    nodes = []
    for name, numbers in {"INT4": [-3, 0, 7], "UINT4": [1, 8, 15], "INT2": [-2, 0, 1],
                          "UINT2": [0, 1, 3], "INT8": [-5, 0, 127]}.items():  # fmt: skip
        dtype = dtype_from(_code(name)).numpy
        constants[f"z{name}"] = np.array(numbers).astype(dtype)
        operands = [f"q{name}", "s", f"z{name}"]
        nodes.append(helper.make_node("QuantizeLinear", ["x", *operands[1:]], [operands[0]]))
        nodes.append(helper.make_node("DequantizeLinear", operands, [f"d{name}"]))
    _against_reference(_model(nodes, {"x": x}, constants), {"x": x}, 1e-7)


def test_precision_of_quantisation() -> None:
    """Division in the type asked for; dequantised in f32 and rounded once."""
    x = np.array([65535, 60001, 3], np.uint16)
    half = np.array(0.001, np.float16)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "h"], ["d"]),
        helper.make_node("DequantizeLinear", ["x", "h"], ["d32"], output_dtype=T.FLOAT),
        helper.make_node("QuantizeLinear", ["f", "h"], ["q"], precision=T.FLOAT),
        helper.make_node("QuantizeLinear", ["f", "h"], ["q16"]),
    ]
    f = np.array([0.1234, 0.1235], np.float16)
    inputs = {"x": x, "f": f}
    got = _run(_model(nodes, inputs, {"h": half}), inputs)
    exact = x.astype(np.float64) * float(half)
    _same(got["d"], exact.astype(np.float16), "f16")
    _same(got["d32"], exact.astype(np.float32), "f32", 1e-7)
    assert got["q"].tolist() == np.rint(f.astype(np.float32) / np.float32(half)).tolist()
    assert got["q16"].tolist() == np.rint((f / half).astype(np.float16)).tolist()


def test_sixteen_bit_floats_are_summed_in_f32() -> None:
    """Squares and sums beyond 65504 on the way to a result that is not."""
    x = np.array([[300.0, 300.0, 400.0], [40000.0, 40000.0, 1.0]], np.float16)
    nodes = [
        helper.make_node(op, ["x", "a"], [op], keepdims=0)
        for op in ("ReduceL2", "ReduceLogSum", "ReduceMean")
    ]
    nodes.append(helper.make_node("Mean", ["x", "x", "x"], ["Mean"]))
    nodes.append(helper.make_node("LpNormalization", ["x"], ["Lp"], axis=1))
    got = _run(_model(nodes, {"x": x}, {"a": np.array([1])}), {"x": x})
    wide = x.astype(np.float64)
    norm = np.sqrt((wide**2).sum(axis=1))
    _same(got["ReduceL2"], norm.astype(np.float16), "ReduceL2", 1e-3)
    _same(got["ReduceLogSum"], np.log(wide.sum(axis=1)).astype(np.float16), "log", 1e-3)
    _same(got["ReduceMean"], wide.mean(axis=1).astype(np.float16), "mean", 1e-3)
    _same(got["Mean"], x, "mean of three")
    _same(got["Lp"], (wide / norm[:, None]).astype(np.float16), "Lp", 1e-3)


def test_powers_of_mixed_types() -> None:
    """An integer exponent beyond what the base's float type holds keeps its parity."""
    big = 2**24 + 1
    base = np.array([-1.0, -1.0, -0.0, -2.0, 0.5], np.float32)
    exponent = np.array([big, big + 1, -big, 3, -2], np.int32)
    half, small = np.array([-1, 2], np.float16), np.array([2049, -3], np.int32)
    nodes = [
        helper.make_node("Pow", ["b", "e"], ["y"]),
        helper.make_node("Pow", ["h", "s"], ["z"]),
        helper.make_node("Pow", ["e", "u"], ["w"]),
    ]
    inputs = {"b": base, "e": exponent, "h": half, "s": small, "u": np.array([2], np.uint64)}
    got = _run(_model(nodes, inputs), inputs)
    assert got["y"].tolist() == [-1.0, 1.0, -np.inf, -8.0, 4.0]
    assert got["z"].tolist() == [-1.0, 0.125]
    assert got["w"].tolist() == [((int(v) ** 2 + 2**31) % 2**32) - 2**31 for v in exponent]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
def test_integers_scaled_by_floats(kind: str) -> None:
    x = np.arange(0, 60, 2).reshape(5, 6).astype(kind)
    nodes = [
        helper.make_node("Shrink", ["x"], ["s"], lambd=9.5, bias=2.5),
        helper.make_node("Shrink", ["x"], ["t"], lambd=3.0, bias=1.0),
    ]
    model = _model(nodes, {"x": x})
    model.opset_import[0].version = 19
    got = _run(model, {"x": x})
    for name, want in zip(got, run_ort(model, {"x": x}), strict=True):
        _same(got[name], want, name)


def test_gemm_of_integers() -> None:
    a, b, c = (np.arange(n).reshape(s) - 4 for n, s in ((6, (2, 3)), (6, (3, 2)), (2, (1, 2))))
    inputs = {"a": a.astype(np.int32), "b": b.astype(np.int32), "c": c.astype(np.int32)}
    nodes = [
        helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=1.5),
        helper.make_node("Gemm", ["a", "b", "c"], ["z"], alpha=2.0),
    ]
    got = _run(_model(nodes, inputs), inputs)
    assert got["y"].tolist() == np.trunc(0.5 * (a @ b) + 1.5 * c).tolist()
    assert got["z"].tolist() == (2 * (a @ b) + c).tolist()


def test_attributes_are_f32_in_f64_models() -> None:
    x = np.array([-1.0, 0.5, 2.0])
    nodes = [helper.make_node(op, ["x"], [op]) for op in ("LeakyRelu", "HardSigmoid", "HardSwish")]
    _against_reference(_model(nodes, {"x": x}), {"x": x}, 1e-14)


def test_narrow_tensors_move() -> None:
    """A narrow tensor goes through everything that ONNX lets it, and comes out by its bits."""
    dtype = DTYPES["f8e4m3fn"].numpy
    x = np.random.default_rng(2).integers(0, 256, (2, 3, 4)).astype(np.uint8).view(dtype)
    four = np.arange(-8, 8).astype(DTYPES["i4"].numpy).reshape(4, 4)
    zero = np.zeros((), dtype)
    constants = {"p": np.array([0, 0, 1, 0, 1, 0]), "to": np.array([6, 4]), "pad": zero}
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
        helper.make_node("Reshape", ["t", "to"], ["r"]),
        helper.make_node("Pad", ["x", "p", "pad"], ["padded"]),
        helper.make_node("Identity", ["x"], ["i"]),
        helper.make_node("IsNaN", ["x"], ["nan"]),
        helper.make_node("BitCast", ["x"], ["bits"], to=T.UINT8),
        helper.make_node("Transpose", ["w"], ["turned"]),
        helper.make_node("Cast", ["turned"], ["wide"], to=T.INT32),
    ]
    inputs = {"x": x, "w": four}
    got = _run(_model(nodes, inputs, constants), inputs)
    _same(got["t"], x.transpose(2, 0, 1), "t")
    _same(got["r"], x.transpose(2, 0, 1).reshape(6, 4), "r")
    assert got["padded"].shape == (2, 4, 5) and got["padded"].dtype == dtype
    _same(got["padded"][:, :3, 1:], x, "padded")
    assert got["nan"].tolist() == np.isnan(x.astype(np.float32)).tolist()
    assert got["bits"].tolist() == x.view(np.uint8).tolist()
    assert got["wide"].tolist() == four.T.astype(int).tolist() == got["turned"].astype(int).tolist()


def test_a_quantised_model_is_verified_and_saved(tmp_path: Path) -> None:
    """From narrow weights and inputs to a file, which takes such inputs once it is loaded."""
    rng = np.random.default_rng(3)
    four = rng.integers(-8, 8, (8, 16)).astype(DTYPES["i4"].numpy)
    eight = rng.normal(size=(3, 8)).astype(DTYPES["f8e5m2"].numpy)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["dw"]),
        helper.make_node("Cast", ["x"], ["wide"], to=T.FLOAT),
        helper.make_node("MatMul", ["wide", "dw"], ["y"]),
    ]
    model = _model(nodes, {"x": eight}, {"w": four, "s": np.float32(0.5)})
    compiled = cuvil.compile(model, cache=False)
    assert [str(spec) for spec in compiled.inputs] == ["x: f8e5m2[3, 8]"]
    compiled.save(tmp_path / "m.cuvilpkg")
    got = cuvil.load(tmp_path / "m.cuvilpkg").run({"x": eight})
    want = eight.astype(np.float32) @ (four.astype(np.float32) * 0.5)
    np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-5)


def test_differences_of_32_bits_do_not_wrap_before_they_are_scaled() -> None:
    x = np.array([-(1 << 31), (1 << 31) - 1, 7], np.int32)
    zero = np.array([1 << 30, -(1 << 30), -5], np.int32)
    types = [("x", T.INT32, (3,)), ("s", T.FLOAT, (3,)), ("z", T.INT32, (3,))]
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=0)],
            "g",
            [helper.make_tensor_value_info(*row) for row in types],
            [helper.make_tensor_value_info("y", T.FLOAT, (3,))],
        ),
        opset_imports=[helper.make_opsetid("", 21)],
    )
    scale = np.array([0.5, 0.25, 2], np.float32)
    want = (x.astype(np.float64) - zero) * scale
    (got,) = run_module(capture_onnx(proto), {"x": x, "s": scale, "z": zero})
    np.testing.assert_allclose(got, want, rtol=1e-6)
