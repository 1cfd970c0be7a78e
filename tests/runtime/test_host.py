"""Steps that run in Python: what they compute, what goes in and out, and manifests of them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import cuvil
from cuvil.errors import (
    ArtifactError,
    InputError,
    InvalidModelError,
    ShapeConstraintError,
    UnsupportedOpError,
)
from cuvil.ir.signature import Signature
from cuvil.package.format import open_package, write_package
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.host import HostPlan
from cuvil.runtime.text_ops import string_normalizer
from tests.frontends.onnx_models import FLOAT, model, node, retyped

STRING = TensorProto.STRING
WORDS = np.array(["Monday", "monday", "Tuesday"], dtype=object)


def mixed() -> ModelProto:
    """y = 2 * a, and words (between the numbers) without "monday", both under other names."""
    nodes = [
        node("Add", ["a", "a"], ["y"]),
        node("Identity", ["words"], ["same"]),
        node("StringNormalizer", ["same"], ["kept"], stopwords=["monday"],
             case_change_action="UPPER"),
        node("Identity", ["kept"], ["text"]),
    ]  # fmt: skip
    inputs = {"words": (STRING, ["k"]), "a": (FLOAT, ["n", 2])}
    proto = model(nodes, inputs, ["text", "y", "same"])
    return retyped(proto, STRING, FLOAT, STRING)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    made: Artifact = cuvil.compile(mixed())
    return made


def texts(*words: str) -> Any:
    return np.array(words, dtype=object)


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ({}, ["Monday", "monday", "Tuesday"]),
        ({"stopwords": ["MONDAY"]}, ["Tuesday"]),
        ({"stopwords": ["monday"], "is_case_sensitive": 1}, ["Monday", "Tuesday"]),
        # The comparison comes before the change: "Monday" is no stop word.
        (
            {"stopwords": ["monday"], "is_case_sensitive": 1, "case_change_action": "LOWER"},
            ["monday", "tuesday"],
        ),
        ({"stopwords": ["monday", "tuesday"], "case_change_action": "UPPER"}, [""]),
    ],
)
def test_normalizer(attributes: dict[str, Any], want: list[str]) -> None:
    (flat,) = string_normalizer(WORDS, **attributes)
    assert flat.tolist() == want and flat.dtype == object
    (row,) = string_normalizer(WORDS[None], **attributes)
    assert row.tolist() == [want]


def test_normalizer_of_nothing_and_of_other_shapes() -> None:
    assert string_normalizer(texts())[0].tolist() == [""]
    assert string_normalizer(texts()[None])[0].tolist() == [[""]]
    for wrong in (WORDS.reshape(3, 1), WORDS[None, None], np.array("a", dtype=object)):
        with pytest.raises(ShapeConstraintError, match=r"takes strings of shape \[C\] or \[1, C\]"):
            string_normalizer(wrong)


def test_strings_beside_numbers(artifact: Artifact, tmp_path: Path) -> None:
    assert [str(s) for s in artifact.inputs] == ["words: str[k]", "a: f32[n, 2]"]
    assert [s.name for s in artifact.outputs] == ["text", "y", "same"]
    assert [s.name for s in artifact.native.inputs] == ["a"]
    artifact.save(tmp_path / "m.cuvilpkg")
    a = np.arange(6, dtype=np.float32).reshape(3, 2)
    for each in (artifact, cuvil.load(tmp_path / "m.cuvilpkg")):
        for found in (each(WORDS, a), each(WORDS, a=a), tuple(each.run({"a": a, "words": WORDS})[n]
                      for n in ("text", "y", "same"))):  # fmt: skip
            text, y, same = found
            assert text.tolist() == ["TUESDAY"] and same.tolist() == WORDS.tolist()
            assert np.array_equal(y, 2 * a) and same is not WORDS
        assert each.symbols_for({"words": WORDS, "a": a}) == {"n": 3}
        assert each.workspace_bytes({"words": WORDS, "a": a}) >= 0


def test_the_report_names_string_outputs(artifact: Artifact) -> None:
    report = cuvil.verify(artifact)
    assert report.passed and {e.name for e in report.errors} == {"text", "y", "same"}
    given = {"words": WORDS, "a": np.ones((1, 2), np.float32)}
    assert cuvil.verify(artifact, given, layerwise=True).passed


def test_other_steps_fail_verification(artifact: Artifact, tmp_path: Path) -> None:
    def other(host: Any) -> None:
        host["steps"][0]["attributes"]["stopwords"] = ["tuesday"]

    changed = cuvil.load(rewritten(artifact, tmp_path, other))
    changed.source = artifact.source
    report = cuvil.verify(changed)
    assert [e.name for e in report.errors if not e.passed] == ["text"]


def test_outputs_of_the_caller(artifact: Artifact) -> None:
    a, y = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)
    found = artifact.run({"words": WORDS, "a": a}, out={"y": y})
    assert found["y"] is y and y.tolist() == [[2, 2]]
    with pytest.raises(InputError, match="the string output 'text', which is always new"):
        artifact.run({"words": WORDS, "a": a}, out={"text": WORDS})
    with pytest.raises(InputError, match="there is no output 'z'"):
        artifact.run({"words": WORDS, "a": a}, out={"z": y})


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (np.zeros(3, np.float32), "float32"),
        (np.array([b"a"]), r"\|S1"),
        (np.array(["a", 1], dtype=object), "an object that is no str"),
        (np.array(["a", None], dtype=object), "an object that is no str"),
        (["a", "b"], "list"),
        ("a", "str"),
    ],
)
def test_what_is_no_array_of_strings(artifact: Artifact, words: Any, reason: str) -> None:
    with pytest.raises(InputError, match=f"input 'words' takes strings, not {reason}"):
        artifact(words, np.ones((1, 2), np.float32))


def test_wrong_calls(artifact: Artifact) -> None:
    a = np.ones((1, 2), np.float32)
    with pytest.raises(ShapeConstraintError, match=r"'words' has shape \[1, 3\]; expected \[k\]"):
        artifact(WORDS[None], a)
    with pytest.raises(InputError, match="input 'words' is missing"):
        artifact.run({"a": a})
    with pytest.raises(InputError, match="input 'a' is missing"):
        artifact(WORDS)
    with pytest.raises(InputError, match="has 2 inputs; 3 were given"):
        artifact(WORDS, a, a)
    with pytest.raises(InputError, match="there is no input 'b'"):
        artifact.run({"a": a, "words": WORDS, "b": a})
    with pytest.raises(InputError, match="input 'words' is a masked array"):
        artifact(np.ma.masked_equal(np.array(["a", "b"]), "a"), a)
    with pytest.raises(InputError, match="input 'a' has dtype float64; expected f32"):
        artifact(WORDS, a.astype(np.float64))
    with cuvil.compile(mixed()) as closed:
        pass
    with pytest.raises(ArtifactError, match="closed"):
        closed(WORDS, a)


def test_sizes_and_examples_of_strings() -> None:
    sized = cuvil.compile(mixed(), dynamic_dims={"words": {0: "many"}, "a": {0: "rows"}})
    assert [str(s) for s in sized.inputs] == ["words: str[many]", "a: f32[rows, 2]"]
    shown = cuvil.compile(mixed(), example_inputs=(WORDS, np.ones((4, 2), np.float32)))
    report = cuvil.verify(shown)
    assert report.passed and [e.shape for e in report.errors if e.name == "same"] == [(3,)]
    with pytest.raises(InputError, match="input 'words' has no dimension 1"):
        cuvil.compile(mixed(), dynamic_dims={"words": {1: "many"}})


def test_operators_are_listed() -> None:
    table = cuvil.debug_trace(mixed(), path=None)
    (entry,) = [e for e in table["operators"] if e["op"] == "string_normalizer"]
    assert entry["how"] == {"in Python, before the library": 1} and table["supported"]


def test_the_description_for_c_has_numbers_alone(artifact: Artifact) -> None:
    described = artifact.manifest.describe()
    assert '"a"' in described and "words" not in described and "monday" not in described


def test_other_uses_of_strings_are_refused() -> None:
    normal = node("StringNormalizer", ["x"], ["y"])
    moved = [node("Flatten", ["x"], ["y"]), node("StringConcat", ["x", "y"], ["z"])]
    for nodes, opset, reason in (
        (moved, 20, r"StringConcat_1: it works on strings that are not inputs"),
        ([normal, node("Identity", ["y"], ["z"])], 9, "StringNormalizer_0: it works on strings"),
    ):
        proto = model(nodes, {"x": (STRING, ["k"])}, ["z"], opset=opset)
        with pytest.raises(UnsupportedOpError, match=reason):
            cuvil.compile(proto)


def test_one_name_is_one_size() -> None:
    nodes = [node("Add", ["a", "a"], ["y"]), node("StringNormalizer", ["s"], ["t"]),
             node("StringNormalizer", ["s2"], ["t2"])]  # fmt: skip
    inputs = {"a": (FLOAT, ["n"]), "s": (STRING, ["n"]), "s2": (STRING, ["n"])}
    proto = retyped(model(nodes, inputs, ["y", "t", "t2"]), FLOAT, STRING, STRING)
    made = cuvil.compile(proto)
    assert cuvil.verify(made).passed
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    assert [len(x) for x in made(three, WORDS, WORDS)] == [3, 3, 3]
    with pytest.raises(ShapeConstraintError, match="'n' is 2 in input 'a'; it is 3 in input 's'"):
        made(two, WORDS, WORDS)
    with pytest.raises(ShapeConstraintError, match="'n' is 2 in input 's2'; it is 3 in input 's'"):
        made(three, WORDS, WORDS[:2])


def test_verification_knows_that_a_row_is_one() -> None:
    nodes = [node("Add", ["a", "a"], ["y"]), node("StringNormalizer", ["s"], ["t"])]
    inputs = {"a": (FLOAT, ["batch"]), "s": (STRING, ["batch", "c"])}
    made = cuvil.compile(retyped(model(nodes, inputs, ["y", "t"]), FLOAT, STRING))
    assert cuvil.verify(made).passed
    assert made(np.ones(1, np.float32), WORDS[None])[1].shape == (1, 3)


def test_a_size_of_strings_is_checked() -> None:
    proto = retyped(
        model([node("StringNormalizer", ["x"], ["y"])], {"x": (STRING, [1, 2])}, ["y"]), STRING
    )
    made = cuvil.compile(proto)
    assert made(texts("a", "b")[None]).tolist() == [["a", "b"]]
    with pytest.raises(ShapeConstraintError, match=r"has shape \[1, 3\]; expected \[1, 2\]"):
        made(texts("a", "b", "c")[None])
    with pytest.raises(ShapeConstraintError, match=r"has shape \[2\]"):
        made(texts("a", "b"))


@pytest.mark.parametrize(
    ("shape", "attributes", "reason"),
    [
        ([2, 3], {}, r"takes \[C\] or \[1, C\]"),
        ([], {}, r"takes \[C\] or \[1, C\]"),
        ([3], {"case_change_action": "TITLE"}, "its attributes are"),
        ([3], {"is_case_sensitive": 2}, "its attributes are"),
        ([3], {"stopwords": "a"}, "the attribute 'stopwords'"),
        ([3], {"words": 1}, "the attribute 'words'"),
    ],
)
def test_malformed_nodes(shape: list[int], attributes: dict[str, Any], reason: str) -> None:
    proto = model([node("StringNormalizer", ["x"], ["y"], **attributes)], {"x": (STRING, shape)},
                  ["y"])  # fmt: skip
    with pytest.raises(InvalidModelError, match=reason):
        cuvil.compile(proto)


def rewritten(artifact: Artifact, folder: Path, change: Any) -> Path:
    """The package with ``change`` applied to the manifest's host steps."""
    artifact.save(folder / "whole.cuvilpkg")
    package = open_package(folder / "whole.cuvilpkg")
    host = copy.deepcopy(package.manifest.extra["host"])
    change(host)
    manifest = replace(package.manifest, extra={**package.manifest.extra, "host": host})
    write_package(folder / "changed.cuvilpkg", manifest, package.library, (), package.parts)
    package.close()
    return folder / "changed.cuvilpkg"


CHANGES: dict[str, tuple[Any, str]] = {
    "operator": (lambda h: h["steps"][0].update(op="tokenizer"), "the host operator 'tokenizer'"),
    "attribute": (lambda h: h["steps"][0]["attributes"].update(x=1), "attribute x = 1"),
    "value": (
        lambda h: h["steps"][0]["attributes"].update(case_change_action="TITLE"),
        "case_change_action = 'TITLE'",
    ),
    "arity": (lambda h: h["steps"][0].update(inputs=["words", "words"]), "has inputs"),
    "unmade": (lambda h: h["steps"][0].update(inputs=["z"]), "reads 'z', which nothing makes"),
    "twice": (lambda h: h["steps"][0].update(outputs=["words"]), "'words' is made twice"),
    "output": (lambda h: h["outputs"][0].update(value="z"), "output 'text' is 'z'"),
    "missing": (lambda h: h["inputs"].pop(1), "its inputs are not those of the signature"),
    "dtype": (lambda h: h["inputs"][0].update(dtype="f32"), "'words' has dtype 'f32'"),
    "shape": (lambda h: h["inputs"][0].update(shape=[None]), "the shape of input 'words'"),
    "names": (lambda h: h["inputs"].append({"name": "a"}), "an input is named 'a'"),
    "steps": (lambda h: h.update(steps=3), "steps is not a list of objects"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_manifests_that_are_newer_or_malformed(
    artifact: Artifact, tmp_path: Path, kind: str
) -> None:
    change, reason = CHANGES[kind]
    with pytest.raises(ArtifactError, match=reason) as caught:
        cuvil.load(rewritten(artifact, tmp_path, change))
    assert (caught.value.hint.startswith("upgrade cuvil")) == (kind == "operator")


def test_a_plan_is_an_object() -> None:
    with pytest.raises(ArtifactError, match="it is not an object"):
        HostPlan.read([], Signature())


def test_the_table_of_operators_is_also_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    table = cuvil.debug_trace(mixed())
    assert json.loads((tmp_path / "operator_registry.json").read_text()) == table
    cuvil.debug_trace(mixed(), path=tmp_path / "other.json")
    assert {p.name for p in tmp_path.iterdir()} == {"operator_registry.json", "other.json"}
