"""Numbers inside a program: sizes, their arithmetic, and floats made from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from cuvil.frontends.emitter import Emitter
from cuvil.frontends.torch_export.call import Refused
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I64
from cuvil.sym.expr import Dim, Expr

_BINARY: Mapping[str, str] = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
    "mod": "mod", "pow": "pow", "sym_max": "max", "sym_min": "min",
}  # fmt: skip
_UNARY: Mapping[str, str] = {
    "neg": "neg", "sym_sqrt": "sqrt", "_sym_sqrt": "sqrt", "sqrt": "sqrt", "exp": "exp",
    "_sym_exp": "exp", "_sym_log2": "log2", "_sym_sin": "sin", "_sym_cos": "cos",
    "_sym_tanh": "tanh", "abs": "abs",
}  # fmt: skip
_PYTHON: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "pow": operator.pow, "neg": operator.neg,
}  # fmt: skip


_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


def scalar_result(
    e: Emitter, symbols: TorchSymbols, key: str, args: Sequence[Any], meta: Any
) -> Any:
    """The number a node computes: an int or dim, a Python number, or a rank-0 f64 Value.

    Raises Refused where it depends on the data of a tensor.
    """
    if isinstance(meta, (bool, int, float)):
        return meta
    if isinstance(meta, torch.SymInt):
        return _integer(e, symbols, key, args, meta)
    if isinstance(meta, torch.SymBool):
        return None
    if isinstance(meta, torch.SymFloat):
        return _float(e, key, args)
    if meta is None and not args:
        return None
    raise Refused(f"{key} gives {type(meta).__name__}, which Cuvil can't follow")


def _integer(
    e: Emitter, symbols: TorchSymbols, key: str, args: Sequence[Any], meta: torch.SymInt
) -> Dim | Value:
    reads = key in ("item", "_local_scalar_dense") and isinstance(args[0], Value)
    try:
        dim = symbols.dim(meta)
    except Untranslatable:
        pass
    else:
        if reads:
            _require_equal(e, args[0], dim)
        return dim
    if reads:
        known = e.known(args[0])
        if known is not None and len(known) == 1:
            symbols.bind(meta, known[0])
            return known[0]
        return _read(e, symbols, args[0], meta)
    if key == "sym_size" and isinstance(args[0], Value):
        size: Dim = args[0].type.shape[args[1]]
        return size
    if key in _PYTHON and all(isinstance(a, (int, Expr)) for a in args):
        number: Dim = _PYTHON[key](*args)
        return number
    if key in _BINARY and key not in ("truediv", "pow"):
        return e.map(_BINARY[key], *(_as_i64(e, a) for a in args))
    if key == "neg":
        return e.map("neg", _as_i64(e, args[0]))
    raise Refused("an integer depends on a tensor's data")


def _read(e: Emitter, symbols: TorchSymbols, value: Value, meta: torch.SymInt) -> Dim | Value:
    """A number read from a tensor: a late symbol where it can't be negative, as a size is."""
    flat = e.cast(e.reshape(value, (1,)), I64)
    span = symbols.range_of(meta)
    if span is None:
        return e.reshape(flat, ())
    (dim,) = e.bind(flat, ["item"], "a number read from a tensor", [span[1]])
    e.context.require(dim, ">=", span[0], "torch's range of a number read from a tensor")
    symbols.bind(meta, dim)
    return dim


def _require_equal(e: Emitter, value: Value, dim: Dim) -> None:
    """Torch writes a number that the model asserts to equal another as that other: what is in the
    tensor must be it."""
    if e.known(value) != [dim]:
        same = e.map("eq", e.cast(e.reshape(value, ()), I64), e.dims([dim], scalar=True))
        require(e, same)


def require_truth(e: Emitter, node: Node, value: Callable[[Any], Any]) -> None:
    """Demand at run time that a comparison with numbers of a tensor's data holds. Raises Refused
    where the condition is none."""
    require(e, _truth(e, node, value))


def require(e: Emitter, condition: Value) -> None:
    """Demand at run time that a condition on data holds, a bool of one element."""
    flag = e.reshape(condition, (1,))
    (holds,) = e.bind(e.cast(flag, I64), ["holds"], "whether the model's assertion holds", [1])
    e.context.require(holds, ">=", 1, "an assertion of the model about its data")


def _truth(e: Emitter, item: Any, value: Callable[[Any], Any]) -> Value:
    """A condition over numbers as a rank-0 bool."""
    if not isinstance(item, Node) or item.op != "call_function":
        raise Refused("its condition is no comparison")
    key = getattr(item.target, "__name__", "")
    if key in ("sym_not", "not_", "_sym_not"):
        return e.op("not", _truth(e, item.args[0], value))
    if key in ("and_", "or_"):
        return e.op(key[:-1], *(_truth(e, a, value) for a in item.args))
    sides = [value(a) for a in item.args]
    plain = all(isinstance(s, (int, Expr)) or _whole(s) for s in sides)
    if key not in _COMPARED or not plain:
        raise Refused("its condition is no comparison of whole numbers")
    return e.op(key, *(_as_i64(e, s) for s in sides))


def _whole(item: Any) -> bool:
    return isinstance(item, Value) and item.type.dtype == I64 and item.type.rank == 0


def _float(e: Emitter, key: str, args: Sequence[Any]) -> Value:
    """Float arithmetic on sizes happens in f64, as Python does it."""
    values = [_as_f64(e, a) for a in args]
    if key in ("item", "_local_scalar_dense"):
        return e.reshape(values[0], ())
    if key in ("sym_float", "float", "ToFloat"):
        return values[0]
    if key in _BINARY:
        return e.map(_BINARY[key], *values)
    if key in _UNARY:
        return e.map(_UNARY[key], values[0])
    raise Refused(f"the float function {key} of sizes")


def _as_i64(e: Emitter, item: Any) -> Value:
    if isinstance(item, Value):
        return e.cast(item, I64)
    if isinstance(item, Expr):
        return e.dims([item], scalar=True)
    return e.scalar(item, I64)


def _as_f64(e: Emitter, item: Any) -> Value:
    if isinstance(item, Value):
        return e.cast(item, F64)
    if isinstance(item, Expr):
        return e.cast(e.dims([item], scalar=True), F64)
    return e.scalar(item, F64)
