"""Sets what measuring chose on the kernels that it was measured for.

In and out: a module at stage "fused". A kernel is known by its text: equal kernels have one key,
whatever their weights, places and the model they stand in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from cuvil.errors import InputError
from cuvil.ir.attr_text import attr_text
from cuvil.ir.control import blocks
from cuvil.ir.core import Function, Module, Op
from cuvil.ir.printer import print_op
from cuvil.passes.knobs import (
    ALGORITHM,
    DIRECT,
    TUNE,
    Choice,
    choice_text,
    contraction_of,
    misfit,
)
from cuvil.rewrite.rewriter import Rewriter

LABEL = "tuning"
VARIANTS = "variants"  # the attribute of passes/variants.py
_KEY_DIGITS = 24
_WEIGHT_NAME = re.compile(r'(#cuvil\.(?:dense|weight)<)"(?:[^"\\]|\\.)*"')


def kernel_key(op: Op, symbols: Mapping[str, tuple[int, int | None]]) -> str:
    """The key of a fused op that no tuning has changed: its text without its versions, which
    operands are constants, and the bounds of its symbols."""
    text = _WEIGHT_NAME.sub(r'\1""', print_op(op))
    if VARIANTS in op.attrs:
        text = text.replace(f", {VARIANTS} = {attr_text(op.attrs[VARIANTS])}", "")
    constant = [v.op is not None and v.op.short == "constant" for v in op.operands]
    used = sorted({s for v in (*op.operands, *op.results) for s in v.type.symbols()})
    bounds = [(name, symbols.get(name)) for name in used]
    return hashlib.sha256(f"{text}\n{constant}\n{bounds}".encode()).hexdigest()[:_KEY_DIGITS]


def fused_ops(module: Module) -> Iterator[Op]:
    """The fused ops of a module, those in regions of control flow among them."""
    for block in blocks(module.main):
        for op in block.ops:
            if op.short == "fused":
                yield op


def apply_choices(rewriter: Rewriter, choices: Mapping[str, Choice]) -> None:
    """Set each kernel's choice, if there is one for its key.

    Raises InputError for a choice that a kernel can't take.
    """
    function: Function = rewriter.function
    for op in function.body.ops:
        if op.short == "fused":
            choice = choices.get(kernel_key(op, function.symbols))
            if choice and rewriter.begin(LABEL, op):
                set_choice(rewriter, op, choice)


def set_choice(rewriter: Rewriter, op: Op, choice: Choice) -> None:
    """Set one kernel's choice. Raises InputError for one that the kernel can't take."""
    fault = misfit(op, choice)
    if fault:
        raise InputError(
            f"{op.attrs['name']} can't be tuned by {choice_text(choice)}: {fault}",
            where=str(op.loc),
            hint="use the table of this model, as this version of Cuvil made it",
        )
    rest = {name: value for name, value in choice.items() if name != ALGORITHM}
    if rest:
        rewriter.set_attrs(op, **{TUNE: rest})
    main, algorithm = contraction_of(op), choice.get(ALGORITHM)
    if main is not None and algorithm is not None:
        rewriter.set_attrs(main, algorithm=None if algorithm == DIRECT else algorithm)


def known_kernels(module: Module) -> set[str]:
    """The keys of all kernels of a module to which no choice was applied."""
    return {kernel_key(op, module.main.symbols) for op in fused_ops(module)}
