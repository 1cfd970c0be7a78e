"""What a file of weights or programs is, told without its framework."""

from __future__ import annotations

import os
import zipfile


def holds_script(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an archive as torch.jit.save writes it: with a program and constants."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [name.split("/") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return False
    has_code = any(len(p) > 2 and p[1] == "code" for p in parts)
    return has_code and any(p[-1] == "constants.pkl" for p in parts)
