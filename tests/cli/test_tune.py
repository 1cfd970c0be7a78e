"""Tuning from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call


def test_tune_list_and_clear(cuvil_cli: Call, place: Path) -> None:
    made = cuvil_cli("compile", "net.onnx", "--tune", "0.1", "-o", "tuned.cuvilpkg", "--json")
    assert made.code == 0, made.err
    table = made.json["tuning"]
    assert table["kernels"] and made.json["verified"]["passed"]
    (place / "table.json").write_text(json.dumps(table))
    for file in ("table.json", "tuned.cuvilpkg"):
        again = cuvil_cli("compile", "net.onnx", "--tune", file, "-o", "again.cuvilpkg")
        assert again.code == 0 and "the measured kernels took" in again.out
        assert (place / "again.cuvilpkg").read_bytes() == (place / "tuned.cuvilpkg").read_bytes()
    kernels = f"of {len(table['kernels'])} kernels changed, on"
    assert kernels in cuvil_cli("inspect", "tuned.cuvilpkg").out
    shown = cuvil_cli("inspect", "net.onnx", "--ir", "fused", "--tune", "table.json")
    assert shown.code == 0 and "cuvil.fused" in shown.out
    listed = cuvil_cli("cache", "ls", "--json").json["tuned"]
    assert {k["kernel"] for k in table["kernels"]} <= {k["kernel"] for k in listed}
    assert "kernels that were tuned" in cuvil_cli("cache", "ls").out
    cuvil_cli("cache", "clear")
    assert cuvil_cli("cache", "ls", "--json").json["tuned"] == []


def test_wrong_use(cuvil_cli: Call) -> None:
    for asked, words in (("0", "no time to measure for"), ("none.json", "cannot read none.json")):
        ran = cuvil_cli("compile", "net.onnx", "--tune", asked, "-o", "none.cuvilpkg")
        assert ran.code == 2 and words in ran.err, ran.err
