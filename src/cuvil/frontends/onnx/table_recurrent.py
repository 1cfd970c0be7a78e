"""LSTM, GRU and RNN: Cuvil's operators have ONNX's own layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value

_NAMES = {
    "sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "hardsigmoid": "hard_sigmoid",
    "softsign": "softsign", "softplus": "softplus",
}  # fmt: skip
_DEFAULTS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}


def _activations(n: Node, kind: str, directions: int) -> tuple[str, ...] | None:
    names = n.attrs.get("activations")
    if not names:
        return None
    out = []
    for name in names:
        known = _NAMES.get(name.lower())
        if known is None:
            raise Refused(f"activation {name!r}", f"use one of {', '.join(_NAMES)}")
        out.append(known)
    alphas, betas = n.attrs.get("activation_alpha", []), n.attrs.get("activation_beta", [])
    if "hard_sigmoid" in out and (any(a != 0.2 for a in alphas) or any(b != 0.5 for b in betas)):
        near = all(abs(a - 0.2) < 1e-6 for a in alphas) and all(abs(b - 0.5) < 1e-6 for b in betas)
        if not near:
            raise Refused("HardSigmoid with alpha or beta of its own", "use alpha 0.2 and beta 0.5")
    return None if tuple(out) == _DEFAULTS[kind] * directions else tuple(out)


def _recurrent(kind: str, places: Sequence[tuple[str, int]]) -> Handler:
    def handle(n: Node) -> list[Value]:
        e = n.e
        direction = n.text("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise InvalidModelError(f"{n.op}: direction {direction!r} is unknown")
        directions = 2 if direction == "bidirectional" else 1
        batch_first = bool(n.integer("layout", 0))
        hidden = n.attrs.get("hidden_size") or n.size(n[2].type.shape, 2, "the hidden size")
        attrs: dict[str, Any] = {
            "hidden": int(hidden),
            "direction": direction,
            "activations": _activations(n, kind, directions),
            "clip": n.attrs.get("clip"),
        }
        operands = [e.transpose(n[0], (1, 0, 2)) if batch_first else n[0], n[1], n[2]]
        for flag, index in places:
            if not n.has(index):
                continue
            state = batch_first and flag in ("has_h0", "has_c0")
            operands.append(e.transpose(n[index], (1, 0, 2)) if state else n[index])
            attrs[flag] = True
        if kind == "lstm":
            attrs["input_forget"] = bool(n.integer("input_forget", 0)) or None
        if kind == "gru":
            attrs["linear_before_reset"] = bool(n.integer("linear_before_reset", 0))
        y, *states = e.results(kind, *operands, **attrs)
        if batch_first:
            y = e.transpose(y, (2, 0, 1, 3))
            states = [e.transpose(s, (1, 0, 2)) for s in states]
        return [y, *states]

    return handle


_COMMON = (("has_bias", 3), ("has_h0", 5))
lstm = _recurrent("lstm", (*_COMMON, ("has_c0", 6), ("has_seq_lens", 4), ("has_peephole", 7)))
TABLE: dict[str, Handler] = {
    "LSTM": lstm,
    "GRU": _recurrent("gru", (*_COMMON, ("has_seq_lens", 4))),
    "RNN": _recurrent("rnn", (*_COMMON, ("has_seq_lens", 4))),
}
