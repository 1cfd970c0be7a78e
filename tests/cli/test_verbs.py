"""Each verb does its job, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cuvil
from cuvil.ir.types import DTYPES
from cuvil.runners import registry
from cuvil.runners.base import Runner
from tests.cli.conftest import Call
from tests.frontends.ml_models import FLOAT, ML, model_of, tensor
from tests.runtime.test_host import mixed
from tests.verify.models import inputs


def test_compile_writes_what_load_reads(cuvil_cli: Call, place: Path) -> None:
    out = place / "a.cuvilpkg"
    ran = cuvil_cli("compile", "net.onnx", "--dynamic", "x:0=n:1..8", "-o", str(out), "--json")
    assert ran.code == 0
    document = ran.json
    assert document["files"] == [str(out)] and document["bytes"] == out.stat().st_size
    assert document["signature"] == "forall n. (x: f32[n, 6]) -> y: f32[n, 3]"
    assert document["kernels"] >= 1 and document["seconds"]["load"] >= 0
    assert cuvil.load(out)(inputs()["x"]).shape == (3, 3)


def test_compile_to_a_library_brings_weights_and_header(cuvil_cli: Call, place: Path) -> None:
    ran = cuvil_cli("compile", "net.onnx", "-o", "lib.so", "--no-cache")
    assert ran.code == 0
    assert (place / "lib.so").read_bytes()[:4] == b"\x7fELF"
    assert (place / "lib.weights").stat().st_size > 0
    assert "cuvil_run" in (place / "lib.h").read_text()


def test_run_gives_what_the_model_gives(cuvil_cli: Call, package: Path, place: Path) -> None:
    x = inputs()["x"]
    np.save(place / "x.npy", x)
    ran = cuvil_cli("run", str(package), "--input", "x=@x.npy", "-o", "out.npz", "--json")
    assert ran.code == 0
    assert ran.json["outputs"][0]["shape"] == [3, 3]
    with np.load(place / "out.npz") as found:
        np.testing.assert_array_equal(found["y"], cuvil.load(package)(x))
    np.savez(place / "all.npz", x=x)
    again = cuvil_cli("run", str(package), "--input", "@all.npz", "-o", "y.npy")
    assert again.code == 0 and "float32" in again.out
    np.testing.assert_array_equal(np.load(place / "y.npy"), cuvil.load(package)(x))


def test_run_makes_up_inputs_of_the_size_asked(cuvil_cli: Call, package: Path) -> None:
    ran = cuvil_cli("run", str(package), "-i", "random", "--at", "n=7", "--json")
    assert ran.json["outputs"][0]["shape"] == [7, 3]


def test_strings_on_the_command_line(cuvil_cli: Call, place: Path) -> None:
    onnx.save(mixed(), place / "mixed.onnx")
    ran = cuvil_cli("compile", "mixed.onnx", "-o", "mixed.cuvilpkg", "--json")
    assert ran.json["signature"] == (
        "forall n. (words: str[k], a: f32[n, 2]) -> (text: str[?], y: f32[n, 2], same: str[k])"
    )
    assert ran.json["signature"] in cuvil_cli("inspect", "mixed.cuvilpkg").out.replace("\n", " ")
    np.save(place / "words.npy", np.array(["Monday", "Tuesday"]))
    ran = cuvil_cli(
        "run", "mixed.cuvilpkg", "-i", "words=@words.npy", "-i", "a=random", "-o", "strings.npz"
    )
    assert ran.code == 0
    with np.load(place / "strings.npz") as found:
        assert found["text"].tolist() == ["TUESDAY"]
        assert found["same"].tolist() == ["Monday", "Tuesday"]
    ran = cuvil_cli("run", "mixed.cuvilpkg", "-i", "random")
    assert ran.code != 0 and "no value for the input 'words'" in ran.err
    ran = cuvil_cli("run", "mixed.cuvilpkg", "-i", "a=random", "-i", "words=random")
    assert ran.code != 0 and "the strings of 'words' can't be made up" in ran.err
    assert cuvil_cli("verify", "mixed.cuvilpkg", "--source", "mixed.onnx").code == 0
    assert cuvil_cli("verify", "mixed.cuvilpkg").code == 0


def test_narrow_types_on_the_command_line(cuvil_cli: Call, place: Path) -> None:
    """.npy files have no name for them: they come in as bytes and go out as float32."""
    narrow = [helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, ["n"]),
              helper.make_tensor_value_info("b", TensorProto.BFLOAT16, ["n"])]  # fmt: skip
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Neg", ["b"], ["c"]),
    ]
    outputs = [helper.make_empty_tensor_value_info("y"), helper.make_empty_tensor_value_info("c")]
    opsets = [helper.make_opsetid("", 21)]
    graph = helper.make_graph(nodes, "narrow", narrow, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), place / "narrow.onnx")
    ran = cuvil_cli("compile", "narrow.onnx", "-o", "narrow.cuvilpkg", "--json")
    assert ran.code == 0, ran.err
    values = np.array([1.5, -448, 0.25], np.float32)
    np.save(place / "x.npy", values.astype(DTYPES["f8e4m3fn"].numpy))
    np.save(place / "b.npy", values.astype(DTYPES["bf16"].numpy))
    ran = cuvil_cli("run", "narrow.cuvilpkg", "-i", "x=@x.npy", "-i", "b=@b.npy", "-o", "n.npz")
    assert ran.code == 0, ran.err
    with np.load(place / "n.npz") as found:
        assert found["y"].tolist() == values.tolist()
        assert found["c"].tolist() == (-values).tolist()
    assert cuvil_cli("run", "narrow.cuvilpkg", "-i", "random").code == 0


def test_maps_on_the_command_line(cuvil_cli: Call, place: Path) -> None:
    """A map comes in as JSON, labels of text and maps of scores go out."""
    nodes = [
        helper.make_node("DictVectorizer", ["m"], ["x"], domain=ML, string_vocabulary=["u", "v"]),
        helper.make_node("LinearClassifier", ["x"], ["label", "s"], domain=ML,
                         coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.0, 0.5],
                         classlabels_strings=["no", "yes"]),
        helper.make_node("ZipMap", ["s"], ["z"], domain=ML, classlabels_strings=["no", "yes"]),
    ]  # fmt: skip
    number = helper.make_tensor_type_proto(FLOAT, [])
    of_text = helper.make_map_type_proto(TensorProto.STRING, number)
    outputs = [
        tensor("label", TensorProto.STRING, ["N"]),
        helper.make_value_info("z", helper.make_sequence_type_proto(of_text)),
    ]
    onnx.save(model_of(nodes, [helper.make_value_info("m", of_text)], outputs), place / "m.onnx")
    ran = cuvil_cli("compile", "m.onnx", "-o", "m.cuvilpkg", "--json")
    assert ran.json["signature"] == "(m: map[]) -> (label: str[1], z: map[1])"
    (place / "m.json").write_text('{"u": 0.25, "other": 9}')
    ran = cuvil_cli("run", "m.cuvilpkg", "-i", "m=@m.json", "-o", "out.npz")
    assert ran.code == 0, ran.err
    with np.load(place / "out.npz") as found:
        assert found["label"].tolist() == ["yes"]
        assert found["z"].tolist() == ['{"no": 0.25, "yes": 0.5}']
    assert cuvil_cli("verify", "m.cuvilpkg", "--source", "m.onnx").code == 0
    ran = cuvil_cli("run", "m.cuvilpkg", "-i", "m=@nowhere.json")
    assert ran.code != 0 and "cannot read nowhere.json" in ran.err


def test_inspect_an_artifact(cuvil_cli: Call, package: Path) -> None:
    ran = cuvil_cli("inspect", str(package))
    assert "forall n. (x: f32[n, 6]) -> y: f32[n, 3]" in ran.out
    origin = "given by the user as Dim('n', min=1, max=8) for axis 0 of 'x'"
    assert f"1 <= n <= 8  ({origin})" in ran.out and "matmul" in ran.out
    document = cuvil_cli("inspect", str(package), "--json").json
    assert document["sizes"]["file"] == package.stat().st_size
    assert document["symbols"] == [{"name": "n", "min": 1, "max": 8, "origin": origin}]


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("captured", '"cuvil.softmax"'),
        ("canonical", '"cuvil.matmul"'),
        ("fused", '"cuvil.fused"'),
        ("cxx", "namespace cuvil::model"),
        ("mlir", '"func.func"'),
        ("dot", "digraph"),
        ("dot:canonical", "digraph"),
    ],
)
def test_inspect_a_stage(cuvil_cli: Call, stage: str, text: str) -> None:
    ran = cuvil_cli("inspect", "net.onnx", "--ir", stage)
    assert ran.code == 0 and text in ran.out


def test_inspect_why_a_rule_did_not_fire(cuvil_cli: Call) -> None:
    ran = cuvil_cli("inspect", "net.onnx", "--why-not", "drop-identity", "--json")
    assert ran.code == 0 and ran.json["rule"] == "drop-identity"
    assert any("cuvil." in reason for reason in ran.json["refusals"])
    wrong = cuvil_cli("inspect", "net.onnx", "--why-not", "nonsense")
    assert wrong.code == 2 and "no rule 'nonsense'" in wrong.err and "drop-identity" in wrong.err


def test_ops_says_how_each_operator_is_run(cuvil_cli: Call, place: Path) -> None:
    ran = cuvil_cli("ops", "net.onnx", "-o", "operator_registry.json", "--json")
    assert ran.code == 0 and ran.json["supported"] is True
    assert json.loads((place / "operator_registry.json").read_text()) == ran.json
    found = {entry["op"]: entry for entry in ran.json["operators"]}
    assert found["matmul"]["count"] == 2 and found["matmul"]["source"] == {"MatMul": 2}
    assert found["matmul"]["how"] == {"native template (matmul)": 2}
    assert found["softmax"]["how"] == {"decomposed; reduce kernel": 1}
    assert list(found["transpose"]["how"]) == ["folded away"]
    assert found["constant"]["how"] == {"weight": found["constant"]["count"]}


def test_ops_lists_what_is_not_supported(cuvil_cli: Call) -> None:
    ran = cuvil_cli("ops", "unknown.onnx", "--json")
    assert ran.code == 3 and ran.json["supported"] is False
    (node,) = ran.json["unsupported"]
    assert "Cuvilify" in node["op"] and "odd" in node["where"] and node["reason"]


def test_targets(cuvil_cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    document = cuvil_cli("targets", "--json").json
    native, *others = document["targets"]
    assert native["name"] == "native" and native["runs_here"] and native["runs_in"] == "in process"
    assert native["missing"] is None and native["forms"] == [".cuvilpkg", ".so"]
    assert all(e["runs_here"] or e["missing"] for e in others)
    lacking = Runner("some-emulator", lambda: "install some-emulator", lambda *_: {})
    monkeypatch.setattr(registry, "RUNNERS", {("library", "aarch64"): lacking})
    (line,) = [e for e in cuvil_cli("targets").out.splitlines() if e.split()[0] == "aarch64"]
    assert "some-emulator" in line and "no" in line.split()
    there = replace(lacking, missing=lambda: None)
    monkeypatch.setattr(registry, "RUNNERS", {("library", "aarch64"): there})
    (line,) = [e for e in cuvil_cli("targets").out.splitlines() if e.split()[0] == "aarch64"]
    assert line.split()[-1] == "some-emulator"


def test_verify_passes_and_fails(cuvil_cli: Call, package: Path, place: Path) -> None:
    alone = cuvil_cli("verify", str(package))
    assert alone.code == 0 and "not compared" in alone.out
    dynamic = ("--dynamic", "x:0=n:1..8")
    beside = cuvil_cli("verify", str(package), "--source", "net.onnx", *dynamic, "--json")
    assert beside.code == 0 and beside.json["passed"] and len(beside.json["cases"]) > 1
    layers = cuvil_cli("verify", "net.onnx", *dynamic, "--layerwise", "--bisect")
    assert layers.code == 0 and "every kernel agrees" in layers.out
    strict = cuvil_cli("verify", "net.onnx", "--atol", "0", "--rtol", "0", "--json")
    assert strict.code == 1 and strict.json["passed"] is False


def test_verify_takes_shapes_and_precision_of_an_artifact(cuvil_cli: Call, place: Path) -> None:
    (place / "cli_bare.py").write_text(
        "import torch\n\ndef make():\n    torch.manual_seed(0)\n    return torch.nn.Linear(4, 2)\n"
    )
    shape = ("--shape", "input:f32[b,4]", "--constraint", "b >= 2", "--constraint", "b <= 9")
    for precision in ("f32", "bf16"):
        made = ("--precision", precision, "-o", "bare.cuvilpkg")
        assert cuvil_cli("compile", "cli_bare:make", *shape, *made).code == 0
        beside = cuvil_cli("verify", "bare.cuvilpkg", "--source", "cli_bare:make", "--json")
        assert beside.code == 0 and beside.json["passed"] and len(beside.json["cases"]) > 1


def test_verify_finds_an_artifact_of_another_model(cuvil_cli: Call, place: Path) -> None:
    code = "cli_nets:make"
    assert cuvil_cli("compile", code, "-o", "torch.cuvilpkg").code == 0
    assert cuvil_cli("verify", "torch.cuvilpkg", "--source", code).code == 0
    (place / "cli_other.py").write_text(
        (place / "cli_nets.py").read_text().replace("manual_seed(0)", "manual_seed(1)")
    )
    other = cuvil_cli("verify", "torch.cuvilpkg", "--source", "cli_other:make", "--layerwise")
    assert other.code == 1 and "FAILED" in other.out
    assert "differs from a fresh build of its model" in other.out


def test_cache_ls_and_clear(cuvil_cli: Call, package: Path) -> None:
    cuvil_cli("compile", "net.onnx", "-o", "b.cuvilpkg")
    document = cuvil_cli("cache", "ls", "--json").json
    assert document["entries"] and document["bytes"] > 0
    assert cuvil_cli("cache", "clear", "--json").json["freed"] >= document["bytes"]
    assert cuvil_cli("cache", "ls", "--json").json["entries"] == []


def test_several_targets(cuvil_cli: Call, place: Path) -> None:
    out = place / "all.cuvilpkg"
    words = ("compile", "net.onnx", "--target", "x86_64_v2,native", "-o", str(out))
    document = cuvil_cli(*words, "--json").json
    assert document["targets"] == ["x86_64_v2", "native"] and document["left_out"] == {}
    assert "for x86_64_v2, native" in cuvil_cli(*words).out
    told = cuvil_cli("inspect", str(out), "--json").json
    assert [e["name"] for e in told["targets"]] == ["x86_64_v2", "native"]
    assert told["loaded_here"] == "native" and told["sizes"]["file"] == out.stat().st_size
    (line,) = [e for e in cuvil_cli("inspect", str(out)).out.splitlines() if "loaded here" in e]
    assert line.startswith("native")
    assert cuvil.load(out)(inputs()["x"]).shape == (3, 3)
    ran = cuvil_cli("compile", "net.onnx", "--target", "native,z80", "-o", str(out))
    assert ran.code == 2 and "there is no target 'z80'" in ran.err
    ran = cuvil_cli("compile", "net.onnx", "--target", "all-available", "-o", "net.so")
    assert ran.code == 2 and ".cuvilpkg" in ran.err
