"""Maps with an operator of their own; which types they are computed in; implicit broadcasting.

Runtimes have few kernels for small integers and bfloat16, so these are computed in a wider type, as
the operators' definitions allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cuvil.frontends.onnx_export.scope import Scope
from cuvil.frontends.onnx_export.types import Array, onnx_type
from cuvil.ir.core import Op, Value
from cuvil.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    Shape,
)

Writer = Callable[[Scope, Op], list[str]]
# Gets the operands in the type that is computed in, and gives the result in it (or bool).
Body = Callable[[Scope, Op, DType, list[str]], str]

WIDE: Mapping[DType, DType] = {BF16: F32, I8: I32, I16: I32, U8: I32, U16: I32, U32: I64}
_IN_F32: Mapping[DType, DType] = {**WIDE, F16: F32}
_CHOSEN: Mapping[DType, DType] = {
    BF16: F32, I8: I32, I16: I32, U16: I32, U32: I64, U64: I64, BOOL: U8,
}  # fmt: skip


def operands(scope: Scope, op: Op) -> list[str]:
    """The names of an op's operands."""
    return [scope.name(v) for v in op.operands]


def known(value: Value) -> Array | None:
    """The elements of a constant, however they are spread."""
    op = value.op
    while op is not None and op.short in ("broadcast", "reshape"):
        op = op.operands[0].op
    return None if op is None or op.short != "constant" else op.attrs["value"].array


def spread_operands(op: Op) -> list[Value]:
    """The operands of a map without broadcasts that ONNX's own broadcasting makes up for."""
    values = [_unspread(v) for v in op.operands]
    for index in range(len(values)):
        if _joined([v.type.shape for v in values]) == op.results[0].type.shape:
            break
        values[index] = op.operands[index]
    return values


def _unspread(value: Value) -> Value:
    while value.op is not None and value.op.short == "broadcast":
        value = value.op.operands[0]
    return value


def _joined(shapes: list[Shape]) -> Shape | None:
    """What NumPy's broadcasting gives, where dims are equal as they are written."""
    rank = max(map(len, shapes))
    out = []
    for axis in range(rank):
        found = {s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0} - {1}
        if len(found) > 1:
            return None
        out.append(found.pop() if found else 1)
    return tuple(out)


@dataclass(frozen=True)
class Map:
    """A map: ``body`` writes it in the type that ``compute`` has for the operands' type."""

    body: Body
    compute: Mapping[DType, DType]

    def __call__(self, scope: Scope, op: Op) -> list[str]:
        values = spread_operands(op) if len(op.operands) > 1 else op.operands
        chosen = op.short == "select"
        source = op.operands[1 if chosen else 0].type.dtype
        dtype = self.compute.get(source, source)
        names = [
            scope.name(v) if chosen and i == 0 else scope.cast(scope.name(v), source, dtype)
            for i, v in enumerate(values)
        ]
        result = op.results[0].type.dtype
        made = self.body(scope, op, dtype, names)
        return [made if result == BOOL != source else scope.cast(made, dtype, result)]


def plain(name: str, compute: Mapping[DType, DType] = WIDE) -> Map:
    """A map that is one node."""
    return Map(lambda s, op, t, a: s.node(name, *a), compute)


def _negative(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Neg", *a) if t.kind != "u" else s.node("Sub", s.number(0, t), *a)


def _absolute(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Abs" if op.operands[0].type.dtype.kind != "u" else "Identity", *a)


def _unequal(s: Scope, op: Op, t: DType, a: list[str]) -> str:
    return s.node("Not", s.node("Equal", *a))


def _logic(name: str, bits: str) -> Map:
    """Of truth values, or of bits."""
    def body(s: Scope, op: Op, t: DType, a: list[str]) -> str:
        return s.node(name if t == BOOL else bits, *a)

    return Map(body, {})


def _number(value: Value) -> float | None:
    """The one number that a constant is everywhere."""
    array = known(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _relu(s: Scope, op: Op) -> str | None:
    """max(x, 0) and min(max(x, low), high) are known by name."""
    x, bound = op.operands
    limit = _number(bound)
    if limit is None or op.type.dtype not in (F32, F64, F16):
        return None
    if op.short == "max":
        return s.node("Relu", s.name(x)) if limit == 0 else None
    inner = x.op
    if inner is None or inner.short != "max" or x.only_user is not op:
        return None
    low = _number(inner.operands[1])
    if low is None or low > limit:
        return None
    ends = [s.number(v, op.type.dtype) for v in (low, limit)]
    return s.node("Clip", s.name(inner.operands[0]), *ends)


def _extreme(name: str, of_bools: str) -> Map:
    def body(s: Scope, op: Op, t: DType, a: list[str]) -> str:
        known_name = _relu(s, op)
        if known_name is not None:
            return known_name
        return s.node(of_bools if t == BOOL else name, *a)

    return Map(body, WIDE)


def _cast(scope: Scope, op: Op) -> list[str]:
    source, to = op.operands[0].type.dtype, op.type.dtype
    attributes: dict[str, object] = {}
    if not op.attrs.get("saturate", True):
        attributes["saturate"] = 0
    if op.attrs.get("round_mode", "up") != "up":
        attributes["round_mode"] = op.attrs["round_mode"]
    name = scope.name(op.operands[0])
    return [scope.cast(name, source, to, **attributes) if source != to else name]


def _bitcast(scope: Scope, op: Op) -> list[str]:
    source, to = op.operands[0].type.dtype, op.type.dtype
    name = scope.name(op.operands[0])
    if source == to:
        return [name]
    if to == BOOL:
        name = scope.node("BitCast", name, to=onnx_type(U8))
        return [scope.cast(name, U8, BOOL)]
    return [scope.node("BitCast", scope.cast(name, source, U8) if source == BOOL else name,
                       to=onnx_type(to))]  # fmt: skip


_COMPARED: Mapping[DType, DType] = {**WIDE, BOOL: I32}
WRITERS: Mapping[str, Writer] = {
    "cast": _cast,
    "bitcast": _bitcast,
    "materialize": lambda s, op: [s.name(op.operands[0])],
    "neg": Map(_negative, WIDE),
    "abs": Map(_absolute, WIDE),
    "sign": plain("Sign", _IN_F32),  # ONNX Runtime loses NaN of float16
    **{
        short: plain(name)
        for short, name in {
            "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt", "exp": "Exp",
            "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
            "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh",
            "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid",
            "softplus": "Softplus", "add": "Add", "sub": "Sub", "mul": "Mul",
        }.items()
    },
    "not": plain("Not"),
    "bitnot": plain("BitwiseNot", {}),
    "isnan": plain("IsNaN", _IN_F32),
    "isinf": plain("IsInf", _IN_F32),
    "and": _logic("And", "BitwiseAnd"),
    "or": _logic("Or", "BitwiseOr"),
    "xor": _logic("Xor", "BitwiseXor"),
    "max": _extreme("Max", "Or"),
    "min": _extreme("Min", "And"),
    "eq": plain("Equal", WIDE),
    "ne": Map(_unequal, WIDE),
    "lt": plain("Less", _COMPARED),
    "le": plain("LessOrEqual", _COMPARED),
    "gt": plain("Greater", _COMPARED),
    "ge": plain("GreaterOrEqual", _COMPARED),
    "select": plain("Where", _CHOSEN),
}  # fmt: skip
