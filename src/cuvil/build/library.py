"""Generated C++ and the core's, to one shared library."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cuvil.build.driver import compile_flags, compile_object, compiler_version, link
from cuvil.build.store import ObjectStore, digest_of
from cuvil.options import Options
from cuvil.target.base import Target

NATIVE_DIR = Path(__file__).resolve().parent.parent / "native"
_BEFORE_CPU_CHECK = "core_abi"  # runs before the CPU is known to fit: built for the baseline
_POOL_FILES = ("threads.hpp", "core_threads.cpp")


@dataclass(frozen=True)
class _Unit:
    name: str
    source: str
    flags: tuple[str, ...]

    def key(self, headers: str, version: str) -> str:
        return digest_of([self.source, headers, version, *self.flags])


def build_library(sources: Mapping[str, str], target: Target, options: Options) -> bytes:
    """Compile the units of ``sources`` (text by name) with the core and link them.

    Returns the library's bytes, the same for the same input. Objects come from the store in
    ``options.cache_dir`` where they were compiled before. Raises TargetError with the compiler's
    or linker's first lines.
    """
    native = {p.name: p.read_text(encoding="utf-8") for p in sorted(NATIVE_DIR.iterdir())
              if p.suffix in (".h", ".hpp", ".cpp")}  # fmt: skip
    headers = digest_of(
        text for item in native.items() if not item[0].endswith(".cpp") for text in item
    )
    units = [*_core_units(native, target, options), *(
        _Unit(name, source, tuple(compile_flags(target, options.opt_level)))
        for name, source in sorted(sources.items())
    )]  # fmt: skip
    store = ObjectStore(options.cache_dir / "objects")
    scratch = options.cache_dir / "tmp"
    version = compiler_version()

    def build(unit: _Unit) -> bytes:
        key = unit.key(headers, version)
        found = store.get(key)
        if found is None:
            found = compile_object(unit.source, unit.name, unit.flags, NATIVE_DIR, scratch)
            store.put(key, found)
        return found

    with ThreadPoolExecutor(max(1, options.jobs)) as workers:
        objects = list(workers.map(build, units))
    return link({u.name: o for u, o in zip(units, objects)}, target, scratch)


def core_id(native: Mapping[str, str]) -> str:
    """16 hex digits that change whenever the thread pool's source does."""
    return digest_of(native.get(name, "") for name in _POOL_FILES)[:16]


def _core_units(native: Mapping[str, str], target: Target, options: Options) -> list[_Unit]:
    units = []
    for name, source in native.items():
        if not name.startswith("core_") or not name.endswith(".cpp"):
            continue
        stem = name[: -len(".cpp")]
        early = stem == _BEFORE_CPU_CHECK
        flags = compile_flags(target, options.opt_level, baseline=early)
        if early:
            flags.append(f"-DCUVIL_CORE_ID=0x{core_id(native)}u")
        units.append(_Unit(stem, source, tuple(flags)))
    return units
