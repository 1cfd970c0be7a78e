"""LSTM, GRU and RNN layers: torch's weights in ONNX's gate order, one op a layer; a loop where the
state is projected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.projected import projected_lstm, weights_of
from cuvil.frontends.torch_export.table_shape import swap
from cuvil.ir.core import Value

# Where each gate of the op stands in torch's stack of gates.
# lstm: torch i f g o, op i o f c. gru: torch r z n, op z r h.
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def _reordered(c: Call, value: Value, order: Sequence[int]) -> Value:
    """Blocks of rows in another order; done now where the weight is a constant."""
    if len(order) == 1:
        return value
    array = c.e.constant(value)
    if array is not None:
        blocks = np.split(array, len(order), axis=0)
        return c.e.weight(np.concatenate([blocks[k] for k in order], axis=0))
    rows = value.type.shape[0]
    if not isinstance(rows, int):
        raise Refused("recurrent weights of unknown size")
    size = rows // len(order)
    parts = [c.e.slice(value, 0, k * size, (k + 1) * size) for k in order]
    return c.e.op("concat", *parts, axis=0)


def _stacked(c: Call, values: Sequence[Value]) -> Value:
    """One entry a direction."""
    arrays = [c.e.constant(v) for v in values]
    if all(a is not None for a in arrays):
        return c.e.weight(np.stack([a for a in arrays if a is not None]))
    parts = [c.e.unsqueeze(v, 0) for v in values]
    return parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=0)


class _Layers:
    """The parameters of all layers and directions, in the order torch lists them."""

    def __init__(self, c: Call, kind: str) -> None:
        self.c, self.kind = c, kind
        self.layers = int(c["num_layers"])
        self.directions = 2 if c["bidirectional"] else 1
        self.biases = bool(c["has_biases"])
        params = list(c["params"])
        self.each = len(params) // (self.layers * self.directions)
        self.projected = self.each == (5 if self.biases else 3)
        self.params = params

    def parameters(self, layer: int, direction: int) -> list[Value]:
        """Those of one layer and direction."""
        at = (layer * self.directions + direction) * self.each
        return self.params[at : at + self.each]

    def of(self, layer: int) -> list[Value]:
        """w, r and (with biases) b of a layer, as the op wants them."""
        c, order = self.c, _ORDER[self.kind]
        columns: list[list[Value]] = [[], [], []]
        for d in range(self.directions):
            own = [_reordered(c, p, order) for p in self.parameters(layer, d)]
            columns[0].append(own[0])
            columns[1].append(own[1])
            if self.biases:
                columns[2].append(_joined(c, own[2], own[3]))
        return [_stacked(c, column) for column in columns if column]


def _joined(c: Call, first: Value, second: Value) -> Value:
    a, b = c.e.constant(first), c.e.constant(second)
    if a is not None and b is not None:
        return c.e.weight(np.concatenate([a, b]))
    return c.e.op("concat", first, second, axis=0)


def _states(c: Call, states: Sequence[Value], layer: int, directions: int) -> list[Value]:
    return [c.e.slice(s, 0, layer * directions, (layer + 1) * directions) for s in states]


def _recurrent(kind: str, activation: str | None = None) -> Rule:
    def rule(c: Call) -> list[Value]:
        if "batch_sizes" in c.args:
            raise Refused("packed sequences; pass padded ones and their lengths")
        if c.get("train", False) and c.get("dropout", 0) > 0:
            raise Refused("dropout between layers in training mode; call model.eval()")
        layers = _Layers(c, kind)
        x = c.tensor("input")
        states = list(c["hx"]) if isinstance(c["hx"], (list, tuple)) else [c.tensor("hx")]
        if c["batch_first"]:
            x = swap(c, x, 0, 1)
        c.e.context.require(x.type.shape[0], ">=", 1, "a recurrent layer of torch needs a step")
        ends: list[list[Value]] = []
        for layer in range(layers.layers):
            if layers.projected:
                x, last = _projected(c, layers, layer, x, states)
            else:
                x, last = _layer(c, kind, activation, layers, layer, x, states)
            ends.append(last)
        if c["batch_first"]:
            x = swap(c, x, 0, 1)
        finals = [
            parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=0)
            for parts in map(list, zip(*ends, strict=True))
        ]
        return [x, *finals]

    return rule


def _layer(
    c: Call, kind: str, activation: str | None, layers: _Layers, layer: int, x: Value,
    states: Sequence[Value],
) -> tuple[Value, list[Value]]:  # fmt: skip
    """(sequence [T, B, D * H], final states [D, B, H])"""
    own = _states(c, states, layer, layers.directions)
    hidden = own[0].type.shape[-1]
    flags: dict[str, object] = {"has_bias": layers.biases, "has_h0": True}
    if kind == "lstm":
        flags["has_c0"] = True
    if kind == "gru":
        flags["linear_before_reset"] = True
    if activation is not None:
        flags["activations"] = (activation,) * layers.directions
    y, *last = c.e.results(
        kind, x, *layers.of(layer), *own, hidden=hidden,
        direction="bidirectional" if layers.directions == 2 else "forward", **flags,
    )  # fmt: skip
    steps, _, batch, size = y.type.shape
    y = c.e.transpose(y, (0, 2, 1, 3))
    return c.e.reshape(y, (steps, batch, layers.directions * size)), last


def _projected(
    c: Call, layers: _Layers, layer: int, x: Value, states: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """(sequence [T, B, D * P], final states [D, B, P] and [D, B, H])"""
    found = []
    for d in range(layers.directions):
        at = layer * layers.directions + d
        h, cell = (c.e.squeeze(c.e.slice(s, 0, at, at + 1), [0]) for s in states)
        weights = weights_of(layers.parameters(layer, d))
        y, *last = projected_lstm(c, x, weights, h, cell, reverse=d == 1)
        found.append([y, *(c.e.unsqueeze(v, 0) for v in last)])
    ys, hs, cells = zip(*found, strict=True)
    if layers.directions == 1:
        return ys[0], [hs[0], cells[0]]
    return c.e.op("concat", *ys, axis=2), [c.e.op("concat", *v, axis=0) for v in (hs, cells)]


def _cell(kind: str, activation: str | None = None) -> Rule:
    """One step: a sequence of length 1."""

    def rule(c: Call) -> Value | list[Value]:
        x = c.e.unsqueeze(c.tensor("input"), 0)
        states = list(c["hx"]) if isinstance(c["hx"], (list, tuple)) else [c.tensor("hx")]
        order = _ORDER[kind]
        weights = [_reordered(c, c.tensor(n), order) for n in ("w_ih", "w_hh")]
        operands = [_stacked(c, [w]) for w in weights]
        biases = [c.tensor_or_none(n) for n in ("b_ih", "b_hh")]
        flags: dict[str, object] = {"has_bias": biases[0] is not None, "has_h0": True}
        if biases[0] is not None and biases[1] is not None:
            both = [_reordered(c, b, order) for b in biases if b is not None]
            operands.append(_stacked(c, [_joined(c, *both)]))
        if kind == "lstm":
            flags["has_c0"] = True
        if kind == "gru":
            flags["linear_before_reset"] = True
        if activation is not None:
            flags["activations"] = (activation,)
        starts = [c.e.unsqueeze(s, 0) for s in states]
        hidden = states[0].type.shape[-1]
        _, *last = c.e.results(
            kind, x, *operands, *starts, hidden=hidden, direction="forward", **flags
        )
        out = [c.e.squeeze(s, [0]) for s in last]
        return out if kind == "lstm" else out[0]

    return rule


RULES: dict[str, Rule] = {
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    "rnn_tanh": _recurrent("rnn"),
    "rnn_relu": _recurrent("rnn", "relu"),
    "lstm_cell": _cell("lstm"),
    "gru_cell": _cell("gru"),
    "rnn_tanh_cell": _cell("rnn"),
    "rnn_relu_cell": _cell("rnn", "relu"),
}
