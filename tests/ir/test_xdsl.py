"""The text is MLIR: xDSL reads it. Run in an environment of its own, because the wheel of xdsl
puts folders named tests and benchmarks beside its package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cuvil.ir.printer import print_module
from tests.ir.samples import sample


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("locations", [False, True])
def test_xdsl_accepts_the_text(
    locations: bool, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    home = tmp_path_factory.getbasetemp() / "xdsl"
    tool = home / "bin" / "xdsl-opt"
    if not tool.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "xdsl==0.75"]
        subprocess.run(install, check=True)
    source = tmp_path / "sample.mlir"
    source.write_text(print_module(sample(), locations=locations))
    run = subprocess.run(
        [str(tool), "--allow-unregistered-dialect", "--print-op-generic", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.count('"cuvil.') == source.read_text().count('"cuvil.')
