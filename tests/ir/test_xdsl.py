"""The text is MLIR: xDSL reads it. Run in an environment of its own, because the wheel of xdsl
puts folders named tests and benchmarks beside its package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cuvil.ir.core import Module
from cuvil.ir.printer import print_module
from tests.ir.samples import sample
from tests.ir.test_control import sum_of_rows


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "locations", "more"),
    [
        (sample, False, ()),
        (sample, True, ()),
        # MLIR's own scf.for has no isolated regions: its verifier would refuse ours.
        (sum_of_rows, False, ("--disable-verify",)),
    ],
)
def test_xdsl_accepts_the_text(
    module: Callable[[], Module],
    locations: bool,
    more: Sequence[str],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> None:
    home = tmp_path_factory.getbasetemp() / "xdsl"
    tool = home / "bin" / "xdsl-opt"
    if not tool.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "xdsl==0.75"]
        subprocess.run(install, check=True)
    source = tmp_path / "sample.mlir"
    source.write_text(print_module(module(), locations=locations))
    run = subprocess.run(
        [str(tool), "--allow-unregistered-dialect", "--print-op-generic", *more, str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    for dialect in ('"cuvil.', '"scf.'):
        assert run.stdout.count(dialect) == source.read_text().count(dialect)
