"""The targets that can be built for by name, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.errors import TargetError
from cuvil.target.arm import ARM_TARGETS
from cuvil.target.base import Target
from cuvil.target.c import C_TARGETS
from cuvil.target.llvm import PREFIX as LLVM
from cuvil.target.llvm import as_llvm, llvm_targets
from cuvil.target.native import native_target
from cuvil.target.onnx import ONNX
from cuvil.target.wasm import WASM_TARGETS
from cuvil.target.x86 import X86_TARGETS

_MACHINES = (*X86_TARGETS, *ARM_TARGETS)
TARGETS: Mapping[str, Target] = {
    t.name: t for t in (*_MACHINES, *WASM_TARGETS, *C_TARGETS, ONNX)
}
_TEXTS: Mapping[str, Target] = {t.name: t for t in llvm_targets(_MACHINES)}
# Those of the machine that this process runs on.
_HERE: Mapping[str, Callable[[], Target]] = {
    "native": native_target,
    LLVM: lambda: as_llvm(native_target()),
}


def target_names() -> tuple[str, ...]:
    """Every name that :func:`find_target` takes."""
    return (*_HERE, *TARGETS, *_TEXTS)


def general_targets() -> tuple[str, ...]:
    """One name for each kind and architecture: the first, which all machines of it can run."""
    first: dict[tuple[str, str], str] = {}
    for name, target in TARGETS.items():
        first.setdefault((target.kind, target.arch), name)
    return tuple(first.values())


def target_beside(name: str, asked: str) -> str:
    """The target that ``asked``, the one of a form, means for a model built for the target
    ``name``: LLVM IR is for the same machine, every other form for its own.

    Raises TargetError where a text, which is for one CPU, would be for the several of a library.
    """
    found = find_target(name)
    text = f"{LLVM}-{name}"
    if asked != LLVM or name in _HERE or found.kind != "library" or text in _TEXTS:
        return text if asked == LLVM and text in _TEXTS else asked
    fitting = [other for other, target in _TEXTS.items() if target.arch == found.arch]
    raise TargetError(
        f"LLVM IR is for one CPU, and {name} for several",
        hint=f"compile with target={' or '.join(map(repr, fitting))}",
    )


def find_target(name: str) -> Target:
    """The target of that name; "native" and "llvm" are this machine.

    Raises TargetError for an unknown one.
    """
    if name in _HERE:
        return _HERE[name]()
    found = TARGETS.get(name) or _TEXTS.get(name)
    if found is None:
        raise TargetError(
            f"there is no target {name!r}", hint=f"choose one of {', '.join(target_names())}"
        )
    return found
