"""Calls without data: tensors on torch's meta device give the types of the outputs.

PyTorch is never imported here: such a tensor can only come from a process that has it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InputError
from cuvil.ir.signature import Signature
from cuvil.runtime.arrays import Slot, is_torch_tensor, torch_dtype, wrong_dtype


def on_meta(value: Any) -> bool:
    """Whether it is a PyTorch tensor that has a shape and a dtype, but no data."""
    return is_torch_tensor(value) and bool(value.is_meta)


def meta_outputs(
    signature: Signature, inputs: Sequence[Slot], outputs: Sequence[Slot], args: Sequence[Any],
    out: Mapping[str, Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Tensors on the meta device of the outputs' shapes and dtypes; nothing is computed.

    All inputs have to be on that device. Raises InputError where one isn't, where a dtype is
    wrong, where the caller gave arrays to write to, and where an output's size depends on data;
    ShapeConstraintError for shapes as a call does.
    """
    if out:
        raise InputError(
            "inputs on the meta device have no data, so there is nothing to write to out",
            hint="leave out= away for shapes alone",
        )
    for value, slot in zip(args, inputs):
        if not on_meta(value):
            raise InputError(
                f"{slot} holds data, while another input is on the meta device and has none",
                hint="pass all inputs with data, or all on the meta device for shapes alone",
            )
        if value.dtype is not torch_dtype(slot):
            raise wrong_dtype(slot, str(value.dtype), f".to({torch_dtype(slot)})")
    for spec in signature.outputs:
        if signature.is_late(spec):
            raise InputError(
                f"the size of output {spec.name!r} depends on data, and the inputs have none",
                hint="pass inputs with data",
            )
    shapes = signature.output_shapes(signature.bind([tuple(value.shape) for value in args]))
    empty: Any = sys.modules["torch"].empty
    return [
        empty(shape, dtype=torch_dtype(slot), device="meta") for shape, slot in zip(shapes, outputs)
    ]
