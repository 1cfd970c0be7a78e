"""At which sizes of its symbols a model is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.errors import CuvilError
from cuvil.ir.signature import Signature
from cuvil.sym.expr import evaluate
from cuvil.verify.inputs import spread_of_sizes

Array = np.ndarray[Any, Any]
_UNBOUNDED = 64  # what a symbol without an upper bound may go up to for this


def sizes_to_measure(signature: Signature, examples: Mapping[str, Array]) -> dict[str, int]:
    """The sizes of the examples; without any, the middle of each symbol's range where the
    constraints allow that, else sizes that they allow. Raises CuvilError where none were found."""
    if examples or not signature.early:
        return spread_of_sizes(signature, examples)[0]
    middle = {
        s.name: (s.min + (s.highest if s.max is not None else max(s.min, _UNBOUNDED))) // 2
        for s in signature.early
    }
    try:
        shapes = [tuple(evaluate(d, middle) for d in s.dims) for s in signature.inputs]
        return signature.bind(shapes)
    except CuvilError:
        return spread_of_sizes(signature, {})[0]
