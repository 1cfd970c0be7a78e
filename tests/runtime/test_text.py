"""Operators on strings: alone, before numbers, and patterns in RE2's syntax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import cuvil
from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.ir.text_pattern import compiled_pattern, pattern_fault
from cuvil.runtime.text_ops import string_concat, string_split, text_to_number
from tests.frontends.onnx_models import FLOAT, INT64, model, node, retyped

STRING, BOOL = TensorProto.STRING, TensorProto.BOOL
ML = helper.make_opsetid("ai.onnx.ml", 2)


def texts(*words: Any) -> Any:
    return np.array(words, dtype=object)


def _against_onnxruntime(proto: ModelProto, folder: Path, **inputs: Any) -> Any:
    """The compiled model, loaded again from its package, agrees with onnxruntime."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    wanted = session.run(None, inputs)
    made = cuvil.compile(proto)
    made.save(folder / "m.cuvilpkg")
    for each in (made, cuvil.load(folder / "m.cuvilpkg")):
        found = each.run(inputs)
        for spec, want in zip(each.outputs, wanted, strict=True):
            got = found[spec.name]
            assert got.shape == want.shape and got.tolist() == want.tolist(), spec.name
    return made


def test_words_of_a_line_become_numbers(tmp_path: Path) -> None:
    """Split, looked up, gathered from a table: strings, then numbers for them, then floats."""
    nodes = [
        node("StringSplit", ["line"], ["words", "count"], delimiter=" "),
        node("LabelEncoder", ["words"], ["ids"], domain="ai.onnx.ml",
             keys_strings=["the", "cat", "sat"], values_int64s=[1, 2, 3], default_int64=0),
        node("Gather", ["table", "ids"], ["rows"]),
        node("Cast", ["count"], ["n"], to=FLOAT),
    ]  # fmt: skip
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    proto = model(nodes, {"line": (STRING, ["k"])}, ["rows", "n", "words"], {"table": table},
                  opset=20, opsets=[ML])  # fmt: skip
    proto = retyped(proto, FLOAT, FLOAT, STRING)
    line = texts("the cat sat", "on", "the mat", "sat")
    made = _against_onnxruntime(proto, tmp_path, line=line)
    assert [str(s) for s in made.inputs] == ["line: str[k]"]
    assert cuvil.verify(made).passed and cuvil.verify(made, {"line": line}).passed
    assert made.workspace_bytes({"line": line}) >= 0
    with pytest.raises(InputError, match="depend on the strings in 'line'"):
        made.workspace_bytes({"line": (4,)})


def test_a_bag_of_words(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("TfIdfVectorizer", ["same"], ["y"], mode="TFIDF", min_gram_length=1, max_gram_length=2,
             max_skip_count=1, ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4],
             pool_strings=["red", "green", "blue", "red", "green", "green", "blue"],
             weights=[1.0, 2.0, 0.5, 3.0, 1.5]),
    ]  # fmt: skip
    proto = model(nodes, {"x": (STRING, [7])}, ["y"], opset=17)
    _against_onnxruntime(proto, tmp_path, x=texts("red", "a", "green", "red", "blue", "blue", "x"))


def test_joined_and_matched(tmp_path: Path) -> None:
    nodes = [
        node("StringConcat", ["user", "at"], ["left"]),
        node("StringConcat", ["left", "host"], ["mail"]),
        node("RegexFullMatch", ["mail"], ["good"], pattern=r"\w+@\w+\.(com|org)"),
        node("Not", ["good"], ["bad"]),
    ]
    inputs = {"user": (STRING, ["n", 1]), "host": (STRING, [2])}
    proto = retyped(model(nodes, inputs, ["mail", "bad"], {"at": texts("@")}, opset=20),
                    STRING, BOOL)  # fmt: skip
    user = texts("ann", "b b", "c\N{LATIN SMALL LETTER E WITH ACUTE}").reshape(3, 1)
    made = _against_onnxruntime(proto, tmp_path, user=user, host=texts("x.org", "y.net"))
    with pytest.raises(ShapeConstraintError, match=r"expected \[2\]"):
        made(user, texts("x.org"))


def test_numbers_from_text() -> None:
    nodes = [node("Cast", ["x"], ["y"], to=FLOAT), node("Cast", ["x2"], ["z"], to=INT64)]
    inputs = {"x": (STRING, ["n"]), "x2": (STRING, ["n"])}
    made = cuvil.compile(retyped(model(nodes, inputs, ["y", "z"], opset=19), FLOAT, INT64),
                         verify=False)  # fmt: skip
    y, z = made(texts("1.5", "-1e-3", "INF"), texts("3", "-9223372036854775808", "7"))
    assert y.tolist() == [1.5, np.float32(-1e-3), np.inf] and y.dtype == np.float32
    assert z.tolist() == [3, -(2**63), 7]
    assert np.isnan(text_to_number(texts("NaN"))[0][0])
    assert text_to_number(texts("1e50", "-1E50", " .5 ", "7."))[0].tolist() == [
        np.inf, -np.inf, 0.5, 7.0
    ]  # fmt: skip
    wrong = {"": "float32", "1.5": "int64", str(2**63): "int64", "x": "float64", "300": "uint8",
             "1_0": "float32", "\u0661": "int32", "0x10": "float32"}  # fmt: skip
    for word, to in wrong.items():
        message = rf"Cast to {to}: the string {word!r} at \[1\] is "
        with pytest.raises(InputError, match=message):
            text_to_number(texts("1", word), to)


def test_split_as_the_specification_has_it() -> None:
    found, count = string_split(texts(texts("a,b,,c", ","), texts("", "x")), ",")
    assert count.tolist() == [[4, 2], [1, 1]] and count.dtype == np.int64
    assert found.tolist() == [[["a", "b", "", "c"], ["", "", "", ""]],
                              [["", "", "", ""], ["x", "", "", ""]]]  # fmt: skip
    found, count = string_split(texts("  a  b ", "   "))
    assert found.tolist() == [["a", "b"], ["", ""]] and count.tolist() == [2, 0]
    found, count = string_split(texts("a-b-c"), "-", 1)
    assert found.tolist() == [["a", "b-c"]] and count.tolist() == [2]
    found, count = string_split(np.empty((0, 2), object), ",")
    assert found.shape == (0, 2, 0) and count.shape == (0, 2)


def test_concat_broadcasts() -> None:
    (found,) = string_concat(texts("a", "b"), np.array("c", dtype=object))
    assert found.tolist() == ["ac", "bc"]
    with pytest.raises(ShapeConstraintError, match=r"\[2\] and \[3\] do not broadcast"):
        string_concat(texts("a", "b"), texts("a", "b", "c"))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\d+", ["7", "42"], ["", "x", "\N{ARABIC-INDIC DIGIT FOUR}"]),
        (r"\w\W", ["a ", "_!"], ["ab", "\N{LATIN SMALL LETTER E WITH ACUTE}!"]),
        (r"a$", ["a"], ["a\n", "aa"]),
        (r"^a|b$", ["a", "b"], ["ab"]),
        (r"a.c", ["abc"], ["a\nc", "ac"]),
        (r"[[:alpha:]_]{2,3}", ["ab", "a_b"], ["a", "a1", "abcd"]),
        (r"[^[:digit:]\s]+", ["ab"], ["a b", "1"]),
        (r"[]a]+", ["]", "a]"], ["", "b"]),
        (r"[a\-z]", ["a", "-", "z"], ["b"]),
        (r"(?P<x>a)(?:b)(?<y>c)", ["abc"], ["ab"]),
        (r"x{,2}", ["x{,2}"], ["", "x", "xx"]),
        (r"\x41\x{1F600}", ["A\N{GRINNING FACE}"], ["A"]),
        (r"(a|ab)(c|bcd)(d*)", ["abcd", "acdd"], ["ab"]),
        (r"\bcat\b.*", ["cat", "cat sat"], ["cats"]),
        (r"\.\*", [".*"], ["aa"]),
        (r"a+?b??", ["a", "aab"], ["b"]),
    ],
)
def test_patterns_mean_what_re2_means(pattern: str, yes: list[str], no: list[str]) -> None:
    match = compiled_pattern(pattern).fullmatch
    assert [w for w in yes if match(w) is None] == []
    assert [w for w in no if match(w) is not None] == []


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?=a)b", "(?!a)b", "(?<=a)b", "a++", "a**", "(", "[a", r"\pL", r"\Qa\E", "(?i)a",
     "[[:word", "[[:nope:]]", "a{2}{3}", "x{1001}", "a{2}+", r"[\D]", "\\", "(?>a)"],
)  # fmt: skip
def test_what_re2_or_python_lacks_is_refused(pattern: str) -> None:
    assert pattern_fault(pattern)
    proto = model([node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], {"x": (STRING, [1])},
                  ["y"], opset=20)  # fmt: skip
    with pytest.raises(InvalidModelError, match="the pattern"):
        cuvil.compile(retyped(proto, BOOL))
