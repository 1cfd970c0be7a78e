"""Recurrent layers, in ONNX's layout and gate order.

x [T, B, I], w [D, G * H, I], r [D, G * H, H]; then, as the flags say and in this order: b [D, 2 * G
* H] (input biases, then recurrent ones), h0 [D, B, H], c0 [D, B, H], seq_lens [B], p [D, 3 * H].
D is 2 for a bidirectional layer, G the number of gates: lstm 4 (i, o, f, c), gru 3 (z, r, h),
rnn 1. Results: y [T, D, B, H], h [D, B, H], for lstm also c [D, B, H]. Past its own length a
sequence's y is 0 and its state stays; reverse starts at each sequence's last step. A sequence of
length 0 gives zeros. With ``out`` f32, x, w and r may be bf16; all else is f32 then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, F32, Shape, TensorType
from cuvil.ops.base import (
    Array,
    Attrs,
    Cost,
    CostRule,
    Infer,
    OpDef,
    Reference,
    ShapeContext,
    same_dtype,
)
from cuvil.ops.numeric import narrow_to, need_float, need_operands, wide
from cuvil.sym.expr import add, mul, product

GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "rnn": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")
OPTIONAL = ("has_bias", "has_h0", "has_c0", "has_seq_lens", "has_peephole")
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "lstm": ("sigmoid", "tanh", "tanh"),
    "gru": ("sigmoid", "tanh"),
    "rnn": ("tanh",),
}


class Activation(NamedTuple):
    """A gate's function f(x, alpha, beta), how many of the two it reads, and what they are if
    nothing is said."""

    run: Callable[[Array, float, float], Array]
    reads: int = 0
    alpha: float = 0.0
    beta: float = 0.0


# The functions of ONNX LSTM-22, GRU-22 and RNN-22.
ACTIVATIONS: Mapping[str, Activation] = {
    "sigmoid": Activation(lambda x, a, b: 0.5 * (1 + np.tanh(0.5 * x))),
    "tanh": Activation(lambda x, a, b: np.tanh(x)),
    "relu": Activation(lambda x, a, b: np.maximum(x, 0)),
    "softsign": Activation(lambda x, a, b: x / (1 + np.abs(x))),
    "softplus": Activation(lambda x, a, b: np.logaddexp(x, 0)),
    "hard_sigmoid": Activation(lambda x, a, b: np.clip(a * x + b, 0, 1), 2, 0.2, 0.5),
    "scaled_tanh": Activation(lambda x, a, b: a * np.tanh(b * x), 2, 1.0, 1.0),
    "affine": Activation(lambda x, a, b: a * x + b, 2, 1.0, 0.0),
    "leaky_relu": Activation(lambda x, a, b: np.where(x < 0, a * x, x), 1, 0.01),
    "thresholded_relu": Activation(lambda x, a, b: np.where(x <= a, 0, x), 1, 1.0),
    "elu": Activation(lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))), 1, 1.0),
}


class Gate(NamedTuple):
    """An activation by name, with its two numbers."""

    name: str
    alpha: float
    beta: float

    def __call__(self, x: Array) -> Array:
        return ACTIVATIONS[self.name].run(x, self.alpha, self.beta)


def gate_functions(name: str, attrs: Attrs) -> list[list[Gate]]:
    """The functions of each direction of a layer ``name`` (lstm, gru or rnn), as it says or by
    default."""
    each = len(DEFAULTS[name])
    directions = 2 if attrs["direction"] == "bidirectional" else 1
    names = attrs.get("activations") or DEFAULTS[name] * directions
    alphas = attrs.get("alphas") or [ACTIVATIONS[n].alpha for n in names]
    betas = attrs.get("betas") or [ACTIVATIONS[n].beta for n in names]
    flat = [Gate(*one) for one in zip(names, alphas, betas, strict=True)]
    return [flat[at : at + each] for at in range(0, len(flat), each)]


def _named(values: Sequence[TensorType], attrs: Attrs) -> dict[str, TensorType]:
    """The optional operands by the flag that announces them."""
    return dict(zip([f for f in OPTIONAL if attrs.get(f, False)], values[3:], strict=True))


def _check_attrs(attrs: Attrs, name: str) -> int:
    """The number of directions. Raises InvalidModelError for what no kernel knows."""
    if attrs["direction"] not in DIRECTIONS:
        raise InvalidModelError(f"{name}: direction {attrs['direction']!r} is none of {DIRECTIONS}")
    directions = 2 if attrs["direction"] == "bidirectional" else 1
    functions = attrs.get("activations")
    if functions and len(functions) != directions * len(DEFAULTS[name]):
        raise InvalidModelError(f"{name}: {len(functions)} activations for {directions} directions")
    for function in functions or ():
        if function not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise InvalidModelError(f"{name} has no activation {function!r}", hint=f"use {known}")
    for which in ("alphas", "betas"):
        numbers = attrs.get(which)
        if numbers and len(numbers) != len(functions or ()):
            raise InvalidModelError(
                f"{name}: {len(numbers)} {which} for {len(functions or ())} activations"
            )
    return directions


def _infer(name: str) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        directions = _check_attrs(attrs, name)
        need_operands(types, 3 + sum(bool(attrs.get(f, False)) for f in OPTIONAL), name)
        x, w, r = types[:3]
        need_float(x, name)
        if x.rank != 3:
            raise InvalidModelError(f"{name} needs x of shape [time, batch, size], got {x}")
        steps, batch, size = x.shape
        hidden = attrs["hidden"]
        rows = GATES[name] * hidden
        state = (directions, batch, hidden)
        optional = _named(types, attrs)
        lengths = optional.pop("has_seq_lens", None)
        dtype = same_dtype((x, w, r), name)
        if attrs.get("out") is not None:
            dtype = attrs["out"]
            if dtype != F32 or x.dtype not in (F32, BF16):
                raise InvalidModelError(f"{name} of {x.dtype} can't give {dtype}")
        same_dtype((x.with_dtype(dtype), *optional.values()), name)
        _need(ctx, w, (directions, rows, size), f"{name}: w")
        _need(ctx, r, (directions, rows, hidden), f"{name}: r")
        wanted: Mapping[str, Shape] = {
            "has_bias": (directions, 2 * rows),
            "has_h0": state,
            "has_c0": state,
            "has_peephole": (directions, 3 * hidden),
        }
        for flag, t in optional.items():
            _need(ctx, t, wanted[flag], f"{name}: {flag.removeprefix('has_')}")
        if lengths is not None:
            _need(ctx, lengths, (batch,), f"{name}: seq_lens")
            if not lengths.dtype.is_integer:
                raise InvalidModelError(f"{name}: seq_lens must be integers, got {lengths}")
        last = TensorType(state, dtype)
        results = [TensorType((steps, directions, batch, hidden), dtype), last]
        return [*results, last] if name == "lstm" else results

    return infer


def _need(ctx: ShapeContext, type: TensorType, shape: Shape, what: str) -> None:
    if type.rank != len(shape):
        raise InvalidModelError(f"{what} must have shape {list(shape)}, got {type}")
    for i, (have, want) in enumerate(zip(type.shape, shape, strict=True)):
        ctx.same(have, want, f"{what}, dimension {i}")


class _Direction:
    """One direction's parameters, in f64."""

    def __init__(self, name: str, arrays: Sequence[Array], attrs: Attrs, d: int) -> None:
        self.w, self.r = wide(np.asarray(arrays[1]))[d], wide(np.asarray(arrays[2]))[d]
        hidden = attrs["hidden"]
        self.gates = GATES[name]
        batch = np.shape(arrays[0])[1]
        flags = [f for f in OPTIONAL if attrs.get(f, False)]
        given = {f: np.asarray(a) for f, a in zip(flags, arrays[3:], strict=True)}
        none = np.zeros((d + 1, 2 * self.gates * hidden))
        bias = wide(given.get("has_bias", none))[d]
        self.bias_w, self.bias_r = np.split(bias, 2)
        start = np.zeros((d + 1, batch, hidden))
        self.h = wide(given.get("has_h0", start))[d]
        self.c = wide(given.get("has_c0", start))[d]
        peephole = given.get("has_peephole")
        self.peephole = [] if peephole is None else np.split(wide(peephole)[d], 3)
        self.functions = gate_functions(name, attrs)[d]
        clip: float | None = attrs.get("clip")
        self.bound = np.inf if clip is None else clip
        self.attrs = attrs

    def clip(self, v: Array) -> Array:
        """The argument of an activation within the bounds asked for."""
        return np.clip(v, -self.bound, self.bound)

    def projected(self, x: Array) -> list[Array]:
        """x W^T + Wb for each gate."""
        return np.split(x @ self.w.T + self.bias_w, self.gates, axis=-1)

    def lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Hochreiter and Schmidhuber 1997 with peepholes, as ONNX LSTM writes it."""
        f, g, top = self.functions
        back = np.split(h @ self.r.T + self.bias_r, 4, axis=-1)
        i, o, forget, cell = (a + b for a, b in zip(self.projected(x), back, strict=True))
        if self.peephole:
            i, forget = i + self.peephole[0] * c, forget + self.peephole[2] * c
        i, forget = f(self.clip(i)), f(self.clip(forget))
        if self.attrs.get("input_forget", False):
            forget = 1 - i
        c = forget * c + i * g(self.clip(cell))
        if self.peephole:
            o = o + self.peephole[1] * c
        return f(self.clip(o)) * top(c), c

    def gru(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Cho et al. 2014; linear_before_reset applies the reset gate after the product."""
        f, g = self.functions
        z, reset, new = self.projected(x)
        r_z, r_r, r_h = np.split(self.r, 3)
        b_z, b_r, b_h = np.split(self.bias_r, 3)
        z = f(self.clip(z + h @ r_z.T + b_z))
        reset = f(self.clip(reset + h @ r_r.T + b_r))
        if self.attrs["linear_before_reset"]:
            new = g(self.clip(new + reset * (h @ r_h.T + b_h)))
        else:
            new = g(self.clip(new + (reset * h) @ r_h.T + b_h))
        return (1 - z) * new + z * h, c

    def rnn(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """h = f(x W^T + h R^T + b) (Elman 1990)."""
        (f,) = self.functions
        return f(self.clip(self.projected(x)[0] + h @ self.r.T + self.bias_r)), c


def _lengths(arrays: Sequence[Array], attrs: Attrs, steps: int, batch: int) -> Array:
    if not attrs.get("has_seq_lens", False):
        return np.full(batch, steps)
    before = sum(bool(attrs.get(f, False)) for f in OPTIONAL[:3])
    return np.clip(np.asarray(arrays[3 + before]).astype(np.int64), 0, steps)


def _reference(name: str) -> Reference:
    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        x = wide(np.asarray(arrays[0]))
        steps, batch = x.shape[:2]
        lengths = _lengths(arrays, attrs, steps, batch)
        kind = attrs["direction"]
        flags = [False, True] if kind == "bidirectional" else [kind == "reverse"]
        outs: list[tuple[Array, Array, Array]] = []
        with np.errstate(all="ignore"):
            for d, backward in enumerate(flags):
                one = _Direction(name, arrays, attrs, d)
                outs.append(_scan(name, one, x, lengths, backward))
        y = np.stack([o[0] for o in outs], axis=1)
        states = [np.stack([o[k] for o in outs]) for k in range(1, len(results))]
        return [narrow_to(a, t) for a, t in zip([y, *states], results, strict=True)]

    return run


def _scan(
    name: str, one: _Direction, x: Array, lengths: Array, backward: bool
) -> tuple[Array, Array, Array]:
    """(y [T, B, H], last h, last c) of one direction."""
    h, c = one.h, one.c
    step = getattr(one, name)
    y = np.zeros((x.shape[0], *h.shape))
    for t in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        live = (t < lengths)[:, None]
        new_h, new_c = step(x[t], h, c)
        h, c = np.where(live, new_h, h), np.where(live, new_c, c)
        y[t] = np.where(live, h, 0)
    some = (lengths > 0)[:, None] if x.shape[0] else np.ones((len(lengths), 1), bool)
    return y, np.where(some, h, 0), np.where(some, c, 0)


def _cost(name: str) -> CostRule:
    def rule(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
        """Two products a step, and some ten operations a state element."""
        a_unit = add(mul(add(operands[0].shape[2], attrs["hidden"]), 2 * GATES[name]), 10)
        return Cost(mul(product(results[0].shape), a_unit))

    return rule


_ATTRS = {
    "hidden": "int", "direction": "str", **dict.fromkeys(OPTIONAL, "bool?"),
    "activations": "strs?", "alphas": "floats?", "betas": "floats?", "clip": "float?",
    "out": "dtype?",
}  # fmt: skip


def _attrs(name: str) -> dict[str, str]:
    if name == "lstm":
        return {**_ATTRS, "input_forget": "bool?"}
    own = {k: v for k, v in _ATTRS.items() if k not in ("has_c0", "has_peephole")}
    return {**own, "linear_before_reset": "bool"} if name == "gru" else own


DEFS: list[OpDef] = [
    OpDef(
        f"cuvil.{name}", "kernel", _infer(name), _reference(name),
        (3, 8 if name == "lstm" else 6), _attrs(name), "accumulated", _cost(name), doc=doc,
    )
    for name, doc in (
        ("lstm", "y, h, c. activations: f, g, h a direction. input_forget: f = 1 - i."),
        ("gru", "y, h. activations: f, g a direction."),
        ("rnn", "y, h. activations: f a direction."),
    )
]  # fmt: skip
