"""Compiles for :mod:`aoti`."""

from __future__ import annotations

import shutil

import torch
from torch._inductor import aoti_compile_and_package

from cuvil.integrations.bench.names import read_names, write_names
from cuvil.integrations.bench.peers import Unavailable


def build(path: str, threads: int, to: str) -> None:
    """Compile an exported program for a number of threads. Raises Unavailable."""
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise Unavailable("AOTInductor needs a C++ compiler, and there is none")
    torch.set_num_threads(threads)
    with torch.no_grad():
        aoti_compile_and_package(
            torch.export.load(path), package_path=to, inductor_configs={"freezing": True}
        )
    write_names(to, read_names(path))
