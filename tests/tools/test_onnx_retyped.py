"""The sweep over types and sizes sees what it looks for."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

import numpy as np
import pytest

from cuvil.ir.types import DTYPES
from tools.fenced import Fence
from tools.onnx_cases import NodeCase
from tools.onnx_retyped import calls, captured, different, in_a_child, retyped, seeds, symbolic


def _seed(name: str) -> NodeCase:
    return next(case for case in seeds() if case.name == name)


def _read(offset: int, at_end: bool) -> Callable[[], str]:
    def work() -> str:
        array = Fence(at_end).copy(np.arange(3, dtype=np.int32))
        place = array.__array_interface__["data"][0] + offset
        return str(ctypes.c_int32.from_address(place).value)

    return work


def test_a_child_tells_how_it_ended() -> None:
    assert in_a_child(lambda: "fine") == "fine"
    assert in_a_child(lambda: str(1 // 0)).startswith("ZeroDivisionError")
    assert in_a_child(lambda: str(os.abort())) == "SIGABRT"
    assert in_a_child(lambda: str(time.sleep(30)), 0.2) == "ran for 0.2 s"


@pytest.mark.parametrize(
    ("offset", "at_end", "told"),
    [(8, True, "2"), (12, True, "SIGSEGV"), (0, False, "0"), (-4, False, "SIGSEGV")],
)
def test_a_fence_ends_where_the_array_does(offset: int, at_end: bool, told: str) -> None:
    assert in_a_child(_read(offset, at_end)) == told


def test_a_case_is_made_for_every_type_that_the_schema_allows() -> None:
    cases = {case.name: case for case in retyped(_seed("test_gather_0"))}
    types = [name for name in DTYPES if DTYPES[name].size and not DTYPES[name].is_narrow]
    wanted = {f"test_gather_0[T={t}]" for t in types if t not in ("f32", "bf16")}
    assert wanted | {"test_gather_0[Tind=i32]"} == set(cases) - {"test_gather_0[T=bf16]"}
    case = cases["test_gather_0[T=i8]"]
    module = captured(case, {})
    assert module is not None and case.inputs["data"].dtype == np.int8
    assert module.main.body.terminator.operands[0].type.dtype == DTYPES["i8"]
    assert calls(case, module, 4) == ""


def test_sizes_are_symbols() -> None:
    module = symbolic(_seed("test_gather_0"))
    assert module is not None and len(module.main.symbols) == 5


def test_a_difference_is_told() -> None:
    x = np.array([1, np.nan], np.float32)
    assert different(x, x.copy()) == ""
    assert "not" in different(x, x[::-1].copy())
    assert "float64" in different(x, x.astype(np.float64))
