"""Operators on 16-bit floats that are done in f32 and rounded once.

Those that are several steps here: rounding after each would lose digits, and numbers that only an
intermediate sum or square takes out of range. And those whose numbers torch does not round to the
type of the tensor, so that -1e9 times a mask in f16 is no infinity. Others compute in f32 by
themselves, on numbers that are rounded first, as torch's are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.frontends.torch_export.call import Call, Result, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import BF16, F16, F32

STEPS = frozenset({
    "_safe_softmax", "_weight_norm", "_weight_norm_interface", "addcdiv", "addcmul", "angle",
    "cdist", "_cdist_forward", "_euclidean_dist", "_pdist_forward", "pdist", "celu", "corrcoef",
    "cov", "deg2rad", "elu", "embedding_renorm", "float_power", "floor_divide", "frac", "glu",
    "grid_sampler_2d", "grid_sampler_3d", "hardsigmoid", "hardswish", "hypot", "leaky_relu", "lerp",
    "linalg_cross", "linalg_vector_norm", "log10", "log_sigmoid", "log_sigmoid_forward",
    "logaddexp", "logaddexp2", "logcumsumexp", "_logcumsumexp", "logit", "special_logit",
    "logsumexp", "special_logsumexp", "mish", "nanmean", "nansum", "norm", "rad2deg", "renorm",
    "round", "selu", "silu", "sinc", "special_sinc",
    "softplus", "softshrink", "softsign", "special_entr", "special_erfcx", "special_log_ndtr",
    "special_ndtr", "special_xlog1py", "special_xlogy", "std", "std_mean", "tanhshrink",
    "threshold", "trace",
    "_trilinear", "var", "var_mean", "xlogy",
})  # fmt: skip
# Several steps only where a factor is not 1: without one they are a product and a sum.
SCALED = frozenset({
    "add", "addbmm", "addmm", "addmv", "addr", "baddbmm", "index_add", "rsub", "sub", "subtract",
})  # fmt: skip
_SUMS = frozenset({"add", "rsub", "sub", "subtract"})  # their factor is rounded
# Those that take a number, or a tensor of rank 0 of a wider type, as their second operand as it is.
TAKING_NUMBERS = frozenset({
    "div", "divide", "floor_divide", "mul", "multiply", "true_divide",
})  # fmt: skip
_SHORT = (F16, BF16)


def widened(name: str, rule: Rule) -> Rule:
    """The rule, or one that computes in f32 if it takes several steps, or a number as it is.

    Results are rounded to torch's dtype where they are checked against it.
    """
    needs = _NEEDS.get(name)
    if needs is None:
        return rule

    def wide(c: Call) -> Result:
        short = any(isinstance(v, Value) and v.type.dtype in _SHORT for v in c.args.values())
        if not short or not needs(c):
            return rule(c)
        as_is = name in TAKING_NUMBERS
        args = {key: _in_f32(c, item, as_is) for key, item in c.args.items()}
        if name in _SUMS:
            args["alpha"] = _rounded(c, c.get("alpha", 1))
        return rule(replace(c, args=args, wide=True))

    return wide


def _is_scaled(c: Call) -> bool:
    return any(not _is_one(c.get(name, 1)) for name in ("alpha", "beta"))


def _takes_number(c: Call) -> bool:
    if c.dtype not in _SHORT:
        return False
    second = list(c.args.values())[1]
    if isinstance(second, Value):
        return second.type.rank == 0 and second.type.dtype not in _SHORT
    return True


def _is_one(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and factor == 1


def _in_f32(c: Call, item: Any, as_is: bool) -> Any:
    """An operand in f32; a wider one of rank 0, unless it counts ``as_is``, in torch's dtype of the
    result before."""
    if not isinstance(item, Value) or not item.type.dtype.is_float:
        return item
    if item.type.dtype in _SHORT:
        return c.e.cast(item, F32)
    if not as_is and item.type.rank == 0 and c.dtype in _SHORT:
        return c.e.cast(c.e.cast(item, c.dtype), F32)
    return item


def _rounded(c: Call, factor: Any) -> Any:
    """A factor in torch's dtype of the result."""
    if not isinstance(factor, (int, float)) or c.dtype not in _SHORT:
        return factor
    return float(np.asarray(factor, np.float64).astype(c.dtype.numpy))


_NEEDS: Mapping[str, Callable[[Call], bool]] = {
    **dict.fromkeys(STEPS, lambda c: True),
    **dict.fromkeys(SCALED, _is_scaled),
    **dict.fromkeys(TAKING_NUMBERS, _takes_number),
}
