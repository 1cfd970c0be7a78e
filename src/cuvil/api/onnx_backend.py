"""What is built for the target "onnx": the optimised module as an ONNX model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from cuvil.api.capture import need_framework
from cuvil.api.manifest import signature_of
from cuvil.codegen.module import Generated
from cuvil.codegen.weights import WeightLayout
from cuvil.errors import TargetError, UnsupportedNode
from cuvil.ir.core import Module, Weight
from cuvil.package.onnx_model import StoredTensor, pack_model
from cuvil.passes.pipeline import PassOptions
from cuvil.target.base import Target


@dataclass
class GeneratedModel(Generated):
    """What a package holds of an ONNX model, besides its weights."""

    main: bytes = b""
    parts: dict[str, bytes] | None = None


def missing_operators(module: Module) -> list[UnsupportedNode]:
    """The ops that ONNX has no operators for."""
    need_framework("onnx")
    from cuvil.frontends.onnx_export import unsupported_ops

    return unsupported_ops(module)


def generate_onnx(module: Module, target: Target, profile: bool) -> Generated:
    """The model. Raises UnsupportedOpError with all that ONNX has no operators for."""
    need_framework("onnx")
    from cuvil.frontends.onnx_export import export_module

    if module.call.get("host"):
        raise TargetError(
            "this model's strings are handled in Python, before what is compiled",
            hint="keep the source model, or split it after its strings", stage="onnx",
        )  # fmt: skip
    exported = export_module(module, signature_of(module.main).bindings)
    layout = WeightLayout()
    tensors = []
    for w in exported.weights:
        offset = layout.place(Weight(w.array))
        tensors.append(StoredTensor(w.name, w.type, w.dims, offset, w.array.nbytes))
    main, parts = pack_model(exported.head, exported.graph, tensors)
    return GeneratedModel({}, layout, list(exported.functions), main=main, parts=parts)


def packed(generated: Generated) -> GeneratedModel:
    """What :func:`generate_onnx` gave."""
    return cast(GeneratedModel, generated)


def portable(options: PassOptions) -> PassOptions:
    """Nothing is laid out for kernels, and composites that ONNX has stay whole."""
    from cuvil.frontends.onnx_export.tables import COMPOSITES

    return replace(options, kernels=False, composites=COMPOSITES, winograd=False, chains=False)
