"""TorchScript's operators over numbers, strings, lists and dicts, in Python.

Numbers may be torch's symbolic integers, so that sizes stay dynamic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch


class Unset:
    """What is never read: a value behind a break, continue or return."""


UNSET = Unset()


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor (a real one, or one that stands for it while tracing)."""
    return isinstance(value, torch.Tensor)


def _truth(value: Any) -> Any:
    """bool(tensor) stays a tensor: what it decides is decided at run time."""
    return value.to(torch.bool).reshape(()) if is_tensor(value) else bool(value)


def _not(value: Any) -> Any:
    return torch.logical_not(value) if is_tensor(value) else not value


def _number(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def convert(value: Any) -> Any:
        if is_tensor(value):
            return value.item()
        return value if isinstance(value, torch.SymInt) and kind is int else kind(value)

    return convert


def _both(name: str) -> Callable[[Any, Any], Any]:
    tensors = {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor}[name]
    numbers = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[name]

    def apply(a: Any, b: Any) -> Any:
        if is_tensor(a) or is_tensor(b):
            one, other = (x if is_tensor(x) else torch.full((), bool(x)) for x in (a, b))
            return tensors(one, other)
        return numbers(a, b)

    return apply


def _to_tensor(value: Any, dtype: torch.dtype | None = None, *ignored: Any) -> torch.Tensor:
    """Made while the program runs: torch.tensor would be a constant of it, which no branch has."""
    kinds = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}
    kind = kinds.get(type(value))
    if kind is None:
        return torch.tensor(value, dtype=dtype)
    return torch.full((), value, dtype=dtype or kind)


def _delete(items: Any, key: Any) -> None:
    del items[key]


def _extended(items: list[Any], more: list[Any]) -> list[Any]:
    items.extend(more)
    return items


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _set_item(holder: Any, key: Any, value: Any) -> Any:
    holder[key] = value
    return holder


def _slice(items: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return items[start:end:step]


def _insert(items: list[Any], index: int, item: Any) -> None:
    items.insert(index, item)


def _format(text: str, *values: Any) -> str:
    return text.format(*values)


SCALARS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "aten::add": operator.add,
        "aten::sub": operator.sub,
        "aten::mul": operator.mul,
        "aten::div": operator.truediv,
        "aten::floordiv": operator.floordiv,
        "aten::floor_divide": operator.floordiv,
        "aten::remainder": operator.mod,
        "aten::pow": operator.pow,
        "aten::neg": operator.neg,
        "aten::abs": abs,
        "aten::eq": operator.eq,
        "aten::ne": operator.ne,
        "aten::lt": operator.lt,
        "aten::le": operator.le,
        "aten::gt": operator.gt,
        "aten::ge": operator.ge,
        "aten::floor": math.floor,
        "aten::ceil": math.ceil,
        "aten::sqrt": math.sqrt,
        "aten::log": math.log,
        "aten::exp": math.exp,
        "aten::round": round,
        "aten::__and__": _both("and"),
        "aten::__or__": _both("or"),
        "aten::__xor__": _both("xor"),
        "aten::__not__": _not,
        "aten::__is__": operator.is_,
        "aten::__isnot__": operator.is_not,
        "aten::__contains__": operator.contains,
        "aten::__getitem__": operator.getitem,
        "aten::_set_item": _set_item,
        "aten::__derive_index": lambda index, start, step: start + index * step,
        "aten::__range_length": lambda low, high, step: len(range(low, high, step)),
        "aten::Bool": _truth,
        "aten::Int": _number(int),
        "aten::IntImplicit": _number(int),
        "aten::Float": _number(float),
        "aten::FloatImplicit": _number(float),
        "aten::ScalarImplicit": _number(float),
        "aten::item": _number(float),
        "aten::len": len,
        "aten::append": _append,
        "aten::insert": _insert,
        "aten::extend": lambda items, more: items.extend(more),
        "aten::pop": lambda items, index=-1: items.pop(index),
        "aten::add_": _extended,
        "aten::clear": lambda items: items.clear(),
        "aten::copy": lambda items: items.copy(),
        "aten::Delete": _delete,
        "aten::remove": lambda items, item: items.remove(item),
        "aten::reverse": lambda items: items.reverse(),
        "aten::list": list,
        "aten::dict": dict,
        "aten::keys": lambda table: list(table.keys()),
        "aten::values": lambda table: list(table.values()),
        "aten::items": lambda table: list(table.items()),
        "aten::get": lambda table, key, default=None: table.get(key, default),
        "aten::slice": _slice,
        "aten::format": _format,
        "aten::str": str,
        "aten::tensor": _to_tensor,
        "aten::warn": lambda *ignored: None,
        "aten::size": lambda x, axis=None: list(x.shape) if axis is None else x.shape[axis],
        "aten::dim": lambda x: x.dim(),
        "aten::numel": lambda x: x.numel(),
        "aten::is_floating_point": lambda x: x.is_floating_point(),
        "aten::device": lambda x: x.device,
        "prim::device": lambda x: torch.device("cpu"),
        "prim::dtype": lambda x: x.dtype,
        "prim::layout": lambda x: x.layout,
        "prim::is_cuda": lambda x: False,
        "prim::requires_grad": lambda x: False,
        "prim::data": lambda x: x.detach(),
        "prim::unchecked_cast": lambda x: x,
        "prim::unchecked_unwrap_optional": lambda x: x,
        "prim::NumToTensor": _to_tensor,
        "prim::min": lambda *items: min(*items),
        "prim::max": lambda *items: max(*items),
        "prim::abs": abs,
        "prim::Print": lambda *ignored: None,
        "prim::Uninitialized": lambda: UNSET,
        "prim::ListConstruct": lambda *items: list(items),
        "prim::TupleConstruct": lambda *items: tuple(items),
        "prim::TupleIndex": operator.getitem,
        "prim::TupleSlice": lambda items, start, end: items[start:end],
        "prim::DictConstruct": lambda *items: dict(zip(items[::2], items[1::2], strict=True)),
    }
)
# Those that mean a tensor's operator as soon as an operand is a tensor.
OVERLOADED = frozenset(
    f"aten::{name}"
    for name in (
        "add", "sub", "mul", "div", "floor_divide", "floordiv", "remainder", "pow", "neg", "abs",
        "eq", "ne", "lt", "le", "gt", "ge", "floor", "ceil", "sqrt", "log", "exp", "round",
        "__and__", "__or__", "__xor__", "slice", "copy", "add_",
    )
)  # fmt: skip
