"""cuvil inspect shows the plan of memory, from the manifest alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuvil
from cuvil.runtime.artifact import Artifact
from tests.cli.conftest import Call


class _Chain(torch.nn.Module):
    """Four products in a row: three intermediates in two places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x @ x @ x @ x


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "chain.cuvilpkg"
    size = cuvil.Dim("n", min=1, max=512)
    dims = {"x": {0: size, 1: size}}
    made = cuvil.compile(_Chain(), (torch.randn(3, 3),), dynamic_dims=dims, verify=False)
    made.save(path)
    return path


@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_what_the_library_says(cuvil_cli: Call, chain: Path, threads: int) -> None:
    artifact = cuvil.load(chain, threads)
    assert isinstance(artifact, Artifact)
    for n in (1, 7, 64, 512):
        asked = ("inspect", str(chain), "--at", f"n={n}", "--threads", str(threads), "--json")
        memory = cuvil_cli(*asked).json["memory"]
        (shown,) = memory["at"]
        use = artifact.memory({"x": (n, n)})
        assert memory["threads"] == threads and shown["symbols"] == {"n": n}
        assert shown["peak"] == use.peak == artifact.workspace_bytes({"x": (n, n)})
        assert shown["intermediates"] == 3 * 4 * n * n and shown["outputs"] == 4 * n * n
        places = 2 * ((4 * n * n + 63) // 64 * 64)
        assert shown["places"] == use.places == places
        assert shown["saved"] == use.saved == max(0, 3 * 4 * n * n - places)


def test_the_ends_of_the_range_and_the_expression(cuvil_cli: Call, chain: Path) -> None:
    memory = cuvil_cli("inspect", str(chain), "--json").json["memory"]
    sizes = [entry["symbols"]["n"] for entry in memory["at"]]
    assert sizes[0] == 1 and sizes[-1] == 512 and "n" in memory["workspace"]
    shown = cuvil_cli("inspect", str(chain)).out
    (row,) = [line for line in shown.splitlines() if line.startswith("n=512")]
    assert row.split("  ")[-1].strip() == "1.0 MiB"  # the output
    assert "3.0 MiB" in row and "saved by sharing" in shown  # of intermediates
    assert f"workspace = {memory['workspace']} bytes, with 1 thread" in shown


def test_other_sizes_are_refused(cuvil_cli: Call, chain: Path) -> None:
    large = cuvil_cli("inspect", str(chain), "--at", "n=513")
    assert large.code != 0 and "n <= 512" in large.err
    other = cuvil_cli("inspect", str(chain), "--at", "m=3")
    assert other.code == 2 and "no symbolic dim 'm'" in other.err


def test_fixed_shapes_and_several_targets(cuvil_cli: Call, place: Path) -> None:
    out = place / "each.cuvilpkg"
    words = ("compile", "net.onnx", "--shape", "x:3x6", "--target", "x86_64_v2,native")
    assert cuvil_cli(*words, "-o", str(out)).code == 0
    told = cuvil_cli("inspect", str(out), "--json").json["targets"]
    assert [e["memory"]["at"][0]["outputs"] for e in told] == [36, 36]
    assert "fixed shapes" in cuvil_cli("inspect", str(out)).out
