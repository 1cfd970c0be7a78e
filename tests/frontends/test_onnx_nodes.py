"""Every operator test of the onnx package: right, or refused for a reason that is listed here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.frontends.onnx_models import compare, run_captured

# Where onnx's own reference differs from what runtimes do: with align_corners it divides by the
# size before rounding down.
DIFFERS = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
REFUSED_OPS = {
    "ai.onnx.Bernoulli", "ai.onnx.DeformConv", "ai.onnx.Det", "ai.onnx.Dropout",
    "ai.onnx.ImageDecoder", "ai.onnx.Scan",
    "ai.onnx.MelWeightMatrix", "ai.onnx.NonMaxSuppression", "ai.onnx.Optional",
    "ai.onnx.OptionalGetElement", "ai.onnx.OptionalHasElement", "ai.onnx.RandomUniformLike",
    "ai.onnx.RegexFullMatch", "ai.onnx.RoiAlign", "ai.onnx.StringConcat",
    "ai.onnx.StringSplit", "ai.onnx.TfIdfVectorizer",
    "ai.onnx.preview.FlexAttention",
}  # fmt: skip


def _cases() -> list[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return list(collect_testcases(None))


def _array(item: Any) -> Any:
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    return np.asarray(item) if isinstance(item, np.generic) else item


def _attempts(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Inputs to fix: none, those that may be shapes, all."""
    arrays = {
        k: v
        for k, v in inputs.items()
        if isinstance(v, np.ndarray) and (v.dtype.kind in "iufb" or v.dtype.name == "bfloat16")
    }
    yield {}
    yield {k: v for k, v in arrays.items() if v.dtype.kind in "ib"}
    yield arrays


def _run(case: Any, inputs: dict[str, Any]) -> list[Any]:
    error: UnsupportedOpError | None = None
    for fixed in _attempts(inputs):
        try:
            module = capture_onnx(case.model, fixed_inputs=fixed)
        except UnsupportedOpError as refusal:
            error = refusal
            continue
        return run_captured(module, {k: v for k, v in inputs.items() if k not in fixed})
    assert error is not None
    raise error


def test_operator_conformance() -> None:
    wrong: dict[str, str] = {}
    refused: set[str] = set()
    right = 0
    for case in _cases():
        names = [v.name for v in case.model.graph.input]
        for inputs, outputs in case.data_sets:
            want: list[Any] = []
            for item in map(_array, outputs):
                want.extend(item if isinstance(item, list) else [np.asarray(item)])
            try:
                got = _run(case, dict(zip(names, map(_array, inputs), strict=True)))
                narrow = any(a.dtype.itemsize == 2 for a in got)
                compare(got, want, max(case.rtol, 1e-2 if narrow else 1e-3))
                right += 1
            except UnsupportedOpError as error:
                refused |= {n.op.split()[0] for n in error.nodes if "tensors of" not in n.reason}
            except AssertionError as error:
                wrong[case.name] = str(error)[:200]
    assert set(wrong) == DIFFERS, wrong
    known = {op for op in refused if not op.startswith(("ai.onnx.ml.", "ai.onnx.preview.training"))}
    assert known - {"sequence", "optional"} == REFUSED_OPS
    assert right > 1500


def test_a_wrong_result_would_be_seen() -> None:
    """The comparison above must reject one element that is off, a dtype, a shape."""
    a = np.ones((2, 2), np.float32)
    b = a.copy()
    b[1, 1] += 0.01
    with pytest.raises(AssertionError):
        compare([a], [b], 1e-3)
    with pytest.raises(AssertionError):
        compare([a], [a.astype(np.float64)], 1e-3)
    with pytest.raises(AssertionError):
        compare([a], [a[None]], 1e-3)
    with pytest.raises(AssertionError):
        compare([np.array(["a", "b"])], [np.array(["a", "c"], dtype=object)], 1e-3)
