"""A module in f64: what its f32 computation would be without rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.ir.core import Block, Function, Module, Op, Value, Weight
from cuvil.ir.types import F32, F64, DType, TensorType


def widened(module: Module) -> Module:
    """A copy whose values, weights and attributes are f64 wherever they are f32 here.

    Weights keep their values, so the copy computes the same function more exactly. What an op
    rounds to f32 on purpose (a cast) stays in f64 too.
    """
    old = module.main
    main = Function(
        old.name,
        _block(old.body, {}),
        list(old.input_names),
        list(old.output_names),
        dict(old.symbols),
        list(old.constraints),
    )
    return Module(main, module.name, module.stage, dict(module.call), dict(module.source))


def _block(block: Block, values: dict[Value, Value]) -> Block:
    new = Block([_type(v.type) for v in block.args], [v.name for v in block.args])
    values.update(zip(block.args, new.args, strict=True))
    for op in block.ops:
        new._append(_op(op, values))
    return new


def _op(op: Op, values: dict[Value, Value]) -> Op:
    new = Op(
        op.name,
        [values.get(v, v) for v in op.operands],
        [_type(v.type) for v in op.results],
        _attrs(op.attrs),
        [_block(region, values) for region in op.regions],
        op.loc,
    )
    for before, after in zip(op.results, new.results, strict=True):
        after.name = before.name
        values[before] = after
    return new


def _type(type: TensorType) -> TensorType:
    return type.with_dtype(F64) if type.dtype == F32 else type


def _attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _attr(value) for name, value in attrs.items()}


def _attr(value: Any) -> Any:
    if isinstance(value, DType) and value == F32:
        return F64
    if isinstance(value, TensorType):
        return _type(value)
    if isinstance(value, Weight) and value.array.dtype == np.float32:
        return Weight(value.array.astype(np.float64), value.name)
    if isinstance(value, (tuple, list)):
        return type(value)(_attr(v) for v in value)
    return value
