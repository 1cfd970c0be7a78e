"""The library of C functions: none calls itself; square roots without an instruction."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.codegen.c.library import Piece, _pieces
from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import TensorType, dtype_of
from tests.codegen.c_build import run_c


def test_no_function_calls_itself() -> None:
    """The stack that a model needs is the sum along its calls, so there may be no round."""
    calls: dict[str, set[str]] = {}
    for name, pieces in _pieces().items():
        if name.startswith("cuvil_"):  # a macro is none
            for piece in pieces:
                calls.setdefault(name, set()).update(_called(piece))
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for other in sorted(calls.get(name, ())):
                visit(other, (*path, name))
            done.add(name)

    for name in calls:
        visit(name, ())


def _called(piece: Piece) -> set[str]:
    """The functions that a piece calls, and its own where it calls them after it defines them."""
    lines = piece.text.splitlines()
    code = "\n".join(x for x in lines if not x.startswith(("//", "#define")))
    own = {n for n in piece.defines if len(re.findall(rf"\b{n}\(", code)) > 1}
    return set(piece.mentions - piece.defines) | own


_ROOTS = (0.0, -0.0, 1.0, 2.0, 1e10, np.inf, -1.0, np.nan)
_ENDS = {
    np.float32: (1e-45, 3e-39, 1.2e-38, 3.4e38), np.float64: (5e-324, 1e-310, 1e-305, 1.7e308),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_square_roots_without_an_instruction(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    spread = 2.0 ** rng.uniform(-120, 120, 200)
    x = np.array([*_ROOTS, *_ENDS[dtype], *spread], dtype)
    e = Emitter({})
    y = e.op("sqrt", e.input("x", TensorType(x.shape, dtype_of(x.dtype))))
    (found,) = run_c(e.finish([y], ["y"]), {"x": x}, ahead="#undef __SSE__\n#undef __SSE2__\n")
    with np.errstate(invalid="ignore"):
        right = np.sqrt(x)
    np.testing.assert_allclose(found, right, rtol=2 * np.finfo(dtype).eps, atol=0)
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


def test_norms_in_float64() -> None:
    x = torch.rand(2, 5, dtype=torch.float64)
    for model in (torch.nn.LayerNorm(5).double(), torch.nn.GroupNorm(1, 5).double()):
        compiled = cuvil.compile(model.eval(), (x,), target="c", cache=False)
        with torch.no_grad():
            np.testing.assert_allclose(compiled(x.numpy()), model(x).numpy(), rtol=1e-12)
