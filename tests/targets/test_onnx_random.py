"""Random graphs with symbolic sizes, and random programs of branches and loops, as ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

from cuvil.errors import ShapeConstraintError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from tests.codegen.control_graphs import Programs
from tests.codegen.control_graphs import inputs as program_inputs
from tests.codegen.noise import differences, noisy_runs
from tests.codegen.random_graphs import BINDINGS, random_inputs, random_module
from tests.ops.values import Array
from tests.targets.onnx_calls import close, onnx_of

_A_TEST = 8


def _session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _left_to_the_runtime(module: Module) -> bool:
    """ONNX Runtime takes integer products in float64, which shows where they overflow."""
    return any(
        op.short == "reduce_prod" and op.type.dtype.is_integer for op in module.main.walk()
    )


def _calls(module: Module, seed: int) -> Iterator[tuple[Mapping[str, Array], list[Array]]]:
    """Inputs with what the reference makes of them; ONNX Runtime has its own way with means and
    normalisations of nothing."""
    for number, sizes in enumerate(BINDINGS if module.main.symbols else BINDINGS[:1]):
        if 0 in sizes.values():
            continue
        inputs = random_inputs(module, sizes, seed + number)
        try:
            yield inputs, run_module(module, inputs)
        except ShapeConstraintError:
            continue


def _near(got: Array, want: Array) -> bool:
    """Close, or within what ONNX Runtime's functions are off by for small results (sigmoid); and it
    gives 0 for the mean of nothing."""
    if want.dtype != np.float32 or got.shape != want.shape:
        return close(got, want)
    want = np.where(np.isnan(want) & (got == 0), 0, want)
    return close(got, want) or np.allclose(got, want, rtol=0, atol=1e-5, equal_nan=True)


def _check_graph(seed: int) -> int:
    """How many calls were right."""
    module = random_module(seed)
    if _left_to_the_runtime(module):
        return 0
    try:
        session = _session(onnx_of(clone_module(module)))
    except state.NotImplemented:
        return 0
    count = 0
    for inputs, want in _calls(module, seed):
        try:
            got = [np.asarray(a) for a in session.run(None, dict(inputs))]
        except state.InvalidArgument:  # a normalisation of nothing
            continue
        if not all(map(_near, got, want)):  # or rounding explains it
            assert not differences(got, want, noisy_runs(module, inputs)), seed
        count += 1
    return count


@pytest.mark.parametrize(
    "start", [0, 8, *(pytest.param(s, marks=pytest.mark.slow) for s in range(16, 400, _A_TEST))]
)
def test_random_graphs_agree_with_the_reference(start: int) -> None:
    assert sum(_check_graph(seed) for seed in range(start, start + _A_TEST)) > _A_TEST


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(8, 64, _A_TEST))]
)
def test_programs_agree_with_the_reference(start: int) -> None:
    for seed in range(start, start + _A_TEST):
        module = Programs(seed).module()
        session = _session(onnx_of(clone_module(module)))
        for n in (1, 3, 17):
            given = program_inputs(n, seed)
            for got, want in zip(session.run(None, given), run_module(module, given), strict=True):
                np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
