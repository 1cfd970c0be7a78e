"""Operators on every element type that ONNX lets them have, compiled, against its reference and
onnxruntime: one of them must agree wherever one of them runs the call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import cuvil
from cuvil.ir.types import DTYPES, DType
from tests.frontends.onnx_models import run_ort
from tests.frontends.onnx_type_cases import Array, TypeCase, cases

OPSET = 23
_TYPES = {
    "tensor(float)": "f32", "tensor(double)": "f64", "tensor(float16)": "f16",
    "tensor(bfloat16)": "bf16", "tensor(bool)": "bool",
    **{f"tensor({k}int{b})": f"{k or 'i'}{b}" for k in ("u", "") for b in (8, 16, 32, 64)},
}  # fmt: skip
_CLOSE = {"f64": (1e-12, 1e-13), "f32": (3e-5, 1e-6), "f16": (1e-2, 2e-3), "bf16": (4e-2, 1e-2)}
# Calls where the references are wrong, or decide otherwise what the specification leaves open.
_OTHERWISE = {
    r"Erf\[f64\]|Gelu\[f64\]": "the reference computes erf in f32",
    r"PRelu\[(f64|bf16)\]": "the reference multiplies 0 by an infinite slope",
    r"ReduceLogSumExp.special\[bf16\]": "the reference takes infinity from infinity",
    r"ReduceSumSquare.*\[(i32|u32)\]": "the reference's result has another type",
    r"ReduceSumSquare.*\[(i64|u64)\]|ReduceMean.special\[[iu]64\]": "sums beyond the range",
    r"ReduceL2.special\[[iu].*\]": "the reference's squares wrap",
    r"ReduceLogSum(Exp|.special)\[i.*\]": "logarithms of integers, which opset 28 no longer allows",
    r"Reduce.*\[bf16\]": "the reference sums in bf16",
    r"Shrink\[[iu]64\]": "the ends of the range, and a half more",
    r"Mod.fmod\[.*\]|Div\[.*\]|Mod\[.*\]": "integers over 0, and the smallest over -1",
}


def _types(case: TypeCase) -> list[DType]:
    found = onnx.defs.get_schema(case.op, OPSET, "").inputs[0].types
    return [DTYPES[_TYPES[t]] for t in sorted(found) if t in _TYPES]


def _model(case: TypeCase, arrays: list[Array]) -> tuple[ModelProto, dict[str, Array]] | None:
    """The call as a model and its inputs; None where ONNX does not allow it."""
    names = [f"i{k}" for k in range(len(arrays))]
    node = helper.make_node(case.op, names, [f"o{k}" for k in range(case.results)], **case.attrs)
    feed = {n: a for k, (n, a) in enumerate(zip(names, arrays, strict=True)) if k not in case.fixed}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feed.items()
    ]
    weights = [numpy_helper.from_array(arrays[k], f"i{k}") for k in case.fixed]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
    )
    try:
        made = onnx.shape_inference.infer_shapes(made, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    typed = all(o.type.tensor_type.elem_type for o in made.graph.output)
    return (made, feed) if typed else None


def _different(got: Array, want: Any) -> str:
    want = np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    name = next((d.name for d in DTYPES.values() if d.numpy == got.dtype), "")
    if name in _CLOSE:
        a, b = got.astype(np.float64), want.astype(np.float64)
        bad = ~np.isclose(a, b, *_CLOSE[name], equal_nan=True)
    else:
        bad = got != want
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} differ, the first at {at}: {got[at]}, not {want[at]}"


def _judged(model: ModelProto, feed: Mapping[str, Array], got: list[Array]) -> str:
    """Why neither reference agrees; nothing where one does, or none runs the call."""
    told = []
    has_bf16 = any(a.dtype == ml_dtypes.bfloat16 for a in feed.values())
    for run in (ReferenceEvaluator(model).run, None if has_bf16 else run_ort):
        if run is None:
            continue
        try:
            want = run_ort(model, feed) if run is run_ort else run(None, dict(feed))
        except Exception:  # whatever a reference raises for what it has not
            continue
        problems = [text for g, w in zip(got, want, strict=True) if (text := _different(g, w))]
        if not problems:
            return ""
        told.append(problems[0])
    return "; ".join(told)


def _every() -> Iterator[tuple[str, TypeCase, DType]]:
    for case in cases():
        for dtype in _types(case):
            yield f"{case.name}[{dtype}]", case, dtype


def _wrong(prefixes: str) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for name, case, dtype in _every():
        if not re.match(prefixes, name) or any(re.fullmatch(p, name) for p in _OTHERWISE):
            continue
        made = _model(case, [np.asarray(a) for a in case.make(dtype)])
        if made is None:
            continue
        model, feed = made
        compiled = cuvil.compile(model, verify=False, cache=False, options={"opt_level": 0})
        got = [np.asarray(v) for v in compiled.run(feed).values()]
        problem = _judged(model, feed, got)
        if problem:
            wrong[name] = problem
    return wrong


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prefixes", ["[A-F]", "[G-Q]", "Reduce", "R(?!educe)|S", "[T-Z]"])
def test_operators_on_every_type(prefixes: str) -> None:
    onnxruntime.set_default_logger_severity(4)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wrong = _wrong(prefixes)
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


def test_a_wrong_result_is_seen() -> None:
    case = next(c for c in cases() if c.op == "Add")
    made = _model(case, case.make(DTYPES["i16"]))
    assert made is not None
    model, feed = made
    right = feed["i0"] + feed["i1"]
    assert not _judged(model, feed, [right])
    assert "differ" in _judged(model, feed, [right ^ 1])
    assert "int32" in _judged(model, feed, [right.astype(np.int32)])
