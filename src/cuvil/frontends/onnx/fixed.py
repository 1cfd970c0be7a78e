"""Inputs that become constants of the model itself, for others who read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.external_data_helper import load_external_data_for_model

from cuvil.frontends.onnx.load import Source, load_model


def bind_inputs(source: Source, fixed: Mapping[str, np.ndarray[Any, Any] | None]) -> ModelProto:
    """A copy of a model where the named inputs are initializers, with all its data inside.

    The model is one that was captured, so that its external data is known to lie in its folder.
    """
    model, folder = load_model(source)
    bound = ModelProto()
    bound.CopyFrom(model)
    if folder is not None:
        load_external_data_for_model(bound, folder)
    kept = [value for value in bound.graph.input if value.name not in fixed]
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    tensors = [
        numpy_helper.from_array(np.asarray(a), name)
        for name, a in sorted(fixed.items())
        if a is not None
    ]
    bound.graph.initializer.extend(tensors)
    return bound
