"""Looking something up in a dimension without elements is an error, and reads nothing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import cuvil
from cuvil.errors import InputError
from tests.frontends.onnx_models import FLOAT, INT64, model, node

Array = np.ndarray[Any, Any]
_ROOT = Path(__file__).parents[2]


def _nowhere(*shape: int) -> Array:
    """An array without elements, at an address that can't be read."""
    return np.frombuffer((ctypes.c_char * 0).from_address(64), np.float32).reshape(shape)


def _calls() -> dict[str, tuple[dict[str, Any], Array, Array]]:
    """Operator: attributes, data without elements, and where to look."""
    index = np.zeros((2, 1), np.int64)
    return {
        "Gather": ({"axis": 0}, _nowhere(0, 3), index),
        "GatherElements": ({"axis": 0}, _nowhere(0, 1), index),
        "GatherND": ({}, _nowhere(0, 3), index),
        "GridSample": ({}, _nowhere(1, 1, 0, 3), np.zeros((1, 2, 2, 2), np.float32)),
        "RoiAlign": ({"output_height": 1}, _nowhere(0, 2, 3, 3), np.ones((2, 4), np.float32)),
        "MaxRoiPool": (
            {"pooled_shape": [1, 1]}, _nowhere(0, 2, 3, 3), np.zeros((2, 5), np.float32)
        ),
    }  # fmt: skip


def look_everywhere() -> None:
    """Print what each call says; a call that reads ends the process."""
    for op, (attrs, x, where) in _calls().items():
        feed = {"x": x, "w": where}
        if op == "RoiAlign":
            feed["i"] = np.zeros(2, np.int64)
        declared = {
            k: (INT64 if v.dtype == np.int64 else FLOAT, [size or "n" for size in v.shape])
            for k, v in feed.items()
        }
        proto = model([node(op, list(feed), ["y"], **attrs)], declared, ["y"], opset=20)
        with cuvil.compile(proto, verify=False, options={"opt_level": 0}) as artifact:
            try:
                print(op, artifact.run(feed))
            except InputError as error:
                print(op, error.message)


def test_nothing_is_read_where_nothing_is() -> None:
    program = "from tests.runtime.test_empty_lookups import look_everywhere as f; f()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, timeout=60
    )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, (done.returncode, told, done.stderr[-2000:])
    assert list(told) == list(_calls())
    assert all("in a dimension of size 0" in text for text in told.values()), told
