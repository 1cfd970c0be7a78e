"""All translations by domain and operator name, and why some operators have none.

A family is a module with a ``TABLE``: importing it here is all it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from cuvil.frontends.onnx import (  # noqa: F401  (all of them are found by their names)
    table_activation,
    table_attention,
    table_columns,
    table_conv,
    table_deform,
    table_elementwise,
    table_linear,
    table_loss,
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
    table_ms_more,
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
from cuvil.frontends.onnx.widened import widened

# What the name of a family says of its operators' domain; a module may say it itself.
_DOMAINS = (("table_ms_", "com.microsoft"), ("table_ml_", "ai.onnx.ml"), ("table_", ""))


def _domain(name: str, family: ModuleType) -> str:
    usual = next(domain for prefix, domain in _DOMAINS if name.startswith(prefix))
    return getattr(family, "DOMAIN", usual)


def _merge(families: Mapping[str, ModuleType]) -> Mapping[tuple[str, str], Handler]:
    table: dict[tuple[str, str], Handler] = {}
    for module, family in families.items():
        domain = _domain(module, family)
        for name, handler in family.TABLE.items():
            if (domain, name) in table:
                raise ValueError(f"two handlers for {domain}::{name}")
            table[domain, name] = handler if domain else widened(name, handler)
    return MappingProxyType(table)


HANDLERS: Mapping[tuple[str, str], Handler] = _merge(
    {name: value for name, value in globals().items() if name.startswith("table_")}
)

Reason = tuple[str, str]
_TEXT = (
    "it works on strings that are not inputs or constants, or made of those by such operators",
    "do this work on text outside of the model",
)
_RANDOM = ("it draws random numbers", "export the model for inference")
_SEARCH = ("it searches for a sequence, running a model many times", "run the model by itself")
_RAGGED = ("it works on packed (ragged) batches", "give each sequence a row of its own")
_EXPERTS = ("it routes tokens between experts", "use the operators that make up the layer")
_DEVICE = ("it is made for one kind of accelerator", "save the model for the CPU")
_UNKNOWN = ("there is no translation for it", "express it with other operators")

_REASONS: Mapping[str, Mapping[str, Reason]] = MappingProxyType(
    {
        "": {
            **dict.fromkeys(
                ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"),
                _TEXT,
            ),
                "ImageDecoder": (
                    "it decodes files of eight formats, and no decoder is part of an artifact",
                    "decode the image before the model",
                ),
        },
        "com.microsoft": {
            "Tokenizer": _TEXT,
            **dict.fromkeys(("BitmaskDropout", "BitmaskBiasDropout", "SampleOp"), _RANDOM),
            **dict.fromkeys(
                ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _SEARCH
            ),
            **dict.fromkeys(
                (
                    "PackedAttention", "PackedMultiHeadAttention", "PagedAttention",
                    "RemovePadding", "RestorePadding", "GatherPacked",
                ),
                _RAGGED,
            ),
            **dict.fromkeys(("MoE", "QMoE", "MoEPacked", "MoEGroupRouter"), _EXPERTS),
            **dict.fromkeys(
                (
                    "EPContext", "GemmFloat8", "QOrderedAttention", "QOrderedGelu",
                    "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul",
                    "QuantizeWithOrder", "DequantizeWithOrder", "QuantizeBFP", "DequantizeBFP",
                    "Snpe", "MatMulPacked",
                ),
                _DEVICE,
            ),
            "Irfft": ("how it is scaled is not specified", "use DFT with inverse=1, onesided=1"),
        },
    }
)  # fmt: skip


def refused_by_name(domain: str, op: str) -> bool:
    """Whether an operator is known and has a reason why it has no translation."""
    return op in _REASONS.get(domain, {})


def reason(domain: str, op: str) -> Reason:
    """Why an operator has no translation, and a way round."""
    return _REASONS.get(domain, {}).get(op, _UNKNOWN)
