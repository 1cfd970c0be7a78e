"""A model's code as LLVM IR text: one module, the same bytes on every machine."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from cuvil.build.driver import (
    LLVM_TEXT,
    MODEL_FLAGS,
    compile_flags,
    compile_object,
    compiler_version,
    link,
)
from cuvil.build.library import NATIVE_DIR, Watch, native_sources
from cuvil.build.one_unit import one_unit
from cuvil.build.store import ObjectStore, digest_of
from cuvil.errors import TargetError
from cuvil.options import Options
from cuvil.target.base import Target

# Of exceptions (LLVM Language Reference, "Exception Handling"): generated code has none.
_EXCEPTIONS = re.compile(
    r"^\s*(?:%\S+ = )?(?:invoke|landingpad|resume|cleanuppad|catchpad|catchswitch|cleanupret|"
    r"catchret)\b|^define\b[^\n]*\bpersonality\b",
    re.MULTILINE,
)
_VECTORS = (
    re.compile(r"= load <\d+ x float>"),
    re.compile(r"store <\d+ x float>"),
    re.compile(r"= f(?:mul|add) [a-z ]*<\d+ x float>|@llvm\.fm(?:a|uladd)\.v\d+f32"),
)
_KINDS = ("library", "llvm")
_TILE = '#include "core_tile.cpp"'
_NAMES = re.compile(r'^; ModuleID = .*\nsource_filename = .*$', re.MULTILINE)
_TRIPLE = re.compile(r'^target triple = ".*"$', re.MULTILINE)


def llvm_text(
    sources: Mapping[str, str], target: Target, options: Options, watch: Watch | None = None
) -> str:
    """The text for generated units (text by name) and the core.

    Raises TargetError with the compiler's first lines, for a target that is no machine, or where
    the text breaks what is promised of it: no exceptions, tiles of contractions in vectors.
    """
    if target.kind not in _KINDS:
        raise TargetError(
            f"there is no LLVM IR for the target {target.name}",
            hint="it is written for machines: native, llvm, x86_64_v3, aarch64, ...", stage="build",
        )  # fmt: skip
    start = time.perf_counter()
    unit, macros = one_unit(sources, native_sources())
    flags = [*compile_flags(target, options.opt_level), *MODEL_FLAGS, *macros]
    scratch = options.cache_dir / "tmp"
    made = compile_object(unit, "model.cpp", flags, NATIVE_DIR, scratch, LLVM_TEXT)
    text = _plain(made.decode("utf-8"), target)
    fault = fault_of(text, vectors=_TILE in unit and options.opt_level > 0)
    if fault is not None:
        raise TargetError(f"the LLVM IR of this model {fault}", stage="build")
    if watch is not None:
        watch("model.ll", start, time.perf_counter(), {"bytes": len(made)})
    return text


def _plain(text: str, target: Target) -> str:
    """Without the compiler's scratch folder and its own spelling of the triple."""
    arch, _, rest = target.triple.partition("-")
    text = _NAMES.sub("; ModuleID = 'model'\nsource_filename = \"model.cpp\"", text, count=1)
    return _TRIPLE.sub(f'target triple = "{arch}-unknown-{rest}"', text, count=1)


def fault_of(text: str, vectors: bool) -> str | None:
    """What a module's text has that it may not have, or lacks; None if nothing. ``vectors`` tells
    that it must load, store and multiply vectors of floats."""
    found = _EXCEPTIONS.search(text)
    if found is not None:
        return f"has exceptions: {found.group().strip()[:80]}"
    if vectors and not all(pattern.search(text) for pattern in _VECTORS):
        return "computes tiles of a contraction without vectors"
    return None


def library_of_llvm(text: bytes, target: Target, options: Options) -> bytes:
    """A shared library of such text, from the store in ``options.cache_dir`` if it was made before.

    Raises TargetError with the compiler's first lines.
    """
    flags = [*compile_flags(target, 1), *MODEL_FLAGS]  # the text has been optimised
    store = ObjectStore(options.cache_dir / "objects")
    scratch = options.cache_dir / "tmp"
    source = text.decode("utf-8")
    key = digest_of([compiler_version(), *flags, source])
    made = store.get(key)
    if made is None:
        made = compile_object(source, "model.ll", flags, NATIVE_DIR, scratch)
        store.put(key, made)
    return link({"model": made}, target, scratch)
