"""Why torch.export could not trace a model, in the family of errors and the user's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from cuvil.errors import CuvilError, InvalidModelError, ShapeConstraintError
from cuvil.frontends.torch_export.places import place_of
from cuvil.frontends.torch_export.traced import Traced
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import symbols_of
from cuvil.sym.parse import parse_dim

_SYMBOL = re.compile(r"(?<![A-Wa-wyzYZ_\d])s\d+(?!\d)")  # in "3xs63x9" too

_ATTRIBUTE = re.compile(r"'\w*Tensor' object has no attribute '(\w+)'")
_TYPES = re.compile(r"\bd?type\b")


def asks_for_data(error: BaseException | None) -> bool:
    """Whether a trace failed because the model decides something by values of a tensor."""
    text = f"{type(error).__name__}: {error}"
    return "DataDependent" in text or "data-dependent" in text


def explained(
    error: Exception, traced: Traced, symbols: Mapping[str, str], constraints: Sequence[Constraint]
) -> CuvilError:
    """The export's failure with the place in the model that it came from.

    ``symbols`` maps torch's own names of dims to the user's: where the reason speaks of one, the
    failure is a ShapeConstraintError that says who asked for that dim.
    """
    text = str(error).strip() or type(error).__name__
    first = text.split("\n\n")[0][:600]
    where = place_of(error)
    kind = type(error).__name__
    spoken = [symbols[s] for s in dict.fromkeys(_SYMBOL.findall(first)) if s in symbols]
    first = _SYMBOL.sub(lambda m: _operand(symbols.get(m[0], m[0])), first)
    if "PackedParamsBase" in text:
        return InvalidModelError(
            f"{traced.model_name} holds weights that torch.ao.quantization has packed, which "
            "torch.export can't read",
            hint="compile the module as it was before it was quantized, or quantize it with "
            "torchao: by convert_pt2e or quantize_",
        )
    if _calls_numpy(text):
        return InvalidModelError(
            f"{traced.model_name} computes with NumPy, which torch.export can't trace: {first}",
            where=where,
            hint='write it with functions of torch, or use torch.compile(f, backend="cuvil"), '
            "which knows those of NumPy",
        )
    if asks_for_data(error):
        return InvalidModelError(
            f"{traced.model_name} takes a decision from the values of a tensor: {first}",
            where=where,
            hint="use torch.where, or a size known from the inputs' shapes",
        )
    if spoken or "Constraint" in kind or "constraint" in first.lower():
        return ShapeConstraintError(
            f"the dynamic dims asked for don't fit {traced.model_name}: {first}"
            f"{_who(spoken, traced, constraints)}",
            where=where or traced.model_name,
            hint="make these dims static, or give them bounds, names or constraints under which "
            "this line always runs",
        )
    return InvalidModelError(
        f"{traced.model_name} can't be traced: {kind}: {first}",
        where=where or traced.model_name,
        hint="check that the model runs with the example inputs; make branches on tensors explicit",
        stage="capture",
    )


def _calls_numpy(text: str) -> bool:
    missing = _ATTRIBUTE.search(text)
    method = missing is not None and hasattr(np.ndarray, missing[1])
    return method or ".numpy() is not supported" in text


def other_types(
    error: Exception, model: torch.nn.Module, names: Sequence[str], leaves: Sequence[torch.Tensor]
) -> str:
    """What to do where an error speaks of types and examples have others than the weights."""
    if not _TYPES.search(str(error)):
        return ""
    own = {p.dtype for p in model.parameters() if p.is_floating_point()}
    for name, leaf in zip(names, leaves, strict=False):
        if len(own) == 1 and leaf.is_floating_point() and leaf.dtype not in own:
            (weights,) = own
            return (
                f"the example input {name!r} is {_name(leaf.dtype)}, the model's weights are "
                f"{_name(weights)}: pass it as .to({weights}), or compile model.to({leaf.dtype})"
            )
    return ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _who(dims: Sequence[str], traced: Traced, constraints: Sequence[Constraint]) -> str:
    """One line for each name and constraint that the user gave and these dims are made of."""
    names = sorted({n for text in dims for n in symbols_of(parse_dim(text))})
    lines = []
    for name in names:
        size = traced.sizes.get(name)
        tried = "" if size is None else f", traced at {name} = {size}"
        lines.append(f"  - {name}: {traced.spec.origin(name)}{tried}")
    lines += [f"  - {c}: {c.origin}" for c in constraints if c.symbols() & set(names)]
    return "".join(f"\n{line}" for line in lines)
