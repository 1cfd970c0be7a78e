"""Derivatives: the operator Gradient of ai.onnx.preview.training, written out in reverse mode.

The derivative of y (summed, if it is no scalar) by the tensors ``xs``, which count as independent
of one another and of ``zs``: the walk back from y ends at them. Rules of the derivatives are
those of calculus; an operator without one below is refused where a derivative has to pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.onnx.node import Item, Node, Refused
from cuvil.ir.core import Op, Value

# The derivative by each operand, given the op and the derivative by its result.
Derivative = Callable[[Emitter, Op, Value], Sequence[Value | None]]
DOMAIN = "ai.onnx.preview.training"


def gradient(n: Node, read: Callable[[str], Item | None]) -> list[Value]:
    """The outputs of a Gradient node; ``read`` gives the value of a name of the graph.

    Raises Refused where an operator has no derivative here, or where the derivative is wanted at
    other values than those of the graph.
    """
    names = [*n.attrs.get("xs", ()), *n.attrs.get("zs", ())]
    if len(names) != len(n.inputs) or "y" not in n.attrs:
        raise InvalidModelError(f"Gradient: {len(names)} names for {len(n.inputs)} inputs, or no y")
    for index, name in enumerate(names):
        if read(name) is not n[index]:
            raise Refused(
                f"its input {index} is not the tensor {name!r} itself",
                "take the derivative at the tensors that the graph computes with",
            )
    y = read(n.text("y"))
    if not isinstance(y, Value) or not y.type.dtype.is_float:
        raise Refused("y is no tensor of floats")
    xs = n.values()[: len(n.attrs["xs"])]
    found = _backward(n.e, y, xs, n.values())
    return [found.get(id(x)) or _filled(n.e, x, 0) for x in xs]


def _filled(e: Emitter, like: Value, number: float) -> Value:
    return e.broadcast(e.scalar(number, like.type.dtype), like.type.shape)


def _backward(
    e: Emitter, y: Value, xs: Sequence[Value], stops: Sequence[Value]
) -> dict[int, Value]:
    """id of a value to the derivative of sum(y) by it, for all values between xs and y."""
    needed = _between(e, y, xs, stops)
    total: dict[int, Value] = {id(y): _filled(e, y, 1)}
    ends = {id(v) for v in stops}
    for op in reversed(list(e.block.ops)):
        reached = [r for r in op.results if id(r) in total and id(r) not in ends]
        if id(op) not in needed or not reached:
            continue
        rule = DERIVATIVES.get(op.short)
        if rule is None:
            raise Refused(
                f"there is no derivative of {op.short} (at {op.loc})",
                f"those there are: {', '.join(sorted(DERIVATIVES))}",
            )
        for operand, part in zip(op.operands, rule(e, op, total[id(reached[0])]), strict=True):
            if part is None:
                continue
            old = total.get(id(operand))
            total[id(operand)] = part if old is None else e.op("add", old, part)
    return total


def _between(e: Emitter, y: Value, xs: Sequence[Value], stops: Sequence[Value]) -> set[int]:
    """Ops through which y depends on xs; past ``stops`` nothing is looked at."""
    ends = {id(v) for v in stops}
    wanted = {id(v) for v in xs}
    depends: set[int] = set()
    for op in e.block.ops:
        if any(id(v) in wanted for v in op.operands):
            depends.add(id(op))
            wanted |= {id(r) for r in op.results if id(r) not in ends}
    return depends


def _sub(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [dy, e.op("neg", dy)]


def _mul(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    a, b = op.operands
    return [e.op("mul", dy, b), e.op("mul", dy, a)]


def _div(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    """d(a / b) = da / b - (a / b) db / b"""
    share = e.op("div", dy, op.operands[1])
    return [share, e.op("neg", e.op("mul", share, op.result))]


def _log(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [e.op("div", dy, op.operands[0])]


def _exp(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [e.op("mul", dy, op.result)]


def _sqrt(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [e.op("div", e.with_scalar("mul", dy, 0.5), op.result)]


def _tanh(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    square = e.op("mul", op.result, op.result)
    return [e.op("mul", dy, e.op("sub", _filled(e, square, 1), square))]


def _sigmoid(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    slope = e.op("mul", op.result, e.op("sub", _filled(e, op.result, 1), op.result))
    return [e.op("mul", dy, slope)]


def _matmul(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    """dA = dY B', dB = A' dY; a matrix shared by a batch gets the sum over it."""
    a, b = op.operands
    if op.attrs.get("trans_a") or op.attrs.get("trans_b"):
        raise Refused("there is no derivative of a product with a transposed operand")
    da = e.op("matmul", dy, b, trans_b=True)
    db = e.op("matmul", a, dy, trans_a=True)
    return [_summed_to(e, da, a), _summed_to(e, db, b)]


def _summed_to(e: Emitter, value: Value, like: Value) -> Value:
    """Sum over the dimensions along which ``like`` was repeated to the shape of ``value``."""
    extra = value.type.rank - like.type.rank
    axes = [*range(extra)]
    for axis, size in enumerate(like.type.shape):
        if size == 1 and value.type.shape[axis + extra] != 1:
            axes.append(axis + extra)
    if axes:
        value = e.op("reduce_sum", value, axes=tuple(axes), keepdims=True)
    return e.reshape(value, like.type.shape)


def _broadcast(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [_summed_to(e, dy, op.operands[0])]


def _reshape(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    return [e.reshape(dy, op.operands[0].type.shape)]


def _transpose(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    perm = list(op.attrs["perm"])
    return [e.transpose(dy, [perm.index(i) for i in range(len(perm))])]


def _reduce_sum(e: Emitter, op: Op, dy: Value) -> Sequence[Value | None]:
    shape = op.operands[0].type.shape
    axes = {a % len(shape) for a in op.attrs["axes"]}
    kept = e.reshape(dy, [1 if i in axes else d for i, d in enumerate(shape)])
    return [e.broadcast(kept, shape)]


DERIVATIVES: Mapping[str, Derivative] = {
    "add": lambda e, op, dy: [dy, dy],
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": lambda e, op, dy: [e.op("neg", dy)],
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "matmul": _matmul,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reduce_sum": _reduce_sum,
}
