"""Profiles from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call

DYNAMIC = ("--dynamic", "x:0=n:1..8")


def test_bench_and_inspect_show_each_kernel(cuvil_cli: Call, place: Path) -> None:
    few = ("--against", "none", "--seconds", "0.02", "--no-deployment")
    sizes = ("--at", "n=2", "--at", "n=8")
    ran = cuvil_cli("bench", "net.onnx", *DYNAMIC, *sizes, *few, "--per-kernel", "--json")
    assert ran.code == 0
    assert [p["inputs"] for p in ran.json["per_kernel"]] == ["x[2, 6]", "x[8, 6]"]
    kernels = ran.json["per_kernel"][1]["kernels"]
    first = next(k for k in kernels if "first" in k["places"])
    assert first["flops"] >= 2 * 8 * 6 * 5 and first["seconds"] > 0
    assert first["gflops"] is None or first["gflops"] > 0  # it may be too short to tell
    asked = ("inspect", "net.onnx", *DYNAMIC, "--profile", "--at", "n=8", "--trace", "net.json")
    shown = cuvil_cli(*asked)
    assert shown.code == 0 and "GFLOP/s" in shown.out and "of ceiling" in shown.out
    assert all(k["name"].removeprefix("k_") in shown.out for k in kernels)
    events = json.loads((place / "net.json").read_text())["traceEvents"]
    assert sum(e.get("cat") == "kernel" for e in events) >= len(kernels)


def test_what_has_no_clock_is_refused(cuvil_cli: Call) -> None:
    ran = cuvil_cli("compile", "net.onnx", *DYNAMIC, "--instrument", "-o", "net.onnx.c")
    assert ran.code == 3 and "for c has no clock" in ran.err, ran.err


def test_an_artifact_is_profiled_if_it_was_instrumented(cuvil_cli: Call, package: Path) -> None:
    refused = cuvil_cli("inspect", str(package), "--profile")
    assert refused.code == 2 and "--instrument" in refused.err
    made = cuvil_cli("compile", "net.onnx", *DYNAMIC, "--instrument", "-o", "clocked.cuvilpkg")
    assert made.code == 0
    ran = cuvil_cli("inspect", "clocked.cuvilpkg", "--profile", "--at", "n=3", "--json")
    assert ran.code == 0 and ran.json["inputs"] == "x[3, 6]" and ran.json["kernels"]
    assert cuvil_cli("inspect", "clocked.cuvilpkg").code == 0


def test_why_fusion_stopped(cuvil_cli: Call) -> None:
    ran = cuvil_cli("inspect", "net.onnx", *DYNAMIC, "--why-not", "fuse", "--json")
    assert ran.code == 0
    assert any("a contraction reads its operands from memory" in r for r in ran.json["refusals"])


def test_the_profile_of_a_compilation(cuvil_cli: Call, place: Path) -> None:
    ran = cuvil_cli("compile", "net.onnx", "-o", "lib2.so", "--profile", "net.html")
    assert ran.code == 0 and "stage" in ran.out and "capture" in ran.out
    assert (place / "net.html").read_text().startswith("<!doctype html>")


def test_wrong_use(cuvil_cli: Call) -> None:
    for arguments, words in (
        (("inspect", "net.onnx", "--trace", "a.json"), "--trace writes what is profiled"),
        (("inspect", "net.onnx", "--profile", "--trace", "no/a.json"), "there is no folder"),
        (("compile", "net.onnx", "--profile", "net.png"), "end it in .html"),
    ):
        ran = cuvil_cli(*arguments)
        assert ran.code == 2 and words in ran.err, ran.err
