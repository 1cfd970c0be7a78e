"""Common subexpressions: the same op on the same values is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from cuvil.ir.core import Block, Op, Weight
from cuvil.rewrite.driver import remove_dead
from cuvil.rewrite.rewriter import Rewriter


def eliminate_common(rewriter: Rewriter) -> None:
    """Merge equal ops, first one kept; then drop dead ones."""
    _block(rewriter.function.body, rewriter)
    remove_dead(rewriter.function.body, rewriter)


def _block(block: Block, rewriter: Rewriter) -> None:
    seen: dict[Hashable, Op] = {}
    for op in block.ops:
        if op.regions or not op.results:
            continue
        key = (op.name, tuple(id(v) for v in op.operands), _key(op.attrs), op.results[0].type)
        first = seen.setdefault(key, op)
        if first is not op:
            if not rewriter.begin("common-subexpression", op):
                return
            rewriter.replace(op, first.results)


def _key(attr: Any) -> Hashable:
    if isinstance(attr, dict):
        return tuple(sorted((k, _key(v)) for k, v in attr.items()))
    if isinstance(attr, (list, tuple)):
        return tuple(_key(v) for v in attr)
    if isinstance(attr, Weight):
        return ("weight", attr.digest)
    if isinstance(attr, np.generic):
        return attr.item()  # type: ignore[no-any-return]
    if isinstance(attr, float):
        return ("float", attr.hex())
    if isinstance(attr, bool):
        return ("bool", attr)
    return attr  # type: ignore[no-any-return]
