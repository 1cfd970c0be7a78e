"""TorchScript modules against themselves."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import cuvil
from cuvil.errors import InvalidModelError, UnsupportedOpError
from tests.frontends import script_models


def _script(name: str) -> torch.jit.ScriptModule:
    torch.manual_seed(0)
    return torch.jit.script(getattr(script_models, name)().eval())


def _same(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Branches", "Views", "Picky"])
def test_a_module_in_memory_and_in_a_file(name: str, tmp_path: Path) -> None:
    script = _script(name)
    x = torch.randn(3, 4)
    script.save(str(tmp_path / "m.pt"))
    for model in (script, tmp_path / "m.pt"):
        _same(cuvil.compile(model, (x,))(x), script(x))


def test_sizes_stay_dynamic_and_arguments_are_numbers() -> None:
    script = _script("Branches")
    artifact = cuvil.compile(
        script, (torch.randn(3, 4), 1), dynamic_dims={"x": {0: "rows"}}, threads=1
    )
    assert artifact.inputs[0].shape == ("rows", 4)
    for rows in (1, 2, 7):
        x = torch.randn(rows, 4)
        _same(artifact(x, 1), script(x, 1))


@pytest.mark.parametrize("name", ["LSTM", "ProjectedLSTM", "GRU"])
def test_recurrent_layers_take_any_length(name: str) -> None:
    script = _script(name)
    artifact = cuvil.compile(
        script, (torch.randn(4, 2, 5),), dynamic_dims={"x": {0: "steps"}}, threads=1
    )
    for steps in (1, 3, 9):
        x = torch.randn(steps, 2, 5)
        _same(artifact(x), script(x))


def test_a_module_without_a_forward_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="no compiled forward"):
        cuvil.compile(torch.jit.script(torch.nn.LSTM(5, 7)), (torch.randn(4, 2, 5),))


@pytest.mark.parametrize("name", ["CountedLoop", "DataBranch", "DataLoop"])
def test_what_a_tensor_decides_is_decided_by_each_call(name: str) -> None:
    script = _script(name)
    x = torch.randn(3, 4)
    artifact = cuvil.compile(script, (x,))
    for factor in (1.0, -1.0, 0.0, 20.0, 1e-3):
        _same(artifact(x * factor), script(x * factor))


def test_each_call_starts_from_the_state_at_compile_time() -> None:
    script = _script("Counter")
    x = torch.randn(4)
    script(x)
    want = copy.deepcopy(script)(x)
    artifact = cuvil.compile(script, (x,))
    for _ in range(2):
        _same(artifact(x), want)
    assert any("state" in note for note in artifact.manifest.source["notes"])
    _same(copy.deepcopy(script)(x), want)  # verifying left it as it was


def test_what_the_module_raises_is_the_reason() -> None:
    with pytest.raises(InvalidModelError, match="needs four columns"):
        cuvil.compile(_script("Picky"), (torch.randn(3, 5),))


def test_operators_that_touch_files_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedOpError, match="reads or writes files"):
        cuvil.compile(_script("Saves"), (torch.randn(3, 4),))
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_is_still_not_opened(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "m.pt")
    with pytest.raises(InvalidModelError, match="may hold a pickle"):
        cuvil.compile(tmp_path / "m.pt", (torch.randn(1, 2),))
    (tmp_path / "n.ts").write_bytes(b"PK\x03\x04 but no archive")
    with pytest.raises(InvalidModelError, match="no TorchScript archive"):
        cuvil.compile(tmp_path / "n.ts", (torch.randn(1, 2),))


def test_silero_vad(models_folder: Path) -> None:
    path = models_folder / "silero-vad" / "silero_vad" / "data" / "silero_vad.jit"
    for rate, samples in ((16000, 512), (8000, 256)):
        x = torch.randn(2, samples) * 0.1
        want = torch.jit.load(str(path))(x, rate)
        artifact = cuvil.compile(path, (x, rate))
        _same(artifact(x, rate), want.detach())


def test_numbers_that_a_loop_gives_are_tensors() -> None:
    artifact = cuvil.compile(_script("Halvings"), (torch.tensor([5.0, -3.0]),))
    for x, count in (([5.0, -3.0], 3), ([0.5, 0.0], 0), ([-1025.0, 3.0], 11)):
        halved, trips, more = artifact(torch.tensor(x))
        _same(halved, torch.tensor(x) / 2**count)
        assert (int(trips), int(more["twice"])) == (count, 2 * count)
        assert trips.dtype == torch.int64 and trips.shape == ()


def test_a_list_that_grows_until_a_tensor_ends_the_loop_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="list") as caught:
        cuvil.compile(_script("Decode"), (torch.randn(2, 4), 6))
    assert "script_models.py" in str(caught.value) and "fake" not in str(caught.value).lower()
