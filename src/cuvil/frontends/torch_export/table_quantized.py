"""Quantisation by PyTorch's own tools: the operators of quantized_decomposed, step by step as
torch/ao/quantization/fx/_decomposed.py has them, and products of quantized tensors.

x is multiplied by 1 / scale, never divided by it; what is rounded, and in which type, follows
torch, so that the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Result, Rule
from cuvil.frontends.torch_export.emit import Codes
from cuvil.frontends.torch_export.weights import dtype_from_torch
from cuvil.ir.core import Value
from cuvil.ir.types import F16, F32, F64, I16, I32, I64, DType

_SPACE = "quantized_decomposed::"


def _term(c: Call, item: Any, dtype: DType) -> Term:
    return Term(c.e, c.as_value(item, dtype))


def _parameter(c: Call, name: str) -> Any:
    """A number, which may be given as a tensor of one element: a Python number where it is known,
    else a Value of rank 0."""
    item = c[name]
    if not isinstance(item, Value):
        return item
    known = c.e.constant(item)
    return c.e.reshape(item, ()) if known is None else known.reshape(()).item()


def _clamped(c: Call, steps: Term) -> Value:
    """The nearest end of the range for what is beyond it, as the type asked for."""
    low, high = (_term(c, _parameter(c, f"quant_{end}"), steps.dtype) for end in ("min", "max"))
    return c.e.cast(steps.map("max", low).map("min", high).value, c.dtype)


def _quantize_per_tensor(c: Call) -> Value:
    """clamp(round(x * (1 / scale)) + zero); 1 / scale is computed in f64 and rounded to f32."""
    scale = _parameter(c, "scale")
    if isinstance(scale, Value):
        inverse = (1.0 / _term(c, scale, F64)).cast(F32)
    elif scale == 0:
        raise Refused("its scale is 0")
    else:
        inverse = _term(c, 1.0 / scale, F32)
    steps = (_term(c, c.first, F32) * inverse).map("round")
    return _clamped(c, steps + _term(c, _parameter(c, "zero_point"), F32))


def _fits(x: Value, zero: Any) -> bool:
    """Whether x - zero is sure to be exact in i32: both are integers of 16 bits at most."""
    if not _is_short(x.type.dtype):
        return False
    if not isinstance(zero, Value):
        return isinstance(zero, int) and abs(zero) < 1 << 16
    while zero.op is not None and zero.op.short in ("cast", "reshape"):
        if _is_short(zero.type.dtype) or zero.type.dtype.is_float:
            break
        zero = zero.op.operands[0]
    return _is_short(zero.type.dtype)


def _is_short(dtype: DType) -> bool:
    return not dtype.is_float and dtype.size <= 2


def _dequantize_per_tensor(c: Call) -> Value:
    """(x - zero) * scale, in the type of the result."""
    x, out, e = c.first, c.dtype, c.e
    scale, zero = _parameter(c, "scale"), _parameter(c, "zero_point")
    factor = _term(c, _term(c, scale, F64).value, F32)
    if out != F32 or not _fits(x, zero):
        shifted = Term(e, e.cast(x, out)).cast(F32) - _term(c, zero, F32)
        return (shifted.cast(out).cast(F32) * factor).cast(out).value
    if not isinstance(scale, Value):
        factor = _term(c, scale, F32)
    offset = None if not isinstance(zero, Value) and zero == 0 else c.as_value(zero, I32)
    return _of_codes(c, Codes(x, factor.value, offset))


def _of_codes(c: Call, codes: Codes) -> Value:
    """The f32 value that the codes stand for; products of it may multiply the codes."""
    e = c.e
    after = 0 if codes.axis is None else codes.codes.type.rank - codes.axis - 1

    def spread(value: Value) -> Value:
        return e.reshape(value, (*value.type.shape, *[1] * after)) if value.type.rank else value

    wide = e.cast(codes.codes, I32)
    if codes.zero is not None:
        wide = e.map("sub", wide, spread(codes.zero))
    real = e.map("mul", e.cast(wide, F32), spread(codes.scale))
    e.codes[real] = codes
    return real


def _along(c: Call, name: str) -> Value | None:
    """Parameters with one element a channel, shaped to meet the first operand."""
    value = c.tensor_or_none(name)
    if value is None:
        return None
    rest = c.first.type.rank - c.axis("axis") - 1
    return c.e.reshape(value, (value.type.shape[0], *[1] * rest))


def _quantize_per_channel(c: Call) -> Value:
    """clamp(round(x * (1 / scale)) + zero), where the scales may be f64."""
    scale, zero = _along(c, "scales"), _along(c, "zero_points")
    assert scale is not None and zero is not None
    work = F64 if F64 in (scale.type.dtype, zero.type.dtype) else F32
    steps = (_term(c, c.first, work) * (1.0 / Term(c.e, scale)).cast(work)).map("round")
    return _clamped(c, steps + _term(c, zero, work))


def _known_zero(c: Call, zero: Value | None) -> np.ndarray[Any, Any] | None:
    """Zero points as i32, if they are known integers of a few bits."""
    if zero is None:
        return np.zeros((), np.int32)
    known = c.e.constant(zero)
    if known is None or zero.type.dtype.size < 4 or (abs(known) >= 1 << 16).any():
        return None
    return known.astype(np.int32) if (known == known.astype(np.int32)).all() else None


def _dequantize_per_channel(c: Call) -> Value:
    """(x - zero) * scale in the types that torch promotes to, then rounded to the result's."""
    x, scale, zero, e = c.first, c.tensor("scales"), c.tensor_or_none("zero_points"), c.e
    known = _known_zero(c, zero)
    if _is_short(x.type.dtype) and known is not None and scale.type.dtype == F32 == c.dtype:
        offset = e.weight(known) if known.any() else None
        return _of_codes(c, Codes(x, scale, offset, c.axis("axis")))
    return _shifted(c, x, _along(c, "zero_points"), _along(c, "scales"))


def _shifted(c: Call, x: Value, zero: Value | None, scale: Value | None) -> Value:
    """(x - zero) * scale by torch's rules of promotion, rounded to the result's type."""
    assert scale is not None
    if zero is not None:
        x = c.e.map("sub", *c.e.promote(x, zero))
    return c.e.cast(c.e.map("mul", *c.e.promote(x, scale)), c.dtype)


def _range(c: Call, axes: tuple[int, ...], keepdims: bool) -> tuple[Term, Term]:
    """The least and the greatest element, and 0."""
    x = c.first
    ends = [
        Term(c.e, c.e.op(f"reduce_{name}", x, axes=axes, keepdims=keepdims) if axes else x)
        for name in ("min", "max")
    ]
    return ends[0].map("min", 0), ends[1].map("max", 0)


def _choose_qparams(symmetric: bool) -> Rule:
    """torch.ao.quantization.utils.determine_qparams for one scale."""

    def rule(c: Call) -> Result:
        least, most = c.number("quant_min"), c.number("quant_max")
        low, high = _range(c, tuple(range(c.first.type.rank)), False)
        if symmetric:
            span = (-low).map("max", high) / ((most - least) / 2)
        else:
            span = (high - low) / float(most - least)
        scale = span.cast(F32).map("max", c.number("eps"))
        if symmetric:
            zero = Term(c.e, c.e.scalar(128 if c["dtype"] == torch.uint8 else 0, I64))
        else:
            steps = (low.cast(F32) / scale).map("round").cast(I32)
            zero = (least - steps).map("max", least).map("min", most)
            if least >= -(1 << 15) and most < 1 << 15:
                zero = zero.cast(I16)  # says that it is small
        return [c.e.reshape(t.value, (1,)) for t in (scale.cast(F64), zero.cast(I64))]

    return rule


def _choose_per_token(c: Call) -> Result:
    """The largest magnitude of a row is 127. Torch says that the scales are f64 and the zero
    points i64, and gives floats no wider than the data: ``as_given`` keeps those."""
    if c["dtype"] != torch.int8:
        raise Refused("torch has it for int8 alone")
    x, e = c.first, c.e
    size = e.op("reduce_max", e.op("abs", x), axes=(x.type.rank - 1,), keepdims=True)
    given = Term(e, size).cast(F32) if size.type.dtype == F16 else Term(e, size)
    given = given.map("max", 1e-5) / 127
    scale, zero = e.cast(given.value, F64), e.broadcast(e.scalar(0, I64), given.value.type.shape)
    e.as_given[scale] = given.value
    e.as_given[zero] = e.cast(zero, given.dtype)
    return [scale, zero]


def _choose_per_token_asymmetric(c: Call) -> Result:
    """The range of a row with 0 in it is -128..127; the end with the smaller error is met."""
    low, high = _range(c, (c.first.type.rank - 1,), True)
    scale = ((high - low) / 255.0).map("max", torch.finfo(torch.float32).eps)
    below, above = low / scale, high / scale
    meets_low = ((-128 + below) + (127 + above)).map("gt", 0)
    zero = meets_low.where(-128 - below, 127 - above).map("max", -128).map("min", 127)
    return [scale.cast(F64).value, zero.map("round").cast(I64).value]


def _given(c: Call, name: str) -> Value:
    """A tensor as torch computes it, where that is not what it says of it."""
    value = c.tensor(name)
    return c.e.as_given.get(value, value)


def _rows_quantized(c: Call, x: Value, scale: Value, zero: Value) -> Value:
    """clamp(round(x * (1 / scale) + zero)): the zero point is added before it is rounded."""
    steps = c.e.map("mul", *c.e.promote(x, (1.0 / Term(c.e, scale)).value))
    return _clamped(c, Term(c.e, c.e.map("add", *c.e.promote(steps, zero))).map("round"))


def _quantize_per_token(c: Call) -> Value:
    return _rows_quantized(c, c.first, _given(c, "scales"), _given(c, "zero_points"))


def _dequantize_per_token(c: Call) -> Value:
    return _shifted(c, c.first, _given(c, "zero_points"), _given(c, "scales"))


def _by_groups(rule: Callable[[Call, Value, Value, Value | None], Value]) -> Rule:
    """A rule for a matrix whose rows are cut into groups, each with a scale."""

    def grouped(c: Call) -> Value:
        x, e = c.first, c.e
        rows, size = x.type.shape
        scale, zero = c.tensor("scales"), c.tensor_or_none("zero_points")
        group = int(c.number("group_size"))
        if not isinstance(size, int) or not isinstance(rows, int):
            raise Refused("the sizes of what is cut into groups must be known")
        if group > size and scale.type.shape[-1] == 1:
            group = size
        count = rows * size // group
        parts = [v if v is None else e.reshape(v, (count, 1)) for v in (scale, zero)]
        assert parts[0] is not None
        return e.reshape(rule(c, e.reshape(x, (count, group)), parts[0], parts[1]), (rows, size))

    return grouped


def _int_mm(c: Call) -> Value:
    """Bytes by bytes, summed in i32."""
    return c.e.op("matmul", c.tensor("self"), c.tensor("mat2"), out=I32)


def _weight_int8pack_mm(c: Call) -> Value:
    """x times bytes, the sums in f32 and scaled afterwards."""
    x, w, e = c.tensor("self"), c.tensor("mat2"), c.e
    total = e.op("matmul", e.cast(x, F32), e.cast(w, F32), trans_b=True)
    return e.cast(e.map("mul", total, e.cast(c.tensor("scales"), F32)), c.dtype)


RULES: dict[str, Rule] = {
    f"{_SPACE}quantize_per_tensor": _quantize_per_tensor,
    f"{_SPACE}dequantize_per_tensor": _dequantize_per_tensor,
    f"{_SPACE}quantize_per_channel": _quantize_per_channel,
    f"{_SPACE}dequantize_per_channel": _dequantize_per_channel,
    f"{_SPACE}choose_qparams": _choose_qparams(symmetric=False),
    f"{_SPACE}choose_qparams_symmetric": _choose_qparams(symmetric=True),
    f"{_SPACE}choose_qparams_per_token": _choose_per_token,
    f"{_SPACE}choose_qparams_per_token_asymmetric": _choose_per_token_asymmetric,
    f"{_SPACE}quantize_per_token": _quantize_per_token,
    f"{_SPACE}dequantize_per_token": _dequantize_per_token,
    f"{_SPACE}quantize_per_channel_group": _by_groups(
        lambda c, x, scale, zero: _rows_quantized(c, x, scale, zero)  # type: ignore[arg-type]
    ),
    f"{_SPACE}dequantize_per_channel_group": _by_groups(
        lambda c, x, scale, zero: _shifted(c, x, zero, scale)
    ),
    f"{_SPACE}convert_element_type": lambda c: c.e.cast(c.first, dtype_from_torch(c["dtype"])),
    "_int_mm": _int_mm,
    "_weight_int8pack_mm": _weight_int8pack_mm,
}
