"""A widened module computes the same in f64."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.errors import InputError
from cuvil.ir.printer import print_module
from cuvil.ir.types import F32
from cuvil.ir.verifier import verify_module
from cuvil.ir.widen import widened
from cuvil.reference.interpreter import run_module
from tests.verify.models import compiled, inputs


def test_values_weights_and_types_are_f64() -> None:
    module = compiled().source.module
    before = print_module(module)
    wide = widened(module)
    verify_module(wide)
    assert print_module(module) == before  # the original is as it was
    dtypes = {v.type.dtype for op in wide.main.walk() for v in op.results}
    assert F32 not in dtypes
    given = {name: array.astype(np.float64) for name, array in inputs().items()}
    (found,) = run_module(wide, given)
    (rounded,) = run_module(module, inputs())
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, rounded, rtol=1e-5)
    assert np.any(found != rounded)  # more exact, not the same numbers widened
    with pytest.raises(InputError, match="float32"):
        run_module(wide, inputs())
