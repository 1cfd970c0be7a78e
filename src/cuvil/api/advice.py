"""What to do about an artifact that disagrees with its model."""

from __future__ import annotations

from cuvil.frontends.emitter import COMPOSED
from cuvil.ir.core import Module
from cuvil.ops.custom import CUSTOM

_REPORT = (
    "this is a fault of Cuvil: please report it with what `cuvil verify MODEL --layerwise "
    "--bisect` says"
)
_COARSE = (
    'rounding alone may do this to a deep or ill-conditioned model: compile with precision="f32" '
    "to see, or with verify=False and judge by the model's own task"
)
_SIGNS = (
    "eigenvectors and singular vectors are free in their sign, and the model's and the artifact's "
    "may differ: return what doesn't depend on it, or compile with verify=False"
)


def _has_free_signs(module: Module) -> bool:
    return any(op.short in ("eigh", "svd") for op in module.main.walk())


def advice(module: Module, precision: str = "f32") -> str:
    """What most likely is to be done about a difference."""
    registered = [r.name for op in module.main.walk() if (r := CUSTOM.of(op.name)) is not None]
    registered += module.source.get(COMPOSED, ())
    if registered:
        return f"check the code that {registered[0]} was registered with, and its element types"
    if precision != "f32":
        return _COARSE
    return _SIGNS if _has_free_signs(module) else _REPORT
