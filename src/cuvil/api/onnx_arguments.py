"""Arguments of compiling an ONNX model, checked and brought into the form of its frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.api.tensors import as_array
from cuvil.errors import InputError
from cuvil.errors.arguments import is_list
from cuvil.errors.words import counted, shown, were_given
from cuvil.sym.dim import Dim

_FORMS = 'give a dict by input name and axis, such as {"x": {0: "batch"}}, or {"x": ["batch"]}'

Array = np.ndarray[Any, Any]


def dims_by_input(dynamic: Any) -> dict[str, dict[int, Any]] | None:
    """``dynamic_dims`` as names or Dims by input and axis. Raises InputError for another form."""
    if dynamic is None:
        return None
    if not isinstance(dynamic, Mapping):
        raise InputError(
            f"dynamic_dims of an ONNX model is a dict by input name, not {shown(dynamic)}",
            hint=_FORMS,
        )
    return {name: _by_axis(name, entry) for name, entry in dynamic.items()}


def _by_axis(name: Any, entry: Any) -> dict[int, Any]:
    if entry is None:
        return {}
    if not isinstance(entry, Mapping) and not is_list(entry):
        raise InputError(f"dynamic_dims[{name!r}] is {shown(entry)}", hint=_FORMS)
    found = {}
    for axis, dim in entry.items() if isinstance(entry, Mapping) else enumerate(entry):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise InputError(f"dynamic_dims[{name!r}] names the axis {shown(axis)}", hint=_FORMS)
        if dim is None or dim is False:
            continue
        if isinstance(dim, bool) or not isinstance(dim, (str, int, np.integer, Dim)):
            raise InputError(
                f"dynamic_dims[{name!r}] has the dim {shown(dim)}",
                hint='give a name, or cuvil.Dim("batch", max=64)',
            )
        found[int(axis)] = int(dim) if isinstance(dim, np.integer) else dim
    return found


def examples_by_name(given: Any, names: Sequence[str], fixed: Mapping[str, Any]
                     ) -> dict[str, Array]:  # fmt: skip
    """The example inputs by name, without those that are ``fixed``. Raises InputError for a name
    that no input has, and for too many or too few in a row."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
            if name not in names and name not in fixed:
                raise InputError(
                    f"example_inputs names the input {name!r}, which the model does not have",
                    hint=f"its inputs are {', '.join(map(repr, names)) or 'none'}",
                )
        free = {k: v for k, v in given.items() if k not in fixed}
        return {k: as_array(f"the example of input {k!r}", v) for k, v in free.items()}
    values = given if isinstance(given, (tuple, list)) else (given,)
    if len(values) != len(names):
        raise InputError(
            f"the model has {counted(len(names), 'input')}, of example_inputs "
            f"{were_given(len(values))}",
            hint=f"give one for each of {', '.join(map(repr, names)) or 'none'}",
        )
    named = zip(names, values, strict=True)
    return {n: as_array(f"the example of input {n!r}", v) for n, v in named}
