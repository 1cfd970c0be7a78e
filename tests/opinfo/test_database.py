"""The whole of PyTorch's operator database: right in every sample, or refused where that is known.

One test a family, so that pytest-xdist spreads them. ``refused.json`` has the operators that are
refused for some of their samples, with a reason; ``python -m tools.opinfo --refusals`` writes it.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from tools.opinfo.apart import judge_apart
from tools.opinfo.samples import operators, outside

# Prefixes with a dot, and the rest by their first letter.
FAMILIES = ("fft.", "linalg.", "masked.", "nn.", "signal.", "special.", "torch.",
            *string.ascii_letters, "_")  # fmt: skip
REFUSED = Path(__file__).with_name("refused.json")


def family_of(name: str) -> str:
    """The family an operator is tested with."""
    return next(f for f in FAMILIES if name.startswith(f))


@pytest.fixture(scope="module")
def infos() -> dict[str, Any]:
    return operators()


def refusals() -> dict[str, str]:
    """Why operators are refused for some of their samples."""
    return dict(json.loads(REFUSED.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("family", FAMILIES)
def test_right_or_known_to_be_refused(infos: dict[str, Any], family: str) -> None:
    """Never wrong, never another error, and never refused where it was right before."""
    known, problems = refusals(), []
    for name in [n for n in infos if family_of(n) == family]:
        verdict = judge_apart(infos[name], name, seconds=300)
        allowed = ("right", "refused") if name in known else ("right",)
        if verdict.status not in ("skipped", *allowed):
            problems.append(f"{name} is {verdict.status}: {verdict.reasons}")
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", ["inplace", "view", "out", "method", "alias"])
def test_other_forms_keep_the_order_of_a_program(infos: dict[str, Any], form: str) -> None:
    """In place, through views, with out=, as a method and by other names: never wrong."""
    problems = []
    for name in infos:
        verdict = judge_apart(infos[name], name, seconds=120, most=2, patience=1, form=form)
        if verdict.status not in ("right", "refused", "skipped"):
            problems.append(f"{name} is {verdict.status}: {verdict.reasons}")
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_at_most_one_operator_in_twenty_is_refused(infos: dict[str, Any]) -> None:
    judged = [n for n in infos if not outside(n)]
    assert set(refusals()) <= set(judged)
    assert len(refusals()) <= 0.05 * len(judged)
