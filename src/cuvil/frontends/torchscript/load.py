"""From a file of torch.jit.save to a ScriptModule."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from cuvil.errors import InvalidModelError
from cuvil.frontends.alone import ALONE
from cuvil.frontends.archives import holds_script


def load_script(path: str | Path) -> torch.jit.ScriptModule:
    """Load it on the CPU. Raises InvalidModelError where it is none.

    torch's own reader of such archives builds tensors, numbers and containers of them, and the
    program is TorchScript: unlike a pickle, the file runs no Python.
    """
    if not Path(path).is_file():
        raise InvalidModelError(f"there is no model file {str(path)!r}")
    if not holds_script(path):
        raise InvalidModelError(
            f"{path} is no TorchScript archive, and may hold a pickle, which Cuvil does not open",
            hint="load it in PyTorch and pass the module, or save it with torch.export.save",
        )
    try:
        with ALONE.held(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(str(path), map_location="cpu")
    except Exception as error:
        raise InvalidModelError(
            f"{path} is not a TorchScript module that torch can read: {str(error)[:300]}"
        ) from error
