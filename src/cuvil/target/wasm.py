"""WebAssembly: browsers, Node, and other hosts.

A module says with its instructions what it needs, so there is one for each set of features, made
from one set of sources. All of them read the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cuvil.target.base import Target

# Of WebAssembly 2.0, which every browser has since 2021 (Safari: 16.4).
_BASE = "mvp+simd128+bulk_memory+sign_ext+nontrapping_fptoint+mutable_globals"
# The host gives the memory, which all threads of a module share. 4 GB is what 32 bits can address.
_SHARED = ("--import-memory", "--shared-memory", "--max-memory=4294967296")

_SIMD = Target(
    "wasm", "wasm32-freestanding", _BASE, _BASE, 16, 5, 8, l2_bytes=256 << 10,
    pointer_bits=32, has_threads=False, cxx_flags=("-fno-PIC",), kind="wasm",
)  # fmt: skip


_THREADS = replace(
    _SIMD, mcpu=f"{_BASE}+atomics", baseline_mcpu=f"{_BASE}+atomics", has_threads=True,
    link_flags=_SHARED,
)  # fmt: skip


def _relaxed(target: Target) -> Target:
    """With fused multiply-adds in the loops that native/vec.hpp allows them in."""
    return replace(target, cxx_flags=(*target.cxx_flags, "-DCUVIL_RELAXED=1"))



# By the name of the module's part in a package; "" is the package's main file.
WASM_VARIANTS: Mapping[str, Target] = {
    "": _SIMD,
    "relaxed": _relaxed(_SIMD),
    "threads": _THREADS,
    "relaxed-threads": _relaxed(_THREADS),
}
WASM_TARGETS = (_SIMD,)
