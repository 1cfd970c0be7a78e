"""The same model gives the same bytes: on another machine's folders, home, locale and time zone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import cuvil
from cuvil.target.registry import target_names

# Saves in every form that the target has, and for "all" a package of several.
SCRIPT = """
import sys, cuvil, torch
from cuvil.runtime.save import forms_of
from cuvil.target.registry import find_target
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(8, 5), torch.nn.GELU(), torch.nn.LayerNorm(5), torch.nn.Softmax(-1)
).eval()
target = sys.argv[1].split(",")
batch = {"input": {0: cuvil.Dim("batch", min=1, max=8)}}
made = cuvil.compile(net, (torch.ones(2, 8),), dynamic_dims=batch, verify=False,
                     target=target if len(target) > 1 else target[0])
forms = [".cuvilpkg"] if len(target) > 1 else forms_of(find_target(target[0]).kind)
for form in forms:
    made.save("net" + form)
"""
FAST = ("native",)
SEVERAL = "native,x86_64_v2"
PLACES: Sequence[dict[str, str]] = (
    {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"},
    {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "2", "LANG": "tr_TR.UTF-8"},
)


def _files(folder: Path, target: str, place: dict[str, str]) -> dict[str, str]:
    """Digests of the files that a process in a place of its own writes."""
    names = {"HOME": "home", "CUVIL_CACHE_DIR": "cache", "TMPDIR": "tmp", "WORK": "work"}
    made = {key: folder / name for key, name in names.items()}
    for path in made.values():
        path.mkdir(parents=True)
    packages = os.pathsep.join([str(Path(cuvil.__file__).parents[1]), *sys.path])
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": packages, **place}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, target], cwd=made["WORK"], capture_output=True, text=True,
        env={**variables, **{key: str(path) for key, path in made.items()}},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(made["WORK"].iterdir())
    }


@pytest.mark.parametrize(
    "target",
    [
        *(pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in target_names()),
        pytest.param(SEVERAL, marks=pytest.mark.slow),
    ],
)
def test_the_same_bytes_in_two_places(tmp_path: Path, target: str) -> None:
    one, other = (
        _files(tmp_path / f"{'deep/er' if i else 'here'}", target, place)
        for i, place in enumerate(PLACES)
    )
    assert one and one == other
