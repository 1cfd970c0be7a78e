"""LSTM layers whose state is projected (Sak, Senior and Beaufays 2014), for which ONNX has no op: a
loop over the steps, of any length, around the products that need the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.frontends.torch_export.call import Call
from cuvil.frontends.torch_export.table_shape import reverse as backwards
from cuvil.ir.control import FOR, STEP
from cuvil.ir.core import Value
from cuvil.sym.expr import add


@dataclass(frozen=True)
class Weights:
    """One direction's, as torch lists them: for its gates i, f, g, o of the input and of the state,
    the biases (none or both), and that from what the cell gives to the state."""

    gates: Value
    back: Value
    biases: tuple[Value, ...]
    out: Value


def weights_of(params: Sequence[Value]) -> Weights:
    """The parameters of one layer and direction by what they are for."""
    gates, back, *biases, out = params
    return Weights(gates, back, tuple(biases), out)


def projected_lstm(
    c: Call, x: Value, w: Weights, h: Value, cell: Value, reverse: bool
) -> tuple[Value, Value, Value]:
    """x [T, B, I], h [B, P], c [B, H] -> every step's h [T, B, P], the last h, the last c"""
    e, steps = c.e, x.type.shape[0]
    seen = e.op("matmul", x, w.gates, trans_b=True)
    for bias in w.biases:
        seen = e.map("add", seen, bias)
    with e.region([STEP, h.type, cell.type]) as region:
        step, old, memory = region.own
        at = e.op("sub", e.dims([add(steps, -1)], scalar=True), step) if reverse else step
        back = e.op("matmul", old, w.back, trans_b=True)
        gates = e.op("add", e.op("gather", seen, at, axis=0), back)
        new, kept = _step(c, gates, memory, w.out)
        e.close([new, kept, new])
    stack = h.type.with_shape((steps, *h.type.shape))
    last, kept, y = e.loop(FOR, [], [h, cell], region, [h.type, cell.type, stack], trips=steps)
    return (backwards(c, y, 0) if reverse else y), last, kept


def _step(c: Call, gates: Value, memory: Value, out: Value) -> tuple[Value, Value]:
    """h and c after a step, whose gates' arguments are [B, 4 * H]."""
    e, size = c.e, memory.type.shape[-1]
    i, f, g, o = (
        e.op(name, e.slice(gates, 1, k * size, (k + 1) * size))
        for k, name in enumerate(("sigmoid", "sigmoid", "tanh", "sigmoid"))
    )
    kept = e.op("add", e.op("mul", f, memory), e.op("mul", i, g))
    return e.op("matmul", e.op("mul", o, e.op("tanh", kept)), out, trans_b=True), kept
