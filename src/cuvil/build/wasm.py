"""Generated C++ and the core's, to WebAssembly modules: one for each set of features."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.build.library import Watch, build_library
from cuvil.options import Options
from cuvil.target.wasm import WASM_VARIANTS

PART = "{}.wasm"


def build_wasm(
    sources: Mapping[str, str], options: Options, watch: Watch | None = None
) -> dict[str, bytes]:
    """The modules' bytes by the names of parts in a package; "" is the one that runs everywhere.

    Raises TargetError as :func:`build_library` does.
    """
    return {
        PART.format(variant) if variant else "": build_library(sources, target, options, watch)
        for variant, target in WASM_VARIANTS.items()
    }
