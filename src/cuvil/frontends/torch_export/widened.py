"""Operators that are several steps here: on 16-bit floats the steps are done in f32, rounded once.

Rounding after each step would lose digits, and numbers that only an intermediate sum or square
takes out of range. An operator that is one step computes in f32 by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cuvil.frontends.torch_export.call import Call, Result, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import BF16, F16, F32

STEPS = frozenset({
    "_safe_softmax", "_weight_norm", "_weight_norm_interface", "addcdiv", "addcmul", "angle",
    "cdist", "_cdist_forward", "_euclidean_dist", "_pdist_forward", "pdist", "celu", "corrcoef",
    "cov", "deg2rad", "elu", "embedding_renorm", "float_power", "floor_divide", "frac", "glu",
    "grid_sampler_2d", "grid_sampler_3d", "hardsigmoid", "hardswish", "hypot", "lerp",
    "linalg_cross", "linalg_vector_norm", "log10", "log_sigmoid", "log_sigmoid_forward",
    "logaddexp", "logaddexp2", "logcumsumexp", "_logcumsumexp", "logit", "special_logit",
    "logsumexp", "special_logsumexp", "mish", "nanmean", "nansum", "norm", "rad2deg", "renorm",
    "selu", "silu", "sinc", "special_sinc",
    "softplus", "softshrink", "softsign", "special_entr", "special_erfcx", "special_log_ndtr",
    "special_ndtr", "special_xlog1py", "special_xlogy", "std", "std_mean", "tanhshrink", "trace",
    "_trilinear", "var", "var_mean", "xlogy",
})  # fmt: skip
# Several steps only where a factor is not 1: without one they are a product and a sum.
SCALED = frozenset({
    "add", "addbmm", "addmm", "addmv", "addr", "baddbmm", "index_add", "rsub", "sub", "subtract",
})  # fmt: skip
_SHORT = (F16, BF16)


def widened(name: str, rule: Rule) -> Rule:
    """The rule, or one that computes in f32 if it takes several steps.

    Results are rounded to torch's dtype where they are checked against it.
    """
    if name not in STEPS and name not in SCALED:
        return rule

    def wide(c: Call) -> Result:
        short = any(isinstance(v, Value) and v.type.dtype in _SHORT for v in c.args.values())
        if not short or (name in SCALED and not _is_scaled(c)):
            return rule(c)
        args = {key: _in_f32(c, item) for key, item in c.args.items()}
        return rule(replace(c, args=args, wide=True))

    return wide


def _is_scaled(c: Call) -> bool:
    return any(not _is_one(c.get(name, 1)) for name in ("alpha", "beta"))


def _is_one(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and factor == 1


def _in_f32(c: Call, item: Any) -> Any:
    short = isinstance(item, Value) and item.type.dtype in _SHORT
    return c.e.cast(item, F32) if short else item
