"""Random valid graphs for comparing compiled code with the reference interpreter.

A graph is made from a seed alone; here are the steps it may be made of.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cuvil.ir.core import Module, Value
from cuvil.ir.types import BOOL, F16, F32, F64, I32, I64
from cuvil.sym.expr import Dim, evaluate, symbol
from tests.codegen.graph_pool import Graph, Made, Maker, array_of
from tests.ops.values import Array

BINDINGS: tuple[Mapping[str, int], ...] = (
    {"n": 5, "m": 3}, {"n": 1, "m": 1}, {"n": 0, "m": 4}, {"n": 19, "m": 2},
)  # fmt: skip
_SMOOTH = ("tanh", "sigmoid", "erf", "gelu", "silu", "softplus", "sin", "cos", "abs", "neg")
_EXACT_UNARY = ("neg", "abs", "floor", "ceil", "trunc", "sign", "round")


def is_float(value: Value) -> bool:
    """f32, f64 or f16."""
    return value.type.dtype.is_float


def _one(value: Value, exact: bool) -> list[tuple[Value, bool]]:
    return [(value, exact)]


def _unary(g: Graph) -> Made:
    x = g.pick(is_float)
    if x is None:
        return None
    if g._is_exact(x) and g.rng.random() < 0.4:
        return _one(g.e.op(g._choose(list(_EXACT_UNARY)), x), True)
    name = g._choose(list(_SMOOTH))
    return _one(g.e.op(name, x), name in ("neg", "abs") and g._is_exact(x))


def _partner(g: Graph, x: Value) -> Value | None:
    """A value that broadcasts with x: of its shape, a part of it, or a number."""

    def fits(v: Value) -> bool:
        if v.type.dtype != x.type.dtype or v.type.rank > x.type.rank:
            return False
        tail = x.type.shape[x.type.rank - v.type.rank :]
        return all(a == b or a == 1 for a, b in zip(v.type.shape, tail))

    if g.rng.random() < 0.15:
        return _constant(g, x)
    return g.pick(fits)


def _constant(g: Graph, like: Value) -> Value:
    dtype = like.type.dtype
    if g.rng.random() < 0.5 or like.type.rank == 0:
        numbers = [1, 2, 0, -1, 3, 0.5, -0.25]
        number = g._choose(numbers)
        value = g.e.scalar(number if dtype.is_float else int(number), dtype)
    else:
        static = [d if isinstance(d, int) else 1 for d in like.type.shape[-2:]]
        value = g.e.weight(array_of(g.rng, static, dtype))
    g.exact.add(id(value))
    return value


def _binary(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.dtype != BOOL)
    y = _partner(g, x) if x is not None else None
    if x is None or y is None:
        return None
    if g.rng.random() < 0.5:
        x, y = y, x
    whole = x.type.dtype.is_integer
    names = ["add", "sub", "mul", "max", "min"] + (["and", "xor", "div", "mod"] if whole else [])
    name = g._choose(names)
    exact = g._is_exact(x, y) and (whole or name in ("max", "min"))
    return _one(g.e.map(name, x, y), exact)


def _compare(g: Graph) -> Made:
    x = g.pick(lambda v: g._is_exact(v) and v.type.dtype != BOOL)
    y = _partner(g, x) if x is not None else None
    if x is None or y is None or not g._is_exact(y):
        return None
    return _one(g.e.map(g._choose(["lt", "le", "gt", "ge", "eq", "ne"]), x, y), True)


def _select(g: Graph) -> Made:
    c = g.pick(lambda v: v.type.dtype == BOOL)
    if c is None:
        return None
    x = g.pick(lambda v: v.type.shape == c.type.shape)
    y = _partner(g, x) if x is not None else None
    if x is None or y is None:
        return None
    return _one(g.e.map("select", c, x, y), g._is_exact(c, x, y))


def _cast(g: Graph) -> Made:
    x = g.pick()
    assert x is not None
    to = g._choose([F32, F32, F64, F16, I64, I32, BOOL])
    if x.type.dtype == to or (not to.is_float and not g._is_exact(x)):
        return None
    return _one(g.e.op("cast", x, dtype=to), g._is_exact(x))


def _transpose(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 2)
    if x is None:
        return None
    perm = tuple(int(i) for i in g.rng.permutation(x.type.rank))
    return _one(g.e.op("transpose", x, perm=perm), g._is_exact(x))


def _reshape(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    shape = list(x.type.shape)
    at = int(g.rng.integers(len(shape)))
    kind = g.rng.random()
    size = shape[at]
    if kind < 0.35 and at + 1 < len(shape):
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif kind < 0.6:
        shape.insert(at, 1)
    elif kind < 0.75 and 1 in shape:
        shape.remove(1)
    elif isinstance(size, int) and size % 2 == 0 and size:
        shape[at : at + 1] = [2, size // 2] if g.rng.random() < 0.5 else [size // 2, 2]
    else:
        total: Dim = 1
        for d in shape:
            total = total * d
        shape = [total]
    return _one(g.e.op("reshape", x, shape=tuple(shape)), g._is_exact(x))


def _broadcast(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank <= 3)
    if x is None:
        return None
    lead = [g._choose([2, 3, symbol("n") if "n" in g.e.context.symbols else 4])]
    shape = [g._choose([1, 4]) if d == 1 else d for d in x.type.shape]
    return _one(g.e.broadcast(x, (*lead, *shape)), g._is_exact(x))


def _slice(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    axis = int(g.rng.integers(x.type.rank))
    size = x.type.shape[axis]
    step = int(g._choose([1, 1, 1, 2, -1, -2]))
    big = size if isinstance(size, int) else 4
    start, stop = int(g.rng.integers(0, 3)), g._choose([-1, big, 2, 1 << 40])
    if step < 0:
        start, stop = g._choose([-1, 2, 1 << 40]), g._choose([0, -(1 << 40)])
    return _one(g.e.slice(x, axis, start, stop, step), g._is_exact(x))


def _concat(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    axis = int(g.rng.integers(x.type.rank))

    def fits(v: Value) -> bool:
        a, b = list(v.type.shape), list(x.type.shape)
        if len(a) != len(b) or v.type.dtype != x.type.dtype:
            return False
        a[axis] = b[axis] = 0
        return a == b

    parts = [v for v in (g.pick(fits) for _ in range(int(g.rng.integers(1, 4)))) if v is not None]
    parts.insert(int(g.rng.integers(len(parts) + 1)), x)
    return _one(g.e.op("concat", *parts, axis=axis), g._is_exact(*parts))


def _pad(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    lo = [int(g._choose([0, 0, 1, 2])) for _ in x.type.shape]
    hi = [int(g._choose([0, 0, 1, 3])) for _ in x.type.shape]
    static = all(isinstance(d, int) and d > 0 for d in x.type.shape)
    mode = g._choose(["constant", "reflect", "edge", "wrap"]) if static else "constant"
    made = g.e.op("pad", x, lo=tuple(lo), hi=tuple(hi), mode=mode, value=float(g._choose([0, 1])))
    return _one(made, g._is_exact(x))


def _gather(g: Graph) -> Made:
    x = g.pick(lambda v: any(isinstance(d, int) and d > 0 for d in v.type.shape))
    if x is None:
        return None
    axes = [i for i, d in enumerate(x.type.shape) if isinstance(d, int) and d > 0]
    axis = g._choose(axes)
    size = x.type.shape[axis]
    index = g.pick(lambda v: v.type.dtype in (I64, I32) and v.type.rank <= 2 and g._is_exact(v))
    if index is None or g.rng.random() < 0.5:
        shape = g._choose([(), (3,), (2, 2), (0,), (6,)])
        index = g.e.weight(np.asarray(g.rng.integers(-size, size, shape)))
        g.exact.add(id(index))
    else:
        index = g.e.with_scalar("mod", index, size)
    return _one(g.e.op("gather", x, index, axis=axis), g._is_exact(x, index))


def _reduce(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    rank = x.type.rank
    axes = tuple(i for i in range(rank) if g.rng.random() < 0.5) or (rank - 1,)
    if any(x.type.shape[a] == 0 for a in axes):
        return None
    keep = bool(g.rng.random() < 0.5)
    dtype = x.type.dtype
    if dtype == BOOL:
        name = g._choose(["reduce_any", "reduce_all", "reduce_max"])
    elif dtype.is_integer:
        name = g._choose(["reduce_sum", "reduce_max", "reduce_min", "reduce_prod"])
    else:
        name = g._choose(["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"])
    exact = g._is_exact(x) and not (dtype.is_float and name in ("reduce_sum", "reduce_mean"))
    return _one(g.e.op(name, x, axes=axes, keepdims=keep), exact)


def _arg(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1 and g._is_exact(v))
    if x is None:
        return None
    axis = int(g.rng.integers(x.type.rank))
    size = x.type.shape[axis]
    if not isinstance(size, int) or size == 0:
        return None
    keep, last = bool(g.rng.random() < 0.5), bool(g.rng.random() < 0.3)
    name = g._choose(["argmax", "argmin"])
    return _one(g.e.op(name, x, axis=axis, keepdims=keep, last=last), True)


def _centred(g: Graph) -> Made:
    """x and a reduction of it (or of a map of it) meet again, as in every normalisation."""
    x = g.pick(lambda v: is_float(v) and v.type.rank >= 1)
    if x is None:
        return None
    rank = x.type.rank
    axes = tuple(i for i in range(rank) if g.rng.random() < 0.5) or (int(g.rng.integers(rank)),)
    if any(x.type.shape[a] == 0 for a in axes):
        return None
    inner = g.e.op(g._choose(list(_SMOOTH)), x) if g.rng.random() < 0.5 else x
    name = g._choose(["reduce_mean", "reduce_max", "reduce_min", "reduce_sum"])
    total = g.e.op(name, inner, axes=axes, keepdims=True)
    if g.rng.random() < 0.3:
        total = g.e.op(g._choose(["tanh", "abs", "sigmoid"]), total)
    made = g.e.map(g._choose(["sub", "mul", "add", "max"]), g._choose([x, inner]), total)
    return [(made, False), (total, False)]


def _normalise(g: Graph) -> Made:
    x = g.pick(lambda v: is_float(v) and v.type.rank >= 1)
    if x is None:
        return None
    axis = int(g.rng.integers(x.type.rank))
    name = g._choose(["softmax", "softmax", "log_softmax", "layer_norm", "rms_norm"])
    if name.endswith("softmax"):
        return _one(g.e.op(name, x, axis=axis), False)
    flags = {"has_weight": False, **({"has_bias": False} if name == "layer_norm" else {})}
    return _one(g.e.op(name, x, axes_from=axis, eps=1e-2, **flags), False)


def _matmul(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.dtype == F32 and v.type.rank >= 2)
    if x is None:
        return None
    inner = x.type.shape[-1]
    turned = bool(g.rng.random() < 0.3)
    if isinstance(inner, int) and g.rng.random() < 0.6:
        n = int(g._choose([1, 3, 8, 33]))
        scale = np.float32(1 / np.sqrt(max(inner, 1)))
        shape = [n, inner] if turned else [inner, n]
        w = g.e.weight(array_of(g.rng, shape, F32) * scale)
        product = g.e.op("matmul", x, w, trans_b=turned)
        if g.rng.random() < 0.5:
            product = g.e.map("add", product, g.e.weight(array_of(g.rng, [n], F32)))
        if g.rng.random() < 0.3:
            product = g.e.map("mul", product, g.e.weight(array_of(g.rng, [n], F32)))
        return _one(product, False)
    return _one(g.e.op("matmul", x, x, trans_b=True), False)


def _conv(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.dtype == F32 and v.type.rank == 4)
    if x is None or not isinstance(x.type.shape[1], int):
        return None
    if any(d == 0 for d in x.type.shape[1:]):
        return None
    channels = x.type.shape[1]
    depthwise = bool(g.rng.random() < 0.3)
    out = channels if depthwise else int(g._choose([1, 4, 20]))
    w = array_of(g.rng, [out, 1 if depthwise else channels, 3, 3], F32) * np.float32(0.3)
    made = g.e.op(
        "conv", x, g.e.weight(w), strides=(1, int(g._choose([1, 2]))), pads_lo=(1, 1),
        pads_hi=(1, 1), dilations=(1, 1), groups=channels if depthwise else 1, has_bias=False,
    )  # fmt: skip
    if g.rng.random() < 0.6:
        made = g.e.map("add", made, g.e.weight(array_of(g.rng, [out, 1, 1], F32)))
    if g.rng.random() < 0.4:
        made = g.e.map("mul", made, g.e.weight(array_of(g.rng, [out, 1, 1], F32)))
    if g.rng.random() < 0.5:
        made = g.e.with_scalar("max", made, 0.0)
    if g.rng.random() < 0.3:
        made = g.e.op(
            "max_pool", made, kernel=(2, 2), strides=(1, 1), pads_lo=(0, 1), pads_hi=(1, 0),
            dilations=(1, 1),
        )  # fmt: skip
    return _one(made, False)


def _iota(g: Graph) -> Made:
    x = g.pick(lambda v: v.type.rank >= 1)
    if x is None:
        return None
    axis = int(g.rng.integers(x.type.rank))
    made = g.e.op("iota", shape=x.type.shape, axis=axis, dtype=g._choose([I64, F32]))
    return _one(made, True)


MAKERS: tuple[Maker, ...] = (
    _unary, _unary, _binary, _binary, _binary, _compare, _select, _cast, _transpose, _transpose,
    _reshape, _reshape, _broadcast, _slice, _slice, _concat, _concat, _pad, _gather, _reduce,
    _reduce, _reduce, _centred, _centred, _arg, _normalise, _normalise, _matmul, _matmul, _conv,
    _conv, _iota,
)  # fmt: skip


def random_module(seed: int) -> Module:
    """The module of a seed, at stage captured."""
    graph = Graph(seed, MAKERS)
    outputs = graph.outputs()
    return graph.e.finish(outputs, [f"y{i}" for i in range(len(outputs))])


def random_inputs(module: Module, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Inputs of a module for these values of its symbols."""
    rng = np.random.default_rng(seed)
    return {
        name: array_of(rng, [evaluate(d, sizes) for d in value.type.shape], value.type.dtype)
        for name, value in zip(module.main.input_names, module.main.inputs, strict=True)
    }
