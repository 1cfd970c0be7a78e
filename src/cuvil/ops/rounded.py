"""Activations of f32 that give bf16: one rounding of what is computed well enough for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, F32, TensorType
from cuvil.ops.base import Array, Attrs, OpDef, ShapeContext
from cuvil.ops.elementwise import call_of, gelu, gelu_tanh, sigmoid

_OF: Mapping[str, tuple[Callable[[Array], Array], str]] = {
    "gelu": (gelu, "cuvil::gelu_erf_rounded"),
    "gelu_tanh": (gelu_tanh, "cuvil::gelu_tanh_rounded"),
    "silu": (lambda x: x * sigmoid(x), "cuvil::silu_rounded"),
}
ROUNDED: Mapping[str, str] = {name: f"{name}_bf16" for name in _OF}
"""The op that gives bf16 for each that has one."""


def _infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if types[0].dtype != F32:
        raise InvalidModelError(f"an activation rounded to bf16 takes f32, not {types[0].dtype}")
    return [TensorType(types[0].shape, BF16)]


def _definition(name: str) -> OpDef:
    function, cxx = _OF[name]

    def reference(
        arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
    ) -> list[Array]:
        with np.errstate(all="ignore"):
            out = function(np.asarray(arrays[0], np.float64))
            return [out.astype(np.float32).astype(BF16.numpy)]

    return OpDef(
        f"cuvil.{ROUNDED[name]}", "map", _infer, reference, (1, 1), {}, "close",
        scalar=call_of(cxx),
        doc=f"{name} of f32, rounded to bf16; a unit in its last place (gelu: 3), or 1e-17.",
    )  # fmt: skip


DEFS: list[OpDef] = [_definition(name) for name in _OF]
