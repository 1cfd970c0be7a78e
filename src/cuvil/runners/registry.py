"""Which runner runs a target's artifacts."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.runners.base import Runner
from cuvil.runners.c import C_RUNNER
from cuvil.runners.emulated import Emulator, emulated
from cuvil.runners.llvm import llvm_runner
from cuvil.runners.node import NODE
from cuvil.runners.onnx import ONNX_RUNNER
from cuvil.target.base import Target
from cuvil.target.registry import TARGETS

# By architecture.
_LIBRARIES: Mapping[str, Runner] = {
    "aarch64": emulated(Emulator("qemu-aarch64", TARGETS["aarch64"])),
    "x86_64": emulated(Emulator("qemu-x86_64", TARGETS["x86_64-linux-gnu"])),
}
# By kind of target and architecture.
RUNNERS: Mapping[tuple[str, str], Runner] = {
    **{("library", arch): runner for arch, runner in _LIBRARIES.items()},
    **{
        ("llvm", arch): llvm_runner(f"{arch}-linux-gnu", _LIBRARIES.get(arch))
        for arch in ("x86_64", "aarch64")
    },
    ("wasm", "wasm32"): NODE,
    ("c", "c"): C_RUNNER,
    ("onnx", "onnx"): ONNX_RUNNER,
}


def find_runner(target: Target) -> Runner | None:
    """The runner for a target's artifacts on a machine that can't load them; None without one."""
    return RUNNERS.get((target.kind, target.arch))
