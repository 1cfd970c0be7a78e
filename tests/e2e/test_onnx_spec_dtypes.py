"""The dtype in an ONNX input's spec is the model's own, or left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cuvil
from cuvil.api.capture import capture
from cuvil.api.parsing import parse_shape
from cuvil.api.request import CompileRequest
from cuvil.errors import InputError
from cuvil.ir.types import I64
from tests.frontends.onnx_models import INT64, model, node


def _ids() -> Any:
    return model([node("Neg", ["ids"], ["y"])], {"ids": (INT64, ("n", 8))}, ["y"])


@pytest.mark.parametrize("spec", [("ids", "f32", (2, 8)), ("ids", np.int32, (2, 8))])
def test_another_dtype_is_refused(spec: Any) -> None:
    with pytest.raises(InputError, match="'ids' says (float32|int32), .* is int64"):
        cuvil.compile(_ids(), input_spec=[spec])


@pytest.mark.parametrize("spec", [("ids", "i64", (2, 8)), ("ids", None, (2, 8)), "ids:2x8"])
def test_the_models_own_dtype_counts(spec: Any) -> None:
    spec = parse_shape(spec) if isinstance(spec, str) else spec
    found = capture(CompileRequest(_ids(), input_spec=[spec])).module.main.inputs[0]
    assert (found.type.dtype, found.type.shape) == (I64, (2, 8))
