"""The bench measures fairly and says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cuvil.integrations.bench.compare import benchmark
from cuvil.integrations.bench.measure import Times, interleaved
from cuvil.integrations.bench.peers import PEERS, Peer
from tests.cli.conftest import Call
from tests.verify.models import compiled, inputs


class _World:
    """A clock that moves only when a call takes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def call(self, name: str, seconds: list[float]) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds[len(self.order) % len(seconds)]
            self.order.append(name)

        return run

    def sleep(self, seconds: float) -> None:
        self.order.append("rest")


def test_calls_take_turns_and_each_gets_its_time() -> None:
    world = _World()
    calls = {"a": world.call("a", [0.05]), "b": world.call("b", [0.005])}
    found = interleaved(calls, 0.2, lambda: world.now, world.sleep)
    assert found["a"].min == pytest.approx(0.05) and found["b"].median == pytest.approx(0.005)
    timed = world.order[world.order.index("rest") :]
    turns = "".join(timed).split("rest")[1:]
    assert turns[:4] == ["a", "bbbbb", "a", "bbbbb"]  # at least 20 ms a turn, and one to warm up
    assert found["a"].calls == 4 and found["b"].calls == 4 * turns.count("bbbbb")


def test_times_are_order_statistics() -> None:
    times = Times.of([float(i) for i in range(1, 101)])
    assert (times.min, times.median, times.calls) == (1.0, 50.5, 100)
    assert times.p90 == pytest.approx(90.1)


def test_against_onnxruntime_with_accuracy_and_deployment() -> None:
    found = benchmark(compiled(), ["onnxruntime"], [1, 2], [inputs(4)], seconds=0.02)
    assert [(x.peer, x.threads) for x in found.latencies] == [
        ("cuvil", 1), ("onnxruntime", 1), ("cuvil", 2), ("onnxruntime", 2),
    ]  # fmt: skip
    for x in found.latencies:
        assert x.times is not None and 0 < x.times.min <= x.times.median <= x.times.p90
        assert x.error is not None and x.error < 1e-5 and x.inputs == "x[4, 6]"
    for d in found.deployments:
        assert d.missing == "" and d.load and d.peak and d.model_bytes and d.runtime_bytes
        assert 0 < d.load < 60 and d.peak > 10 << 20


def test_accuracy_is_measured_not_assumed() -> None:
    artifact = compiled()
    run = artifact.run
    artifact.source = artifact.source.__class__(
        **{**vars(artifact.source), "run": lambda x: [run(x)["y"] + np.float32(0.5)]}
    )
    found = benchmark(artifact, [], [1], [inputs(4)], seconds=0.01, deployment=False)
    assert found.latencies[0].error is not None and found.latencies[0].error > 0.1


def test_a_peer_that_is_missing_or_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Peer("absent", "nowhere", "a_package_that_nobody_has", "onnx", ())
    failing = Peer("failing", "json", "json", "onnx", ())
    both = {**PEERS, "absent": absent, "failing": failing}
    monkeypatch.setattr("cuvil.integrations.bench.compare.PEERS", both)
    names = ["absent", "failing", "torch"]
    found = benchmark(compiled(), names, [1], [inputs()], 0.01, deployment=False)
    missing = {x.peer: x.missing for x in found.latencies if x.times is None}
    assert missing["absent"] == "a_package_that_nobody_has is not installed"
    assert "AttributeError" in missing["failing"]
    assert missing["torch"] == "the model is an ONNX model"
    assert found.latencies[0].times is not None


def test_a_peer_that_is_not_installed_is_named_the_same_in_both_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = Peer("absent", "nowhere", "a_package_that_nobody_has", "onnx", ("its-name",))
    monkeypatch.setattr("cuvil.integrations.bench.compare.PEERS", {**PEERS, "absent": absent})
    found = benchmark(compiled(), ["absent"], [1], [inputs()], 0.01)
    said = "a_package_that_nobody_has is not installed (pip install its-name)"
    assert found.latencies[1].missing == said
    assert found.deployments[1].missing == f"in a process of its own: {said}"


def test_the_verb(cuvil_cli: Call, package: Path) -> None:
    few = ("--seconds", "0.02", "--no-deployment")
    ran = cuvil_cli("bench", str(package), "--at", "n=2", "--at", "n=8", *few, "--json")
    assert ran.code == 0
    assert [x["inputs"] for x in ran.json["latencies"]] == ["x[2, 6]", "x[8, 6]"]
    dynamic = ("--dynamic", "x:0=n:1..8")
    asked = (*dynamic, "--at", "n=2", "--against", "onnxruntime")
    text = cuvil_cli("bench", "net.onnx", *asked, *few)
    assert text.code == 0 and "onnxruntime" in text.out and "against" in text.out
    assert "not asked for" not in text.out
    open_sizes = cuvil_cli("bench", str(package), "--against", "none", *few)
    assert "sizes that were not asked for: n=" in open_sizes.out and "--at n=..." in open_sizes.out
    many = cuvil_cli("bench", "net.onnx", "--against", "none", "--threads", "5000", *few)
    assert many.code == 2 and "threads is 5000" in many.err and "InputError" not in many.err
    beside = cuvil_cli("bench", str(package), "--against", "onnxruntime", *few)
    assert beside.code == 2 and "peers need the model" in beside.err


def test_a_torch_model_beside_torch(cuvil_cli: Call) -> None:
    few = ("--seconds", "0.02", "--no-deployment", "--json")
    ran = cuvil_cli("bench", "cli_nets:make", "--against", "torch", *few)
    ours, theirs = ran.json["latencies"]
    assert ran.code == 0 and ours["error"] < 1e-5 and theirs["error"] == 0.0
    assert theirs["times"]["min"] > 0 and ran.json["source"] == "the PyTorch model"


@pytest.mark.slow
def test_a_torch_model_and_its_export(cuvil_cli: Call) -> None:
    peers = "torch,onnxruntime"
    ran = cuvil_cli("bench", "cli_nets:make", "--against", peers, "--seconds", "0.02", "--json")
    assert ran.code == 0
    by_name = {x["peer"]: x for x in ran.json["latencies"]}
    assert by_name["torch"]["error"] == 0.0 and by_name["torch"]["times"]
    other = by_name["onnxruntime"]
    assert other["error"] < 1e-5 if other["times"] else other["missing"].startswith("torch.onnx")
    assert [d["peer"] for d in ran.json["deployments"]] == ["cuvil", "torch", "onnxruntime"]
    torch = ran.json["deployments"][1]
    assert torch["missing"] == "" and torch["peak"] > ran.json["deployments"][0]["peak"]
