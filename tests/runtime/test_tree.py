"""Nested arguments and results."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cuvil.errors import ArtifactError, InputError
from cuvil.runtime import load
from cuvil.runtime.tree import CallTree, Record
from tests.runtime import sample as samples


class Both(NamedTuple):
    rows: Any
    b2: Any


@dataclasses.dataclass
class Bag:
    rows: Any
    b2: Any = None


@dataclasses.dataclass
class Fussy:
    rows: Any
    needed: Any


def leaf(index: int) -> dict[str, Any]:
    return {"kind": "leaf", "index": index}


def node(kind: str, *items: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "items": list(items), **more}


def record(kind: str, name: str, module: str = __name__) -> dict[str, Any]:
    return node(kind, leaf(0), leaf(1), module=module, name=name, fields=["rows", "b2"])


def read(call: Any) -> CallTree:
    manifest = dataclasses.replace(samples.pair().manifest, call=json.loads(json.dumps(call)))
    tree = CallTree.read(manifest)
    assert tree is not None
    return tree


NESTED = {
    "args": node(
        "tuple",
        node("list", leaf(1), {"kind": "none"}),
        {"kind": "const", "value": 3},
    ),
    "kwargs": node("dict", node("dict", leaf(0), keys=["ids"]), keys=["batch"]),
    "parameters": ["first", "scale"],
}


def test_nested_arguments_are_flattened() -> None:
    tree = read(NESTED)
    assert tree.flatten(([2, None], 3), {"batch": {"ids": 1}}) == [1, 2]
    assert tree.flatten(([2, None],), {"batch": {"ids": 1}}) == [1, 2]
    assert tree.flatten((), {"first": (2, None), "scale": 3, "batch": {"ids": 1}}) == [1, 2]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([2, None], 4), {"batch": {"ids": 1}}, "scale was 3 when the model was compiled"),
        (([2, None], 3.0), {"batch": {"ids": 1}}, "scale was 3 when the model was compiled"),
        (([2, 5], 3), {"batch": {"ids": 1}}, "first[1] was None when the model was compiled"),
        (([2], 3), {"batch": {"ids": 1}}, "first has 1 item; expected 2"),
        ((2, 3), {"batch": {"ids": 1}}, "first is int; expected a list of 2"),
        (([2, None], 3, 4), {"batch": {"ids": 1}}, "takes 2 positional arguments; 3 were given"),
        (([2, None],), {}, "argument 'batch' is missing"),
        ((), {"batch": {"ids": 1}}, "first is missing"),
        (([2, None],), {"batch": {"ids": 1}, "first": 3}, "argument 'first' was given twice"),
        (([2, None],), {"batch": {"ids": 1}, "more": 3}, "there is no argument 'more'"),
        (([2, None],), {"batch": {}}, "batch has no key 'ids'"),
        (([2, None],), {"batch": {"ids": 1, "x": 2}}, "batch has the unknown key 'x'"),
        (([2, None],), {"batch": 1}, "batch is int; expected a dict"),
    ],
)
def test_calls_that_do_not_fit(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(NESTED).flatten(args, kwargs)
    assert message in str(caught.value)


def test_record_arguments() -> None:
    tree = read({"args": node("tuple", record("dataclass", "Bag"))})
    assert tree.flatten((Bag(1, 2),), {}) == [1, 2]
    assert tree.flatten(({"rows": 1, "b2": 2},), {}) == [1, 2]
    with pytest.raises(InputError, match=r"argument 0 \(int\) has no field 'rows'"):
        tree.flatten((7,), {})


def test_results_are_rebuilt() -> None:
    both = Both(10, 20)
    assert read({"outputs": record("namedtuple", "Both")}).rebuild([10, 20]) == both
    assert read({"outputs": record("dataclass", "Bag")}).rebuild([10, 20]) == Bag(10, 20)
    fancy = node("dict", node("list", leaf(1), leaf(1)), {"kind": "none"}, keys=["x", 5])
    assert read({"outputs": fancy}).rebuild([10, 20]) == {"x": [20, 20], 5: None}
    assert read({"outputs": {"kind": "const", "value": [1]}}).rebuild([10, 20]) == [1]
    assert read({"outputs": node("tuple", leaf(0), leaf(1))}).rebuild([10, 20]) == (10, 20)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("not_imported_anywhere", "Thing"),
        (__name__, "Missing"),
        (__name__, "Fussy"),
        ("subprocess", "Popen"),
        ("os", "system"),
        ("builtins", "exec"),
        (__name__, "Both.rows"),
    ],
)
def test_a_file_names_no_class_that_is_not_harmless(module: str, name: str) -> None:
    before = set(sys.modules)
    made = read({"outputs": record("object", name, module)}).rebuild([10, 20])
    assert set(sys.modules) == before
    assert type(made) is Record
    assert (made.rows, made["b2"], made[0], list(made), len(made)) == (10, 20, 10, [10, 20], 2)
    assert made.keys() == ("rows", "b2") and "rows=10" in repr(made)
    for wrong in (lambda: made.nothing, lambda: setattr(made, "rows", 3)):
        with pytest.raises(AttributeError):
            wrong()
    with pytest.raises(KeyError):
        made["nothing"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"args": leaf(0)}, "tuple expected, not leaf"),
        ({"args": node("tuple", leaf(0))}, "does not cover every input"),
        ({"args": node("tuple", leaf(0), leaf(2))}, "there is no tensor 2"),
        ({"outputs": {"kind": "sum", "items": []}}, "unknown kind 'sum'"),
        ({"outputs": {"kind": "list"}}, "has no items"),
        ({"outputs": node("dict", leaf(0), keys=[])}, "not one name an item"),
        ({"outputs": node("dict", leaf(0), keys=[None])}, "bad names"),
        ({"outputs": node("dataclass", leaf(0), fields=["a"])}, "does not say its class"),
        ({"outputs": 5}, "not an object"),
        ({"parameters": 5}, "parameters are not names"),
        ({"defaults": {"kind": "none"}}, "the defaults are no dict"),
        ({"defaults": node("dict", leaf(0), keys=["k"])}, "there is no tensor 0"),
    ],
)
def test_malformed_trees(call: Any, message: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read(call)
    assert message in str(caught.value)


def test_too_deep_a_tree() -> None:
    deep = leaf(0)
    for _ in range(100):
        deep = node("list", deep)
    with pytest.raises(ArtifactError, match="too deep"):
        read({"outputs": deep})


def test_a_whole_call(tmp_path: Path) -> None:
    call = {
        "args": node("tuple", node("dict", leaf(1), leaf(0), keys=["b", "a"])),
        "outputs": record("namedtuple", "Both"),
    }
    artifact = load(samples.package(samples.pair(call=call), tmp_path), threads=1)
    a, b = np.ones((2, 7), np.float32), np.arange(3)
    result = artifact({"a": a, "b": b})
    assert type(result) is Both
    np.testing.assert_array_equal(result.rows, [7, 7])
    np.testing.assert_array_equal(result.b2, b * 10)
    assert list(artifact.run({"a": a, "b": b})) == ["rows", "b2"]
    renamed = {"args": node("tuple", leaf(0), leaf(1)), "parameters": ["left", "right"]}
    plain = load(samples.package(samples.pair(call=renamed), tmp_path), threads=1)
    np.testing.assert_array_equal(plain(a, right=b)[1], b * 10)
    np.testing.assert_array_equal(plain(left=a, right=b)[1], b * 10)
