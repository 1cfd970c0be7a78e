"""Recurrent layers, whose layout and gates are ONNX's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvil.frontends.onnx_export.maps import Writer
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, F16, F32, I32
from cuvil.ops.recurrent import ACTIVATIONS, OPTIONAL, gate_functions

# ONNX's places of the optional operands: bias, lengths, first h, first c, peepholes.
_ORDER = ("has_bias", "has_seq_lens", "has_h0", "has_c0", "has_peephole")
_RESULTS = {"lstm": 3, "gru": 2, "rnn": 2}


def _activations(op: Op) -> dict[str, Any]:
    """The functions' names, and the numbers of those that read any, one after the other."""
    gates = [g for direction in gate_functions(op.short, op.attrs) for g in direction]
    reads = [ACTIVATIONS[g.name].reads for g in gates]
    given: dict[str, Any] = {
        "activations": [g.name.title().replace("_", "") for g in gates],
        "activation_alpha": [g.alpha for g, n in zip(gates, reads, strict=True) if n >= 1],
        "activation_beta": [g.beta for g, n in zip(gates, reads, strict=True) if n >= 2],
    }
    return {name: values for name, values in given.items() if values}


def _layer(scope: Scope, op: Op) -> list[str]:
    a, source = op.attrs, op.operands[0].type.dtype
    result = op.results[0].type.dtype
    dtype = F32 if source in (BF16, F16) else source
    flags = [flag for flag in OPTIONAL if a.get(flag, False)]
    optional = dict(zip(flags, op.operands[3:], strict=True))
    names = [scope.cast(scope.name(v), v.type.dtype, dtype) for v in op.operands[:3]]
    for flag in _ORDER:
        value = optional.get(flag)
        if value is None:
            names.append("")
            continue
        to = I32 if flag == "has_seq_lens" else dtype
        names.append(scope.cast(scope.name(value), value.type.dtype, to))
    given: dict[str, Any] = {"hidden_size": a["hidden"]}
    if a["direction"] != "forward":
        given["direction"] = a["direction"]
    if a.get("activations"):
        given |= _activations(op)
    if a.get("clip") is not None:
        given["clip"] = a["clip"]
    for flag in ("linear_before_reset", "input_forget"):
        if a.get(flag):
            given[flag] = 1
    made = scope.many(op.short.upper(), names, _RESULTS[op.short], **given)
    return [scope.cast(name, dtype, result) for name in made]


WRITERS: Mapping[str, Writer] = dict.fromkeys(_RESULTS, _layer)
