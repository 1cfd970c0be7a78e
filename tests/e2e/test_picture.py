"""The pictures of a compilation: pages that stand alone, and say what was fused and what not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import cuvil
from cuvil.api.picture.collect import Made, Node, nodes_of
from cuvil.api.picture.heat_map import _lanes, heat_map
from cuvil.api.picture.svg import heat
from cuvil.codegen.module import generate
from cuvil.errors import InputError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, TensorType
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.rewrite.rewriter import Trace
from cuvil.runtime import profiler
from cuvil.target.registry import find_target
from tests.e2e.models import compile_convnet, images
from tests.e2e.test_profile import FAST

SVG = "{http://www.w3.org/2000/svg}"
QUICK: dict[str, Any] = {"threads": 1, "verify": False}


@pytest.fixture(autouse=True)
def _known_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "ceilings_of", lambda *given: FAST)


def kernel(number: int, *reads: int, share: float = 0.1) -> Node:
    return Node(number, f"map_{number}", "map", share, f"{share:.1%}", ("exp",), "", (), (), reads)


def test_the_page_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.html"
    artifact = compile_convnet(**QUICK, profile=path)
    text = path.read_text(encoding="utf-8")
    links = set(re.findall(r"""(?:https?:|src=|href=|url\()[^"'\s)]*""", text))
    assert links == {"http://www.w3.org/2000/svg"} and "<script" not in text
    assert "prefers-color-scheme:dark" in text
    pictures = [ElementTree.fromstring(s) for s in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(pictures) == 2
    told = [t.text or "" for t in pictures[0].iter(f"{SVG}title")]
    for info in artifact.profile(images(2), seconds=0.01).kernels:
        name = f"{info.info.number} {info.info.name.removeprefix('k_')} ("
        assert any(words.startswith(name) for words in told)
    assert "not fused with max_pool at max_pool2d: max_pool is a kernel of its own" in text
    parts = [t.text or "" for t in pictures[1].iter(f"{SVG}title")]
    for part in ("stage capture", "stage build", "pass fuse", "unit kernels0.cpp", "unit link"):
        assert any(words.startswith(part) for words in parts)
    assert "merge-transposes refused" in text or "fuse refused" in text


def test_the_trace_of_a_compilation(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    artifact = compile_convnet(**QUICK, profile=path)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    stages = {e["name"] for e in events if e["cat"] == "stage"}
    assert {"capture", "passes", "generate", "build", "package", "load"} <= stages
    assert artifact.compile_seconds is not None and stages == set(artifact.compile_seconds)
    within = next(e for e in events if e["name"] == "passes")
    for e in (e for e in events if e["cat"] == "pass"):
        assert within["ts"] <= e["ts"] and e["ts"] + e["dur"] <= within["ts"] + within["dur"] + 0.01
        assert e["args"]["rewrites"] >= 0 and e["args"]["ops after"] > 0
    units = {e["name"]: e["args"] for e in events if e["cat"] == "unit"}
    assert units["model.cpp"]["bytes"] > 0 and "from the store" in units["model.cpp"]


def test_the_heat_map_is_a_file_of_its_own(tmp_path: Path) -> None:
    compile_convnet(**QUICK, profile=tmp_path / "net.svg")
    root = ElementTree.parse(tmp_path / "net.svg").getroot()
    assert root.tag == f"{SVG}svg" and root.find(f"{SVG}style") is not None


def test_what_is_for_another_machine_is_not_timed(tmp_path: Path) -> None:
    compile_convnet(**QUICK, profile=tmp_path / "net.svg", target="aarch64")
    assert "heat is the share of operations" in (tmp_path / "net.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "words"), [("a.png", "end it in"), ("no/a.html", "no folder")])
def test_files_that_cannot_be_written(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cuvil.compile(torch.nn.Linear(2, 2), input_shape=(1, 2), profile=tmp_path / name)


def test_two_hundred_kernels_fit() -> None:
    nodes = [kernel(i, *([i - 1] if i else []), *([i - 9] if i > 9 else [])) for i in range(200)]
    root = ElementTree.fromstring(heat_map(nodes, "a <long> & wide model"))
    rows = root.findall(f"{SVG}g")
    assert len(rows) == 200 and float(root.attrib["height"]) < 200 * 25 + 120
    places = [float(t.attrib["x"]) for t in root.iter(f"{SVG}text")]
    assert min(places) >= 0 and max(places) < float(root.attrib["width"])


def test_lanes_end_with_their_last_reader() -> None:
    assert _lanes([kernel(0), kernel(1, 0), kernel(2, 1)]) == [0, 0, 0]
    # 0 is read by 2, so 1 needs a lane of its own; 3 takes the first that is free.
    assert _lanes([kernel(0), kernel(1), kernel(2, 0, 1), kernel(3, 2)]) == [0, 1, 0, 0]


def test_heat_grows_with_the_share() -> None:
    assert [heat(s, 0.5) for s in (0.0, 0.01, 0.125, 0.5)] == ["h0", "h1", "h4", "h7"]
    assert heat(0.0, 0.0) == "h0"


def test_a_kernel_says_what_it_reads_and_what_it_left_out() -> None:
    e = Emitter()
    x = e.input("x", TensorType((4, 8), F32))
    summed = e.op("reduce_sum", e.op("exp", x), axes=(0,), keepdims=False)
    module = e.finish([e.op("softmax", summed, axis=0)], ["y"])
    trace = Trace(detailed=True)
    lower(module, "fused", PassOptions(trace=trace))
    generated = generate(module, find_target("x86_64_v2"))
    nodes = nodes_of(Made(module, generated.calls, trace), None)
    assert nodes[-1].reads and sum(n.share for n in nodes) == pytest.approx(1)
    reasons = {reason for n in nodes for _, reason in n.stops}
    words = "reducing other axes than the last would cost that kernel its parallel loops"
    assert words in reasons
