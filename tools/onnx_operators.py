"""Write docs/onnx_operators.md: what holds of each ONNX operator, from the onnx package's cases.

``python -m tools.onnx_operators`` runs all cases, interpreted and compiled (a minute), and writes
the page with docs/onnx_cases.json, which has the cases that are not right as they are; with
``--check`` it only says whether the page is what that file gives. That the file is true is checked
by tests/frontends/test_onnx_nodes.py.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from cuvil.frontends.onnx.expansion import defined_by_function
from cuvil.frontends.onnx.load import NEWEST_OPSET
from cuvil.frontends.onnx.table_control import CONTROL
from cuvil.frontends.onnx.tables import HANDLERS, reason
from tools.onnx_cases import NodeCase, Outcome, node_cases, outcomes
from tools.onnx_truth import CORRECTIONS
from tools.pages import table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/onnx_operators.md"
DATA = ROOT / "docs/onnx_cases.json"
_EXPANDED = re.compile("_expanded(_ver[0-9]+)?$")
_HEAD = """# ONNX operators

Written by `python -m tools.onnx_operators` from the operator cases of the `onnx` package {version};
a test runs them all and fails when this page is out of date. A case counts where the reference
interpreter and the compiled code both give what it expects, compared as `onnx.backend.test` does
(relative 1e-3, absolute 1e-7 unless the case says otherwise). {right} of {total} are right.

**Dtypes** are those of the first input (the second of `Where`), with the number of cases that are
right. A case "with values" needs those of some inputs at compile time (`fixed_inputs`), as they
decide shapes. Cases of random numbers are held to dtype, shape and what a draw can give: the
generator is our own, and a function of the seed.
"""


def stored(found: Iterable[Outcome]) -> dict[str, list[str]]:
    """What the data file holds of outcomes: [fixed inputs, why it is not right] by name."""
    return {o.case.name: [o.fixed, o.fault] for o in found if o.fixed != "none" or o.fault}


def page(known: Mapping[str, Sequence[str]]) -> str:
    """The text of the page."""
    cases = node_cases()
    right = sum(not known.get(c.name, ("none", ""))[1] for c in cases)
    parts = [_HEAD.format(version=onnx.__version__, right=right, total=len(cases))]
    groups = _groups(cases)
    domains = sorted({key[0] for key in groups} | {""})
    for domain in domains:
        rows = [_row(name, groups[d, name], known) for d, name in sorted(groups) if d == domain]
        rows += [_untested(name) for name in _without_case(groups)] if not domain else []
        parts.append(f"## {domain or 'ai.onnx'}\n")
        parts.append(table(("Operator", "Opsets", "Dtypes", "With values", "Not right"), rows))
    parts.append(_corrections())
    return "\n".join(parts)


def _groups(cases: Iterable[NodeCase]) -> dict[tuple[str, str], list[NodeCase]]:
    """Cases by domain and operator; an expansion counts for the operator that it expands."""
    found: dict[tuple[str, str], list[NodeCase]] = {}
    owners: dict[str, tuple[str, str]] = {}
    for case in cases:
        if case.operator:
            domain, name = case.operator.rsplit(".", 1)
            owners[case.name] = ("" if domain == "ai.onnx" else domain, name)
    for case in cases:
        base = _EXPANDED.sub("", case.name)
        owner = owners.get(base) or owners.get(case.name) or ("", "several operators")
        found.setdefault(owner, []).append(case)
    return found


def _row(name: str, cases: Sequence[NodeCase], known: Mapping[str, Sequence[str]]) -> Sequence[str]:
    counts: dict[str, list[int]] = {}
    faults: dict[str, int] = {}
    fixed = 0
    for case in cases:
        how, fault = known.get(case.name, ("none", ""))
        count = counts.setdefault(_dtype(name, case), [0, 0])
        count[0] += not fault
        count[1] += 1
        if fault:
            faults[fault] = faults.get(fault, 0) + 1
        elif how != "none":
            fixed += 1
    dtypes = [
        f"{d} {good}" if good == total else f"{d} {good} of {total}"
        for d, (good, total) in sorted(counts.items())
    ]
    versions = sorted({c.version for c in cases if c.operator})
    notes = [f"{fault} ({count})" for fault, count in sorted(faults.items())]
    return [
        name if " " in name else f"`{name}`", ", ".join(map(str, versions)), ", ".join(dtypes),
        str(fixed or ""), "; ".join(notes),
    ]  # fmt: skip


def _dtype(name: str, case: NodeCase) -> str:
    values = list(case.inputs.values())[1 if name == "Where" else 0 :] or list(case.outputs)
    first = values[0]
    while isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, np.ndarray):
        return "none"
    return "string" if first.dtype.kind in "OUT" else str(first.dtype.name)


def _without_case(groups: Mapping[tuple[str, str], Any]) -> list[str]:
    names = {s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}
    return sorted(names - {name for _, name in groups})


def _untested(name: str) -> Sequence[str]:
    """An operator that the package has no case of."""
    known = ("", name) in HANDLERS or ("", name) in CONTROL
    if known or defined_by_function(name, NEWEST_OPSET):
        return [f"`{name}`", "", "no case", "", ""]
    return [f"`{name}`", "", "no case", "", reason("", name)[0]]


def _corrections() -> str:
    lines = [f"- `{name}`: {why}" for name, (_, why) in sorted(CORRECTIONS.items())]
    return "## Expected values that are not the specification's\n\n" + (
        "These cases are held to values computed in f64 from the specification's formula.\n\n"
        + "\n".join(lines) + "\n"
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Write, or with --check compare; 1 where the page is out of date."""
    if arguments not in ([], ["--check"]):
        print("python -m tools.onnx_operators [--check]", file=sys.stderr)
        return 2
    if not arguments:
        with tempfile.TemporaryDirectory() as folder:
            found = stored(outcomes(node_cases(), Path(folder)))
        DATA.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{json.dumps(n)}: {json.dumps(entry)}" for n, entry in sorted(found.items())]
        DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")
        return 0
    if not PAGE.is_file() or not DATA.is_file():
        return 1
    known = json.loads(DATA.read_text(encoding="utf-8"))
    return int(PAGE.read_text(encoding="utf-8") != page(known))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
