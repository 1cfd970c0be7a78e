"""All translations by domain and operator name, and why some operators have none.

A family is a module with a ``TABLE``; a domain of operators is a line of ``_DOMAINS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType

from cuvil.frontends.onnx import (
    table_activation,
    table_attention,
    table_conv,
    table_deform,
    table_elementwise,
    table_linear,
    table_ml_encode,
    table_ml_features,
    table_ml_linear,
    table_ml_maps,
    table_ml_trees,
    table_movement,
    table_ms_activation,
    table_ms_attention,
    table_ms_blocks,
    table_ms_dense,
    table_ms_gqa,
    table_ms_norm,
    table_ms_other,
    table_ms_product,
    table_ms_quant,
    table_ngram,
    table_norm,
    table_pool,
    table_quant,
    table_quant_product,
    table_random,
    table_recurrent,
    table_reduce,
    table_region,
    table_resize,
    table_sample,
    table_scatter,
    table_select,
    table_sequence,
    table_shape,
    table_signal,
    table_training,
)
from cuvil.frontends.onnx.node import Handler

_DOMAINS: Mapping[str, Sequence[ModuleType]] = MappingProxyType(
    {
        "": (
            table_activation,
            table_attention,
            table_conv,
            table_deform,
            table_elementwise,
            table_linear,
            table_movement,
            table_ngram,
            table_norm,
            table_pool,
            table_quant,
            table_quant_product,
            table_random,
            table_recurrent,
            table_reduce,
            table_region,
            table_resize,
            table_sample,
            table_scatter,
            table_select,
            table_sequence,
            table_shape,
            table_signal,
        ),
        "com.microsoft": (
            table_ms_activation,
            table_ms_attention,
            table_ms_blocks,
            table_ms_dense,
            table_ms_gqa,
            table_ms_norm,
            table_ms_other,
            table_ms_product,
            table_ms_quant,
        ),
        "ai.onnx.ml": (
            table_ml_encode,
            table_ml_features,
            table_ml_linear,
            table_ml_maps,
            table_ml_trees,
        ),
        table_training.DOMAIN: (table_training,),
    }
)

HANDLERS: Mapping[tuple[str, str], Handler] = MappingProxyType(
    {
        (domain, name): handler
        for domain, families in _DOMAINS.items()
        for family in families
        for name, handler in family.TABLE.items()
    }
)

Reason = tuple[str, str]
_TEXT = ("strings are not supported", "do the work on text before the model")
_DATA = ("the size of its result depends on data", "run it outside the model")
_UNKNOWN = ("there is no translation for it", "express it with other operators")

_REASONS: Mapping[str, Mapping[str, Reason]] = MappingProxyType(
    {
        "": {
            **dict.fromkeys(
                ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"),
                _TEXT,
            ),
            "NonMaxSuppression": _DATA,
            "ImageDecoder": ("it decodes files", "decode the image before the model"),
        },
    }
)  # fmt: skip


def refused_by_name(domain: str, op: str) -> bool:
    """Whether an operator is known and has a reason why it has no translation."""
    return op in _REASONS.get(domain, {})


def reason(domain: str, op: str) -> Reason:
    """Why an operator has no translation, and a way round."""
    return _REASONS.get(domain, {}).get(op, _UNKNOWN)
