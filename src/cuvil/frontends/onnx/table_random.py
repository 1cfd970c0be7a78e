"""Random numbers as a function of a seed and of each element's position.

Element i of a draw is made from the bits of splitmix64 (Steele, Lea, Flood 2014: "Fast splittable
pseudorandom number generators") at seed + (i + 1) * gamma. A model's artifact is a function: the
same call gives the same numbers again, each trip of a loop others. A node without a seed gets one
from its name and place.
"""

from __future__ import annotations

import hashlib
import math
import struct

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.types import dtype_from
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, F64, I32, I64, U64, DType, Shape
from cuvil.sym.expr import product

_GAMMA = 0x9E3779B97F4A7C15
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_MASK = (1 << 64) - 1


def _mixed(z: int) -> int:
    for shift, factor in _STEPS:
        z = (z ^ z >> shift) * factor & _MASK
    return z ^ z >> 31


def _seed(n: Node, stream: int) -> int:
    """64 bits from the attribute, else from the node; apart for each stream of one node."""
    if "seed" in n.attrs:
        (start,) = struct.unpack("<Q", struct.pack("<d", n.number("seed")))
    else:
        # The number of ops so far tells apart the copies of a body that is written out.
        place = f"{n.e.loc.name} {n.op} {len(list(n.e.block.ops))}"
        start = int.from_bytes(hashlib.sha256(place.encode()).digest()[:8], "little")
    return _mixed((start + stream * _GAMMA) & _MASK)


def uniform(n: Node, shape: Shape, dtype: DType, stream: int = 0) -> Value:
    """Numbers in [0, 1): f64 with 53 random bits, f32 with 24."""
    e = n.e
    count = product(shape)
    start = e.scalar(_seed(n, stream), U64)
    for trip in e.trips:  # each trip of a loop draws anew
        start = _mix(n, e.op("add", e.with_scalar("mul", e.cast(trip, U64), _GAMMA), start))
    step = e.with_scalar("add", e.op("iota", shape=(count,), axis=0, dtype=U64), 1)
    z = _mix(n, e.map("add", e.with_scalar("mul", step, _GAMMA), start))
    bits, whole = (53, I64) if dtype == F64 else (24, I32)
    top = e.cast(e.cast(e.with_scalar("shr", z, 64 - bits), whole), dtype)
    return e.reshape(e.with_scalar("mul", top, 2.0**-bits), shape)


def _mix(n: Node, z: Value) -> Value:
    """As ``_mixed``, of tensors."""
    e = n.e
    for shift, factor in _STEPS:
        z = e.with_scalar("mul", e.op("xor", z, e.with_scalar("shr", z, shift)), factor)
    return e.op("xor", z, e.with_scalar("shr", z, 31))


def _normal(n: Node, shape: Shape, dtype: DType) -> Value:
    """sqrt(-2 ln(1 - u)) cos(2 pi v), standard normal (Box, Muller 1958)."""
    e = n.e
    u, v = (uniform(n, shape, dtype, stream) for stream in (1, 2))
    log = e.op("log", e.map("sub", e.scalar(1, dtype), u))
    radius = e.op("sqrt", e.with_scalar("mul", log, -2))
    return e.op("mul", radius, e.op("cos", e.with_scalar("mul", v, 2 * math.pi)))


def _asked_dtype(n: Node, default: DType | None) -> DType:
    dtype = dtype_from(n.integer("dtype")) if n.integer("dtype", 0) else default or F32
    if not dtype.is_float:
        raise InvalidModelError(f"{n.op}: its result is {dtype}, not a float")
    return dtype


def _scaled(n: Node, shape: Shape, dtype: DType) -> Value:
    """16-bit floats are rounded from f32."""
    e, wide = n.e, F64 if dtype == F64 else F32
    if n.op.startswith("RandomNormal"):
        shift, scale = n.number("mean", 0.0), n.number("scale", 1.0)
        drawn = _normal(n, shape, wide)
    else:
        shift = n.number("low", 0.0)
        scale = n.number("high", 1.0) - shift
        drawn = uniform(n, shape, wide)
    return e.cast(e.with_scalar("add", e.with_scalar("mul", drawn, scale), shift), dtype)


def _of_shape(n: Node) -> Value:
    shape = n.integers("shape")
    if any(d < 0 for d in shape):
        raise InvalidModelError(f"{n.op}: the shape {shape} has a negative dimension")
    return _scaled(n, tuple(shape), _asked_dtype(n, None))


def _like(n: Node) -> Value:
    kind = n.dtype() if n.dtype().is_float else None
    return _scaled(n, n[0].type.shape, _asked_dtype(n, kind))


def _bernoulli(n: Node) -> Value:
    """1 with the probability that the input gives (Bernoulli-15)."""
    x, e = n[0], n.e
    wide = F64 if x.type.dtype == F64 else F32
    drawn = e.op("lt", uniform(n, x.type.shape, wide), e.cast(x, wide))
    return e.cast(drawn, dtype_from(n.integer("dtype")) if "dtype" in n.attrs else x.type.dtype)


def _multinomial(n: Node) -> Value:
    """Classes by their unnormalized log-probabilities [batch, classes] (Multinomial-7).

    The greatest of log-probability + Gumbel noise, -ln(-ln u), is distributed so.
    """
    x, e = n[0], n.e
    batch, classes = x.type.shape
    samples = n.integer("sample_size", 1)
    wide = F64 if x.type.dtype == F64 else F32
    u = e.with_scalar("add", uniform(n, (batch, samples, classes), wide), 2.0**-60)
    noise = e.op("neg", e.op("log", e.op("neg", e.op("log", u))))
    score = e.map("add", e.unsqueeze(e.cast(x, wide), 1), noise)
    best = e.op("argmax", score, axis=2, keepdims=False)
    return e.cast(best, dtype_from(n.integer("dtype", 6)))


def _dropout(n: Node) -> list[Value | None]:
    """data * mask / (1 - ratio) in training mode, else the input (Dropout-12).

    Before opset 12 there is inference alone, a mask of ones with it.
    """
    x, e = n[0], n.e
    kind = BOOL if n.version >= 10 else x.type.dtype
    training: Value | None = None
    if n.version >= 12 and n.has(2):
        known = n.knowledge.array(n[2])
        if known is None:
            training = e.reshape(n[2], ())
        elif known.any():
            training = e.scalar(True, BOOL)
    ratio = e.cast(e.reshape(n[1], ()), F64) if n.version >= 12 and n.has(1) else None
    share = None if ratio is None else n.knowledge.array(ratio)
    if training is None or (share is not None and float(share) == 0.0):
        ones = e.broadcast(e.scalar(1, kind), x.type.shape) if n.wants(1) else None
        return [x, ones]
    ratio = ratio if ratio is not None else e.scalar(0.5, F64)
    wide = F64 if x.type.dtype == F64 else F32
    kept = e.map("ge", uniform(n, x.type.shape, wide), e.cast(ratio, wide))
    kept = e.map("or", kept, e.op("not", training))
    scale = e.op("div", e.scalar(1, F64), e.op("sub", e.scalar(1, F64), ratio))
    scale = e.cast(e.op("select", training, scale, e.scalar(1, F64)), wide)
    out = e.map("mul", e.op("mul", e.cast(x, wide), e.cast(kept, wide)), scale)
    return [e.cast(out, x.type.dtype), e.cast(kept, kind)]


TABLE: dict[str, Handler] = {
    "RandomNormal": _of_shape,
    "RandomNormalLike": _like,
    "RandomUniform": _of_shape,
    "RandomUniformLike": _like,
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "Dropout": _dropout,
}
