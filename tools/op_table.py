"""Write docs/ops.md: every operator, from the registry and from the calls that the tests compile.

``python -m tools.op_table`` writes the page; with ``--check`` it only says whether the page is
what it would write. A dtype is listed where tests/ops/test_compiled.py compiles calls of it and
holds them to the operator's reference.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cuvil.ir.types import DTYPES, dtype_of
from cuvil.ops.base import OpDef
from cuvil.ops.registry import registry
from tests.ops import test_compiled
from tests.ops.checks import infer
from tests.ops.compiled import Call
from tools.pages import table, write_or_check

PAGE = Path(__file__).resolve().parents[1] / "docs/ops.md"
_DATA_OPERAND = {"select": 1}  # whose dtype says what is computed; elsewhere the first
_FUSION = {
    "source": "data and sizes known before the model runs",
    "map": "one element from the elements at the same place; fuses with everything",
    "movement": "which element goes where, of any dtype; becomes index arithmetic in what reads it",
    "reduce": "along dimensions; maps before and after it join its kernel",
    "contraction": "products summed over a dimension: native templates; maps after it run on the "
    "tile in registers",
    "kernel": "a kernel of its own",
    "control": "what the order of kernels and their sizes hang on",
}
_HEAD = """# Operators

Written by `python -m tools.op_table` from the registry and from the calls that the tests compile; a
test fails when this page is out of date. An operator's definition is its NumPy reference in
`src/cuvil/ops`, and its compiled kernel is held to that.

**Tolerance** of a kernel against its reference: *exact* is the same bits (any NaN for a NaN,
and for `max`, `min` and `sign` either zero); *close* a few units in the last place; *accumulated* a
few rounding errors of the accumulator, relative to the magnitudes that went in.

**Dtypes** are those whose compiled calls are tested. `f16` and `bf16` are computed in `f32`.
Where an attribute's type ends in `?` it may be left out.
"""


def page() -> str:
    """The text of docs/ops.md."""
    parts = [_HEAD]
    for fusion, meaning in _FUSION.items():
        rows = [_row(d) for d in registry().values() if d.fusion == fusion]
        parts.append(f"## {fusion}\n\n{meaning[0].upper()}{meaning[1:]}.\n")
        parts.append(table(("Operator", "Operands", "Attributes", "Tolerance", "Dtypes"), rows))
        notes = [
            f"- `{_short(d)}`: {d.doc}" for d in registry().values() if d.fusion == fusion and d.doc
        ]
        if notes:
            parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


def _short(definition: OpDef) -> str:
    return definition.name.removeprefix("cuvil.")


def _row(definition: OpDef) -> list[str]:
    low, high = definition.operands
    count = str(low) if low == high else f"{low} or more" if high is None else f"{low} to {high}"
    attrs = ", ".join(f"`{name}`: {kind}" for name, kind in definition.attrs.items())
    name = _short(definition)
    return [f"`{name}`", count, attrs, definition.tolerance, ", ".join(_dtypes(name))]


def _dtypes(name: str) -> list[str]:
    """The dtypes that compiled calls of an operator were tested with, in the usual order."""
    found = {_dtype(call) for call in test_compiled._calls(name)}
    return [dtype for dtype in DTYPES if dtype in found]


def _dtype(call: Call) -> str:
    arrays = call.case.arrays
    if arrays:
        return str(dtype_of(arrays[_DATA_OPERAND.get(call.name, 0)].dtype))
    return str(infer(call.name, call.case)[0].dtype)


def main(arguments: list[str]) -> int:
    """0 done, 1 the page is out of date, 2 wrong use."""
    return write_or_check(arguments, PAGE, page, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
