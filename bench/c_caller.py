"""C programs that call an artifact's library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_c(text: str, folder: Path, *arguments: str) -> str:
    """What the program prints, linked with the ``model.so`` that lies in ``folder``.

    Raises CalledProcessError where it can't be compiled or fails.
    """
    (folder / "caller.c").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-fno-sanitize=all", f"-I{folder}"]
    command += ["caller.c", "model.so", "-Wl,-rpath,$ORIGIN", "-o", "caller"]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    run = [str(folder / "caller"), *arguments]
    return subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
