"""Tuning a real model, replaying what it found, and what it is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError, TargetError
from cuvil.runtime import profiler

QUICK: dict[str, Any] = {"threads": 1}


class Net(torch.nn.Module):
    """A convolution with several algorithms, and a product."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.last = torch.nn.Linear(32, 1000)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(torch.relu(self.conv(x)).mean((2, 3)))


X = torch.randn(1, 16, 24, 24, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def slow_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured as it is, but whatever was computed by the cost model takes ten times as long."""
    real = profiler.call_seconds

    def measured(artifact: Any, inputs: Any, seconds: float) -> Any:
        found = real(artifact, inputs, seconds)
        names = [call["name"] for call in artifact.manifest.extra["profile"]["calls"]]
        first = {name.rstrip("_0123456789") for name in names}
        return found * np.array([10.0 if name in first else 1.0 for name in names])

    monkeypatch.setattr("cuvil.api.tuning.call_seconds", measured)


def contents(artifact: Any, place: Path) -> bytes:
    artifact.save(place)
    return place.read_bytes()


@pytest.mark.usefixtures("slow_default")
def test_tuned_replayed_and_taken_from_the_cache(tmp_path: Path) -> None:
    said: list[str] = []
    tuned = cuvil.compile(
        Net().eval(), (X,), options={"tune": 0.2}, profile=lambda s, t: said.append(s), **QUICK
    )
    table = tuned.tuning
    assert table is not None and "tune" in said
    assert any(text.startswith("tune conv") and text.endswith("ways") for text in said)
    conv = next(k for k in table["kernels"] if k["name"].startswith("conv"))
    assert conv["choice"] and len(conv["seconds"]) > 5 and conv["count"] == 1
    assert "conv" in conv["where"] and table["threads"] == 1
    want = Net().eval()(X).detach().numpy()
    np.testing.assert_allclose(tuned(X).numpy(), want, atol=1e-5)

    bytes_of = contents(tuned, tmp_path / "a.cuvilpkg")
    for again in (table, tmp_path / "a.cuvilpkg", str(tmp_path / "a.cuvilpkg")):
        replayed = cuvil.compile(Net().eval(), (X,), options={"tune": again}, **QUICK)
        assert replayed.tuning == table
        assert contents(replayed, tmp_path / "b.cuvilpkg") == bytes_of
        assert cuvil.verify(replayed, layerwise=True).passed
    text = cuvil.dump_ir(Net().eval(), "fused", example_inputs=(X,), options={"tune": table})
    assert "tune = {" in text or conv["choice"].keys() == {"algorithm"}

    said.clear()
    known = cuvil.compile(
        Net().eval(), (X,), options={"tune": 0.1}, profile=lambda s, t: said.append(s), **QUICK
    )
    assert known.tuning is not None and known.tuning["kernels"][0] == table["kernels"][0]
    assert "tune" in said  # for what did not fit before
    assert not any(text.startswith("tune conv") for text in said)


def test_a_table_of_another_model_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    entry = {"kernel": "0" * 24, "choice": {"row_limit": 7}}
    table = {"version": 1, "cpu": "", "target": "", "threads": 1, "kernels": [entry]}
    made = cuvil.compile(Net().eval(), (X,), options={"tune": table}, **QUICK)
    assert made.tuning is not None and made.tuning["kernels"] == []
    assert "no kernel of Net is in the tuning table" in caplog.text
    assert cuvil.compile(Net().eval(), (X,), **QUICK).tuning is None


def test_what_is_refused() -> None:
    for asked in (0, "none.json", {"kernels": 1}):
        with pytest.raises(InputError, match="tun|cannot read"):
            cuvil.compile(Net().eval(), (X,), options={"tune": asked})
    with pytest.raises(InputError, match="not with seconds"):
        cuvil.dump_ir(Net().eval(), "fused", example_inputs=(X,), options={"tune": 1})
    with pytest.raises(TargetError, match="can't be measured here"):
        cuvil.compile(
            Net().eval(), (X,), target="aarch64", verify=False, options={"tune": 1}
        )  # fmt: skip
