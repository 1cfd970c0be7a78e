"""Every operator has a schema, inference, reference, cost, tolerance class and fusion class."""

from __future__ import annotations

import inspect

import pytest

from cuvil.ops.base import FUSION_CLASSES, TOLERANCE_CLASSES, OpDef
from cuvil.ops.registry import registry

KINDS = (
    "bool", "int", "ints", "float", "floats", "str", "strs", "dim", "dims", "dtype", "weight",
    "attr",
)  # fmt: skip


def faults(definition: OpDef) -> list[str]:
    """What this definition lacks."""
    found = []
    low, high = definition.operands
    if not definition.name.startswith("cuvil.") or not definition.name[6:].isidentifier():
        found.append("its name is not cuvil.<identifier>")
    if low < 0 or (high is not None and high < low):
        found.append(f"its operand counts are {low} to {high}")
    for key, kind in definition.attrs.items():
        if not key.isidentifier() or kind.removesuffix("?") not in KINDS:
            found.append(f"its attribute {key} has the unknown kind {kind!r}")
    for what, function in (
        ("inference", definition.infer),
        ("reference", definition.reference),
        ("cost", definition.cost),
    ):
        if not callable(function) or len(inspect.signature(function).parameters) != 3:
            found.append(f"its {what} does not take three arguments")
    if definition.tolerance not in TOLERANCE_CLASSES:
        found.append(f"its tolerance class is {definition.tolerance!r}")
    if definition.fusion not in FUSION_CLASSES:
        found.append(f"its fusion class is {definition.fusion!r}")
    if definition.fusion == "map" and definition.scalar is None:
        found.append("it is a map without the code of one element")
    return found


@pytest.mark.parametrize("definition", list(registry().values()), ids=lambda d: d.name)
def test_operator_is_complete(definition: OpDef) -> None:
    assert faults(definition) == []
    assert registry()[definition.name] is definition


def test_a_lack_is_seen() -> None:
    good = registry()["cuvil.add"]
    wrong = lambda x: [x]  # noqa: E731
    bad = OpDef("cuvil.x y", "map", good.infer, wrong, (2, 1), {"a": "shape"})  # type: ignore
    assert len(faults(bad)) == 5
