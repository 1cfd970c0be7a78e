"""Operators that users registered: a call of their C++, or back into the process."""

from __future__ import annotations

import json
from typing import Any

from cuvil.codegen.abi import c_string
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.errors import CuvilError
from cuvil.ir.core import Op, Value
from cuvil.ops.custom import CUSTOM, CustomOp
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def custom(op: Op, facts: Facts, target: Target) -> Kernel:
    """The kernel of a registered operator that works on whole tensors (native/custom.hpp)."""
    registered = CUSTOM.of(op.name)
    assert registered is not None
    call = NativeCall(op, facts)
    for prefix, values in (("in", op.operands), ("out", op.results)):
        _tensors(call, prefix, values)
    if registered.python is not None:
        text = c_string(call_text(op, registered))
        fault = call.fault()
        call.line(f"if (!cuvil::host_call({text}, in_tensors, out_tensors)) {fault}->size = 1;")
        return call.finish("host_call.hpp", "")
    call.kernel.sources.add(registered.definition.source if registered.definition else "")
    arguments = [
        _argument(call, key, kind, op.attrs[key])
        for key, kind in registered.attrs.items()
        if key in op.attrs
    ]
    function = f"{registered.namespace}::{registered.function}"
    return call.finish(
        "custom.hpp", f"{function}({', '.join(['in_tensors', 'out_tensors', *arguments])});"
    )


def call_text(op: Op, registered: CustomOp) -> str:
    """What a call back says in JSON: the operator, its attributes and the tensors' dtypes."""
    return json.dumps(
        {
            "op": registered.name,
            "attrs": {key: _plain(op.attrs[key]) for key in registered.attrs if key in op.attrs},
            "inputs": [v.type.dtype.name for v in op.operands],
            "outputs": [v.type.dtype.name for v in op.results],
        }
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tensors(call: NativeCall, prefix: str, values: list[Value]) -> None:
    rows = []
    for index, value in enumerate(values):
        pointer = call.outputs[index] if prefix == "out" else call.input(index)
        shape = value.type.shape
        name = f"{prefix}{index}_shape"
        call.line(f"const int64_t {name}[] = {call.dims(shape or (0,))};")
        elements = call.text(value.type.elements)
        rows.append(f"{{(void*){pointer}, {name}, {len(shape)}, {elements}}}")
    call.line(f"const cuvil::Tensor {prefix}_tensors[] = {{{', '.join(rows) or '{}'}}};")


def _argument(call: NativeCall, key: str, kind: str, value: Any) -> str:
    if kind in ("ints", "floats"):
        element, convert = ("int64_t", _int) if kind == "ints" else ("double", _double)
        items = ", ".join(convert(v) for v in value)
        call.line(f"const {element} {key}_items[] = {{{items or '0'}}};")
        return f"cuvil::List<{element}>{{{key}_items, {len(value)}}}"
    if kind == "str":
        return c_string(str(value))
    if kind == "bool":
        return flag(value)
    return _int(value) if kind == "int" else _double(value)


def _int(value: Any) -> str:
    number = int(value)
    if number == -(1 << 63):
        return "INT64_MIN"
    return f"int64_t({number})"


def _double(value: Any) -> str:
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise CuvilError(f"the attribute {number} of a registered operator can't be written in C++")
    return f"double({number!r})"
