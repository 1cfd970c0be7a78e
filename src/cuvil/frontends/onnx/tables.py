"""All translations by operator name, and why some operators have none."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cuvil.frontends.onnx import (
    table_activation,
    table_attention,
    table_conv,
    table_elementwise,
    table_linear,
    table_movement,
    table_norm,
    table_pool,
    table_quant,
    table_recurrent,
    table_reduce,
    table_resize,
    table_sample,
    table_scatter,
    table_sequence,
    table_shape,
    table_signal,
)
from cuvil.frontends.onnx.node import Handler

_FAMILIES = (
    table_activation,
    table_attention,
    table_conv,
    table_elementwise,
    table_linear,
    table_movement,
    table_norm,
    table_pool,
    table_quant,
    table_recurrent,
    table_reduce,
    table_resize,
    table_sample,
    table_scatter,
    table_sequence,
    table_shape,
    table_signal,
)

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {name: handler for family in _FAMILIES for name, handler in family.TABLE.items()}
)

_TEXT = ("strings are not supported", "do the work on text before the model")
_RANDOM = ("it draws random numbers", "export the model for inference")
_DATA = ("the size of its result depends on data", "run it outside the model")
_OPTIONAL = ("optional values are not supported", "export the model without optional inputs")

REASONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch",
                "TfIdfVectorizer",
            ),
            _TEXT,
        ),
        **dict.fromkeys(
            (
                "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                "Bernoulli", "Multinomial",
            ),
            _RANDOM,
        ),
        **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), _OPTIONAL),
        "NonMaxSuppression": _DATA,
        "ImageDecoder": ("it decodes files", "decode the image before the model"),
        "ai.onnx.preview.training": (
            "operators of training are not supported", "export the model for inference",
        ),
        "ai.onnx.ml": (
            "classical machine learning operators are not supported", "run that part outside",
        ),
    }
)  # fmt: skip
