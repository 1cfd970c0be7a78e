"""The small models of c_models.py, quantised by ONNX Runtime's tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

Array = np.ndarray[Any, Any]
FORMS = ("QDQ", "QOperator", "dynamic")


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self.left = [rng.standard_normal(shape).astype(np.float32) for _ in range(8)]

    def get_next(self) -> dict[str, Array] | None:
        return {"input": self.left.pop()} if self.left else None


def quantized(
    make: Callable[[], tuple[torch.nn.Module, torch.Tensor]], form: str, folder: Path
) -> Path:
    """The model as ONNX, quantised in a form: i8 activations with QDQ, otherwise u8; weights are
    i8 per channel."""
    model, x = make()
    plain, made = folder / "plain.onnx", folder / f"{form}.onnx"
    torch.onnx.export(
        model, (x,), str(plain), dynamo=False, input_names=["input"], output_names=["scores"]
    )
    if form == "dynamic":
        quantize_dynamic(str(plain), str(made), weight_type=QuantType.QInt8)
        return made
    kind = QuantType.QInt8 if form == "QDQ" else QuantType.QUInt8
    quantize_static(
        str(plain), str(made), _Samples(tuple(x.shape)), quant_format=QuantFormat[form],
        per_channel=True, activation_type=kind, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return made


def sizes_of_weights(path: Path) -> int:
    """Bytes of the i8 tensors of a model."""
    kept = onnx.load(str(path)).graph.initializer
    return sum(int(np.prod(t.dims)) for t in kept if t.data_type == onnx.TensorProto.INT8)
