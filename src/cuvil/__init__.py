"""Cuvil compiles a model to a small native artifact that needs nothing at run time.

The public names are loaded at first use, so that ``import cuvil`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from cuvil.version import __version__

if TYPE_CHECKING:
    from cuvil.api import clear_cache, compile, debug_trace, dump_ir, register_op, verify
    from cuvil.errors import (
        ArtifactError,
        CuvilError,
        InputError,
        InvalidModelError,
        NoMemoryError,
        ShapeConstraintError,
        TargetError,
        UnsupportedOpError,
        VerificationError,
    )
    from cuvil.sym.dim import Dim
    from cuvil.tune.serving import load

_HOMES = MappingProxyType(
    {
        "cuvil.api": ("clear_cache", "compile", "debug_trace", "dump_ir", "register_op", "verify"),
        "cuvil.errors": (
            "ArtifactError",
            "CuvilError",
            "InputError",
            "InvalidModelError",
            "NoMemoryError",
            "ShapeConstraintError",
            "TargetError",
            "UnsupportedOpError",
            "VerificationError",
        ),
        "cuvil.sym.dim": ("Dim",),
        "cuvil.tune.serving": ("load",),  # without the compiler's rooms
    }
)

__all__ = [
    "ArtifactError",
    "CuvilError",
    "Dim",
    "InputError",
    "InvalidModelError",
    "NoMemoryError",
    "ShapeConstraintError",
    "TargetError",
    "UnsupportedOpError",
    "VerificationError",
    "__version__",
    "clear_cache",
    "compile",
    "debug_trace",
    "dump_ir",
    "load",
    "register_op",
    "verify",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            module = import_module(home)
            # All at once: loading the folder cuvil.verify binds that name to the folder.
            globals().update({n: getattr(module, n) for n in names})
            return globals()[name]
    raise AttributeError(f"module 'cuvil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
