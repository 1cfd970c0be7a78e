"""Operators that a saved program names and that only an import tells torch of."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

# What a program's description holds, and the module whose import registers the operators.
_REGISTERED_BY: Mapping[str, str] = {
    "torch.ops.quantized_decomposed.": "torch.ao.quantization.fx._decomposed",
    "torch.ops.torchao.": "torchao",
}


def register_operators(path: str | Path) -> None:
    """Import what registers the operators of the program at ``path``, if it is installed."""
    text = _description(path)
    for name, module in _REGISTERED_BY.items():
        if name.encode() in text:
            try:
                importlib.import_module(module)
            except ImportError:
                continue  # loading the program says which operator is missing


def _description(path: str | Path) -> bytes:
    """The JSON of a .pt2 archive; nothing of a file that is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".json")]
            return b"".join(archive.read(n) for n in names)
    except (OSError, zipfile.BadZipFile):
        return b""
