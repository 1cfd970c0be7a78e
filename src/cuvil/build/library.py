"""Generated C++ and the core's, to one shared library."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cuvil.build.driver import compile_flags, compile_object, compiler_version, link
from cuvil.build.includes import included, needed_core
from cuvil.build.store import ObjectStore, digest_of
from cuvil.options import Options
from cuvil.target.base import Target

NATIVE_DIR = Path(__file__).resolve().parent.parent / "native"
_BEFORE_CPU_CHECK = "core_abi.cpp"  # runs before the CPU is known to fit: built for the baseline
_POOL = "core_threads.cpp"


@dataclass(frozen=True)
class _Unit:
    name: str
    source: str
    flags: tuple[str, ...]

    def key(self, native: Mapping[str, str], version: str) -> str:
        """Changes with anything that could change the object."""
        seen = sorted(included(self.source, native))
        texts = [text for name in seen for text in (name, native[name])]
        return digest_of([version, str(len(self.flags)), *self.flags, self.source, *texts])


def build_library(sources: Mapping[str, str], target: Target, options: Options) -> bytes:
    """Compile the units of ``sources`` (text by name) with the core and link them.

    Returns the library's bytes, the same for the same input. Objects come from the store in
    ``options.cache_dir`` where they were compiled before. Raises TargetError with the compiler's
    or linker's first lines.
    """
    native = native_sources()
    units = _core_units(sources, native, target, options)
    flags = tuple(compile_flags(target, options.opt_level))
    units += [_Unit(name, source, flags) for name, source in sorted(sources.items())]
    store = ObjectStore(options.cache_dir / "objects")
    scratch = options.cache_dir / "tmp"
    version = compiler_version()

    def build(unit: _Unit) -> bytes:
        key = unit.key(native, version)
        found = store.get(key)
        if found is None:
            found = compile_object(unit.source, unit.name, unit.flags, NATIVE_DIR, scratch)
            store.put(key, found)
        return found

    with ThreadPoolExecutor(max(1, options.jobs)) as workers:
        objects = list(workers.map(build, units))
    return link({u.name: o for u, o in zip(units, objects)}, target, scratch)


def native_sources() -> dict[str, str]:
    """Text of every file of native/ by name, in order of name."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(NATIVE_DIR.iterdir())
        if path.suffix in (".h", ".hpp", ".cpp")
    }


def core_id(native: Mapping[str, str]) -> str:
    """16 hex digits that change whenever the thread pool's source does."""
    source = native[_POOL]
    return digest_of([source, *(native[n] for n in sorted(included(source, native)))])[:16]


def _core_units(
    sources: Mapping[str, str], native: Mapping[str, str], target: Target, options: Options
) -> list[_Unit]:
    units = []
    for name in needed_core(sources.values(), native):
        early = name == _BEFORE_CPU_CHECK
        flags = compile_flags(target, options.opt_level, baseline=early)
        if early:
            flags += ["-Os", f"-DCUVIL_CORE_ID=0x{core_id(native)}u"]
        units.append(_Unit(name, native[name], tuple(flags)))
    return units
