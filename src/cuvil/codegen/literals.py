"""Numbers as C++ text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cuvil.ir.types import BF16, F16, DType


def literal(number: Any, dtype: DType) -> str:
    """A constant in C++."""
    if dtype.is_narrow:
        return f"uint8_t(0x{int(np.asarray(number, dtype.numpy).view(np.uint8)):02x}u)"
    if dtype in (F16, BF16):
        bits = np.asarray(number, dtype.numpy).view(np.uint16)
        return f"uint16_t(0x{int(bits):04x}u)"
    if dtype.name == "bool":
        return "true" if number else "false"
    if dtype.is_integer:
        value = int(number)
        if value == -(1 << 63):
            return f"{dtype.cxx}(-0x7fffffffffffffffll - 1)"
        return f"{dtype.cxx}({value}{'ull' if dtype.kind == 'u' else 'll'})"
    real = float(number)
    suffix = "f" if dtype.name == "f32" else ""
    if math.isnan(real):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(real):
        return f"{'-' if real < 0 else ''}__builtin_inf{suffix}()"
    text = str(np.float32(real)) if suffix else repr(real)
    return f"{text if any(c in text for c in '.e') else text + '.0'}{suffix}"


def from_integer(text: str, dtype: DType) -> str:
    """An int64_t expression converted to an element of ``dtype``."""
    if dtype == F16:
        return f"cuvil::f32_to_f16(float({text}))"
    if dtype == BF16:
        return f"cuvil::f32_to_bf16(float({text}))"
    return f"{dtype.cxx}({text})"
