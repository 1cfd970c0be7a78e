"""Versions of kernels for sizes, and retuning, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from cuvil.api.parsing import parse_variants
from cuvil.cli.variants import dispatch_table
from cuvil.errors import ArtifactError, InputError
from cuvil.ir.signature import Signature
from cuvil.package.manifest import Manifest
from tests.cli.conftest import Call
from tests.frontends.onnx_models import FLOAT, model, node

DAMAGED: list[Any] = [
    3, {}, {"ranges": {"n": 3}}, {"ranges": {"n": [[1]]}, "left_out": 0, "kernels": {}},
    {"ranges": {}, "left_out": 0, "kernels": {"k": [{"kernel": "k", "when": {"n": [1, "x"]}}]}},
]  # fmt: skip


def test_the_table_is_shown(cuvil_cli: Call, place: Path) -> None:
    soft = node("Softmax", ["x"], ["y"], axis=1)
    onnx.save(model([soft], {"x": (FLOAT, ["rows", "n"])}, ["y"]), str(place / "soft.onnx"))
    made = cuvil_cli(
        "compile", "soft.onnx", "--variants", "n=4,16..63", "--retune", "-o", "soft.cuvilpkg"
    )
    assert made.code == 0, made.err
    shown = cuvil_cli("inspect", "soft.cuvilpkg").out
    assert "kernels by size, n = 4, 16 <= n < 64" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["max_sub_exp_sum", "n", "=", "4", "max_sub_exp_sum_n_4"] in lines
    assert ["else", "max_sub_exp_sum"] in lines
    document = cuvil_cli("inspect", "soft.cuvilpkg", "--json").json
    assert document["extra"]["by_size"]["ranges"] == {"n": [[4, 5], [16, 64]]}
    assert document["extra"]["retune"]["ranges"] == [{"n": [4, 5]}, {"n": [16, 64]}, {}]
    shown = cuvil_cli("inspect", "soft.onnx", "--ir", "fused", "--variants", "n=4")
    assert shown.code == 0 and "variants = [{when = {n = array<i64: 4, 5>}}]" in shown.out


def test_a_model_where_nothing_differs_says_so(cuvil_cli: Call, place: Path) -> None:
    words = ("--variants", "n=4", "-o", "same.cuvilpkg")
    product = node("MatMul", ["x", "x"], ["y"])
    onnx.save(model([product], {"x": (FLOAT, ["n", "n"])}, ["y"]), str(place / "same.onnx"))
    assert cuvil_cli("compile", "same.onnx", *words).code == 0
    assert "n = 4: no kernel's code differs" in cuvil_cli("inspect", "same.cuvilpkg").out


def test_words_are_read() -> None:
    assert parse_variants(["n=1,4,16..63,64..", "batch=2"]) == {
        "n": [1, 4, [16, 64], [64, None]], "batch": [2]
    }  # fmt: skip
    assert parse_variants(["auto"]) == "auto"


@pytest.mark.parametrize("text", ["n", "n=", "=4", "n=x", "n=4;5", "n=..4", "n=-1", "4"])
def test_wrong_words_are_refused(cuvil_cli: Call, text: str) -> None:
    with pytest.raises(InputError, match="cannot read the variants"):
        parse_variants([text])
    ran = cuvil_cli("compile", "net.onnx", "--variants", text, "-o", "none.cuvilpkg")
    assert ran.code == 2 and "cannot read the variants" in ran.err


@pytest.mark.parametrize("made", DAMAGED, ids=repr)
def test_a_damaged_table_is_refused(made: Any) -> None:
    manifest = Manifest("m", Signature((), (), ()), "x86_64", extra={"by_size": made})
    with pytest.raises(ArtifactError, match="table of kernels by size"):
        dispatch_table(manifest)
