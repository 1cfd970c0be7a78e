"""How many bytes the tensors of a module need, and whether any machine has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuvil.errors import InvalidModelError
from cuvil.ir.core import Module, Value
from cuvil.ir.signature import MAX_BYTES
from cuvil.sym.expr import evaluate, symbols_of

_MOST = (1 << 63) - 1  # what an int64 counts


def check_sizes(module: Module) -> None:
    """Raise InvalidModelError for a tensor of fixed size that no address space holds, or, where it
    may never lie in memory, that 64 bits can't count."""
    main = module.main
    ends = {id(value) for value in (*main.inputs, *main.outputs)}
    for name, value in tensors(module):
        size = value.type.elements
        if not isinstance(size, int):
            continue
        size *= value.type.dtype.size
        if size > (MAX_BYTES if id(value) in ends else _MOST):
            raise InvalidModelError(
                f"{name} is {value.type}: {size} bytes, more than memory can hold",
                where=str(value.op.loc) if value.op is not None else "",
                hint="give it smaller sizes",
            )


def largest_at(module: Module, sizes: Mapping[str, int]) -> tuple[int, str]:
    """The bytes of the largest input or output at these sizes of symbols, and what it is; those
    that need other symbols are left out. What is between need not lie in memory."""
    best, main = (0, ""), module.main
    ends = {id(value) for value in (*main.inputs, *main.outputs)}
    for name, value in tensors(module):
        count = value.type.elements
        if id(value) not in ends or not symbols_of(count) <= sizes.keys():
            continue
        try:
            size = evaluate(count, sizes) * value.type.dtype.size
        except ZeroDivisionError:
            continue
        if size > best[0]:
            best = (size, f"{name}, {value.type}")
    return best


def tensors(module: Module) -> Iterator[tuple[str, Value]]:
    """Inputs and results with what they are called in a message."""
    main = module.main
    outputs = {id(v): n for n, v in zip(main.output_names, main.outputs, strict=True)}
    for label, value in zip(main.input_names, main.inputs, strict=True):
        yield f"input {label!r}", value
    for op in main.walk():
        for value in op.results:
            output = outputs.get(id(value))
            yield (f"the result of {op.short}" if output is None else f"output {output!r}"), value
