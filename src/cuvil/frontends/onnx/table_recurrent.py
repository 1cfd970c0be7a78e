"""LSTM, GRU and RNN: Cuvil's operators have ONNX's own layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value
from cuvil.ops.recurrent import ACTIVATIONS, DEFAULTS

# ONNX writes LeakyRelu, and matches names without regard to case.
_NAMES = {name.replace("_", ""): name for name in ACTIVATIONS}


def _activations(n: Node, kind: str, directions: int) -> dict[str, Any]:
    """The attributes activations, alphas and betas, without those that say the defaults."""
    given = n.attrs.get("activations")
    if not given:
        return {}
    names = []
    for name in given:
        known = _NAMES.get(name.lower())
        if known is None:
            raise Refused(f"activation {name!r}", f"use one of {', '.join(_NAMES)}")
        names.append(known)
    if tuple(names) == DEFAULTS[kind] * directions:
        return {}
    plain = [ACTIVATIONS[name] for name in names]
    alphas = _numbers(n, "activation_alpha", names, [p.alpha if p.reads else None for p in plain])
    betas = _numbers(n, "activation_beta", names, [p.beta if p.reads > 1 else None for p in plain])
    return {"activations": tuple(names), "alphas": alphas, "betas": betas}


def _numbers(
    n: Node, attribute: str, names: Sequence[str], defaults: Sequence[float | None]
) -> tuple[float, ...] | None:
    """A number for each function; None for a default is a function that reads none. ONNX has them
    consumed in the functions' order, by those that read one; None if all are the defaults."""
    given = [float(v) for v in n.attrs.get(attribute, [])]
    wanted = [d for d in defaults if d is not None]
    if not wanted or not given:
        return None
    if len(given) > len(wanted) and len(set(given)) > 1:
        raise Refused(
            f"{len(given)} values of {attribute} for activations {', '.join(names)}",
            f"give {len(wanted)}: one for each function that reads one, in their order",
        )
    left = iter(given)
    return tuple(0.0 if d is None else next(left, d) for d in defaults)


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
            **_activations(n, kind, directions),
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
