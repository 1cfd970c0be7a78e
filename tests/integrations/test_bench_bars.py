"""Bars say which side of a limit a value is on; the benches of single calls measure real calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cuvil
from bench import load, overhead
from bench.bars import Bar, report


def test_a_bar_has_two_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below, above = Bar("time", 2.0, 3.0, "us"), Bar("rate", 0.8, 0.9, "", least=True)
    assert below.holds and not above.holds
    assert not Bar("time", 3.0, 3.0, "us").holds and Bar("rate", 0.9, 0.9, "", least=True).holds
    assert "2 us  below 3: holds" in str(below) and "at least 0.9: MISSED" in str(above)
    assert report([below], None) == 0 and report([below, above], tmp_path / "bars.json") == 1
    assert [b["holds"] for b in json.loads((tmp_path / "bars.json").read_text())] == [True, False]
    assert not Bar("nothing", float("nan"), 1.0, "s").holds


def test_calls_are_measured_from_python_and_from_c(tmp_path: Path) -> None:
    artifact = cuvil.compile(overhead.adding(), threads=1)
    bars = [*overhead.python_bars(artifact, 0.02), overhead.c_bar(artifact, 0.02, tmp_path)]
    values = [b.value for b in bars]
    assert [b.unit for b in bars] == ["us"] * 3 and all(0 < v < 1000 for v in values)
    assert values[2] < values[0]  # C has less to do


def test_what_a_model_needs_is_weights_activations_and_inputs(tmp_path: Path) -> None:
    saved = load.Saved(tmp_path, 100, 20, 3)
    assert saved.needed == 123
