"""Peers in processes of their own: what they answer, and how each way to fail is reported."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cuvil.integrations.bench.compare import benchmark
from cuvil.integrations.bench.forms import Builds
from cuvil.integrations.bench.fresh import measure_fresh
from cuvil.integrations.bench.measure import in_turns, settle
from cuvil.integrations.bench.names import read_names, write_names
from cuvil.integrations.bench.peers import PEERS, Files, Peer, Unavailable
from cuvil.integrations.bench.remote import Remote
from cuvil.integrations.bench.seats import Apart
from tests.integrations.fake_peer import BUILT, FAKE
from tests.verify.models import compiled, inputs

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    place = tmp_path / "inputs.npz"
    np.savez(place, x=X)
    return place


def _file(folder: Path, text: str) -> str:
    place = folder / "model"
    place.write_text(text, encoding="utf-8")
    return str(place)


@pytest.fixture
def worker() -> Iterator[Remote]:
    with Remote(FAKE, seconds=10.0) as remote:
        yield remote


def test_outputs_and_times_come_through_the_pipe(
    worker: Remote, given: Path, tmp_path: Path
) -> None:
    worker.open(_file(tmp_path, "3"), 1)
    worker.bind(given)
    (found,) = worker.outputs()  # although it prints
    np.testing.assert_array_equal(found, X * 3)
    seconds = worker.call(5)
    assert len(seconds) == 5 and all(0 < s < 1 for s in seconds)
    version, size = worker.facts()
    assert version == np.__version__ and size > 1 << 20


def test_what_a_peer_raises_is_said_and_it_lives_on(
    worker: Remote, given: Path, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match=r"^it is of no mind to$"):
        worker.open(_file(tmp_path, "refuses"), 1)
    worker.open(_file(tmp_path, "raises"), 1)
    worker.bind(given)
    with pytest.raises(Unavailable, match=r"^ValueError: no such operator$"):
        worker.call(1)
    worker.open(_file(tmp_path, "1"), 1)


def test_a_process_that_dies_says_with_what(worker: Remote, given: Path, tmp_path: Path) -> None:
    worker.open(_file(tmp_path, "dies"), 1)
    worker.bind(given)
    for _ in range(2):
        with pytest.raises(Unavailable, match="its process ended with 3"):
            worker.call(1)


def test_a_process_that_hangs_is_ended(given: Path, tmp_path: Path) -> None:
    with Remote(FAKE, seconds=10.0) as worker:
        worker.open(_file(tmp_path, "hangs"), 1)
        worker.bind(given)
        worker.seconds = 0.2
        start = time.monotonic()
        with pytest.raises(Unavailable, match=r"call took more than 0 s"):
            worker.call(1)
    assert time.monotonic() - start < 10


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="/no/such/python can't be run: No such file"):
        Remote(FAKE, "/no/such/python")


def test_a_file_is_built_once_and_a_failure_is_kept(tmp_path: Path, given: Path) -> None:
    builds = Builds(Files(onnx=_file(tmp_path, "4")), tmp_path, {})
    path = builds.path(BUILT, 1)
    assert builds.path(BUILT, 2) == path and builds.seconds["built"] > 0
    seat = Apart(BUILT, path, 1, given, "")
    np.testing.assert_array_equal(seat.outputs()[0], X * 8)
    seat.close()
    broken = Builds(Files(onnx=_file(tmp_path, "four")), tmp_path, {})
    for _ in range(2):
        with pytest.raises(Unavailable, match="ValueError: could not convert"):
            broken.path(BUILT, 1)


def test_a_builder_that_is_not_installed(tmp_path: Path) -> None:
    peer = Peer("half", FAKE.module, "numpy", "onnx", (), "a_package_that_nobody_has.x", ".y")
    builds = Builds(Files(onnx=_file(tmp_path, "4")), tmp_path, {})
    with pytest.raises(Unavailable, match="a_package_that_nobody_has, which it is built with"):
        builds.path(peer, 1)


def test_load_and_memory_of_a_peer_alone(tmp_path: Path, given: Path) -> None:
    found = measure_fresh(FAKE, _file(tmp_path, "2"), 1, given)
    assert 0 < found.load < 10 and found.peak > 10 << 20 and found.version == np.__version__
    with pytest.raises(Unavailable, match="in a process of its own: .*of no mind"):
        measure_fresh(FAKE, _file(tmp_path, "refuses"), 1, given)


def test_a_peer_of_another_interpreter_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {**PEERS, "fake": FAKE}
    monkeypatch.setattr("cuvil.integrations.bench.compare.PEERS", failing)
    found = benchmark(
        compiled(), ["onnxruntime", "fake"], [1], [inputs()], 0.01, False, float64=True,
        pythons={"fake": "/no/such/python"},
    )  # fmt: skip
    ours, ort, fake = found.latencies
    assert found.source == "the reference interpreter in float64"
    assert ours.error is not None and 0 < ours.error < 1e-6
    assert ort.error is not None and 0 < ort.error < 1e-6
    assert fake.times is None and "/no/such/python can't be run" in fake.missing


def test_whoever_fails_during_its_turns_is_out() -> None:
    left = iter([0.01] * 6)

    def failing(count: int) -> list[float]:
        return [next(left) for _ in range(count)]

    lost: dict[str, Exception] = {}
    turns = {"fails": failing, "works": lambda count: [0.01] * count}
    found = in_turns(turns, 0.2, lost.__setitem__, lambda seconds: None)
    assert list(found) == ["works"] and found["works"].min == 0.01
    assert list(lost) == ["fails"]


def test_a_peer_as_text() -> None:
    for peer in PEERS.values():
        assert Peer.of_text(peer.as_text()) == peer


def test_names_beside_a_file(tmp_path: Path) -> None:
    write_names(tmp_path / "a.pt2", ["x", "y:0"])
    assert read_names(tmp_path / "a.pt2") == ["x", "y:0"]


def test_the_next_turn_waits_until_threads_sleep() -> None:
    spun, waits = iter([0.0, 0.008, 0.008, 0.016, 0.016, 0.0161]), []
    settle(waits.append, lambda: next(spun))
    assert len(waits) == 3 and next(spun, None) is None
    waits.clear()
    busy = iter(range(1000))
    settle(waits.append, lambda: float(next(busy)))  # never asleep: it is not waited for for ever
    assert 0.1 <= sum(waits) <= 0.5
