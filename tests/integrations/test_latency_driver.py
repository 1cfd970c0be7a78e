"""What bench/latency.py measured: kept as JSON, summed up, drawn and written to the README."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from rich.console import Console

from bench import latency, plot, readme_table
from bench.results import FAMILIES, Measured, Result, geometric_mean, read
from cuvil.integrations.bench.compare import Deployment, Latency
from cuvil.integrations.bench.measure import Times

SECONDS = {
    "cuvil": 0.004, "onnxruntime": 0.008, "openvino": 0.006, "openvino-default": 0.001,
    "torch": 0.02, "torch.compile": 0.01, "tract": 0.04,
}  # fmt: skip


def _result(name: str = "minilm", scale: float = 1.0, error: float = 2e-7) -> Result:
    latencies = [
        Latency(peer, threads, "x[1, 2]", Times(s * scale, s * scale, s * scale, 9), error)
        for threads in (1, 2)
        for peer, s in SECONDS.items()
    ]
    latencies.append(Latency("iree", 1, "x[1, 2]", missing="iree.runtime is not installed"))
    deployments = [Deployment("cuvil", 0.05, 40 << 20, 1 << 20, 1 << 20, version="0.1.0")]
    deployments.append(Deployment("onnxruntime", 0.5, 80 << 20, 1 << 20, 80 << 20, version="1.2"))
    return Result(
        name, 1, "x[1, 2]", "the PyTorch model in float64", 3.0, 100 << 10,
        [dataclasses.asdict(x) for x in latencies], [dataclasses.asdict(x) for x in deployments],
    )  # fmt: skip


def test_the_best_peer_computes_as_precisely_as_the_model() -> None:
    row = _result().rows()[0]
    assert row.best(row.medians) == "openvino"  # not openvino-default, which is faster
    assert row.ratio == pytest.approx(4 / 6) and row.ratio_of_minima == pytest.approx(4 / 6)
    assert row.best(row.medians, FAMILIES["torch"]) == "torch.compile"
    assert row.best({"cuvil": 1.0}) is None


def test_results_replace_older_ones_and_survive_a_file(tmp_path: Path) -> None:
    measured = Measured({"cpu": "a processor"}, [_result("mlp"), _result("minilm")])
    measured.add(_result("mlp", scale=2.0))
    assert [r.name for r in measured.results] == ["minilm", "mlp"]
    measured.save(tmp_path / "m.json")
    again = read(tmp_path / "m.json")
    assert again == measured and not (tmp_path / "m.json.part").exists()
    assert again.versions() == {"cuvil": "0.1.0", "onnxruntime": "1.2"}
    assert [r.threads for r in again.rows(threads=2)] == [2, 2] and again.rows(batch=8) == []


def test_lines_say_times_errors_and_what_is_missing() -> None:
    text = "\n".join(latency.lines(_result()))
    assert "minilm, batch 1, 1 thread(s): ratio 0.67 (0.67) of openvino, compile 3.0 s" in text
    assert "iree               not available: iree.runtime is not installed" in text
    assert "in less than the model's precision" in text and "error 2e-07" in text
    assert "load 0.500 s  peak 84 MB" in text
    assert latency.lines(Result("x", 8, failure="no batch")) == ["x, batch 8: no batch"]


def test_the_mean_is_geometric() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    measured = Measured({}, [_result("a"), _result("b")])
    (line,) = latency.summary(measured, [1], 1)
    assert line == "1 thread(s), batch 1: 2 models, geometric mean 0.667, largest 0.67"


def test_every_model_is_in_the_zoo() -> None:
    for entry, _ in latency.MODELS.values():
        assert latency.zoo.find(entry).name == entry


def test_a_model_without_a_batch_or_a_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = latency.measure("silero-vad", latency.Plan(batch=8), Console(quiet=True))
    assert found.failure == "the model has no batch"
    monkeypatch.setattr(latency, "ROOT", Path("/nowhere"))
    found = latency.measure("silero-vad", latency.Plan(), Console(quiet=True))
    assert "run tools/fetch_models.py" in found.failure


def test_a_small_model_is_measured() -> None:
    plan = latency.Plan(8, [1], ["torch"], 0.01, deployment=False)
    found = latency.measure("mlp", plan, Console(quiet=True))
    assert found.inputs == "input[8, 784]" and found.truth == "the PyTorch model in float64"
    (row,) = found.rows()
    assert set(row.medians) == {"cuvil", "torch"} and row.ratio is not None
    assert row.errors["cuvil"] is not None and 0 < row.errors["cuvil"] < 1e-5
    assert found.library_bytes > 1000


def test_bars_are_each_projects_fastest_over_cuvil() -> None:
    data = plot.panels(Measured({}, [_result("a"), _result("b", scale=3.0)]), 1)
    assert list(data) == [1, 2] and list(data[1]) == ["a", "b"]
    expected = {"onnxruntime": 2.0, "openvino": 1.5, "torch": 2.5, "others": 10.0}
    assert data[1]["b"] == pytest.approx(expected)


def test_the_plot_is_the_same_bytes_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = plot.panels(Measured({}, [_result("a"), _result("b", scale=3.0)]), 1)
    for name in ("one.svg", "two.svg"):
        plot.draw(data, "Latency", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_table_is_of_the_fastest_of_each_project() -> None:
    table = readme_table.markdown(Measured({"cpu": "a processor"}, [_result()]))
    assert (
        "| MiniLM-L6, 32 tokens | 4 ms | 8 ms | 6 ms | 10 ms (compile) | 40 ms (tract) | 100 KiB "
        "| 0.05 s |"
    ) in table
    assert "a processor" in table and "onnxruntime 1.2" in table


def test_a_wrong_or_empty_result_makes_no_table() -> None:
    with pytest.raises(SystemExit, match="differs from its source by 0.1"):
        readme_table.markdown(Measured({}, [_result(error=0.1)]))
    with pytest.raises(SystemExit, match="no time on one thread; out of memory"):
        readme_table.markdown(Measured({}, [Result("minilm", 1, failure="out of memory")]))
    with pytest.raises(SystemExit, match="none of the table's models"):
        readme_table.markdown(Measured())
