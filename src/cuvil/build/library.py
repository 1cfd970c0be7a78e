"""Generated C++ and the core's, to one shared library."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuvil.build.driver import (
    MODEL_FLAGS,
    compile_flags,
    compile_object,
    compiler_version,
    link,
)
from cuvil.build.includes import included, needed_core
from cuvil.build.store import ObjectStore, digest_of
from cuvil.errors import TargetError
from cuvil.options import Options
from cuvil.target.base import Target, Variant

# Called with name, start and end (seconds of the monotonic clock), and facts.
Watch = Callable[[str, float, float, Mapping[str, Any]], None]

TABLES = "tables.cpp"
_CORE = "core_"
"""The unit of the model's description, which the C interface reads."""
NATIVE_DIR = Path(__file__).resolve().parent.parent / "native"
_BEFORE_CPU_CHECK = "core_abi.cpp"  # runs before the CPU is known to fit: built for the baseline
_POOL = "core_threads.cpp"
_PROFILE = "core_profile.cpp"
_OF_ONE_ARCH: Mapping[str, str] = {"core_wasm.cpp": "wasm32"}
# What a library has once, whatever the number of its variants (native/shared.hpp).
_ONCE = frozenset(
    {_BEFORE_CPU_CHECK, _POOL, _PROFILE, "core_mem.cpp", "core_host_call.cpp", TABLES}
)


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


def build_library(
    sources: Mapping[str, str], target: Target, options: Options, watch: Watch | None = None
) -> bytes:
    """Compile the units of ``sources`` (text by name) with the core and link them.

    Returns the library's bytes, the same for the same input. Objects come from the store in
    ``options.cache_dir`` where they were compiled before. ``watch`` is told of each unit and of the
    link, with start and end, by the thread that did it. Raises TargetError with the compiler's
    or linker's first lines.
    """
    native = native_sources()
    units = _core_units(sources, native, target, options)
    flags = tuple(compile_flags(target, options.opt_level))
    units += [
        _Unit(name, source, (*flags, *MODEL_FLAGS)) for name, source in sorted(sources.items())
    ]
    units = _with_variants(units, built_variants(sources, target), target, options)
    store = ObjectStore(options.cache_dir / "objects")
    scratch = options.cache_dir / "tmp"
    version = compiler_version()

    def build(unit: _Unit) -> bytes:
        start = time.perf_counter()
        key = unit.key(native, version)
        found = known = store.get(key)
        if found is None:
            found = compile_object(unit.source, unit.name, unit.flags, NATIVE_DIR, scratch)
            store.put(key, found)
        if watch is not None:
            facts = {"from the store": known is not None, "bytes": len(found)}
            watch(unit.name, start, time.perf_counter(), facts)
        return found

    with ThreadPoolExecutor(max(1, options.jobs)) as workers:
        objects = list(workers.map(build, units))
    start = time.perf_counter()
    library = link({u.name: o for u, o in zip(units, objects)}, target, scratch)
    if watch is not None:
        watch("link", start, time.perf_counter(), {"bytes": len(library)})
    return library


def built_variants(sources: Mapping[str, str], target: Target) -> tuple[Variant, ...]:
    """Those of the target's variants that a model with these generated sources is built for."""
    needed = set(needed_core(sources.values(), native_sources()))
    return tuple(v for v in target.variants if not v.units or needed & set(v.units))


def _with_variants(
    units: list[_Unit], variants: tuple[Variant, ...], target: Target, options: Options
) -> list[_Unit]:
    """The units that a library has once, for any CPU of the target, and the others as often as it
    has variants."""
    if not variants:
        return units
    if any(u.name == _PROFILE for u in units):
        raise TargetError(
            f"a profile is of the code for one CPU; {target.name} has several",
            hint="compile with target='native' to profile",
            stage="build",
        )
    baseline = tuple(compile_flags(target, options.opt_level, baseline=True))
    shared = ("-UCUVIL_VEC_BYTES", "-DCUVIL_VEC_BYTES=16", "-DCUVIL_HAS_VARIANTS=1")
    found = []
    for unit in units:
        if unit.name in _ONCE:
            extra = unit.flags[len(baseline) :]
            found.append(_Unit(unit.name, unit.source, (*baseline, *extra, *shared)))
    for variant in variants:
        flags = tuple(compile_flags(target, options.opt_level, variant=variant))
        found += [
            _Unit(
                f"{variant.name}_{u.name}",
                u.source,
                flags if u.name.startswith(_CORE) else (*flags, *MODEL_FLAGS),
            )
            for u in units
            if u.name not in _ONCE
        ]
    return found


def native_sources() -> dict[str, str]:
    """Text of every file of native/ by name, in order of name."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(NATIVE_DIR.iterdir())
        if path.suffix in (".h", ".hpp", ".cpp")
    }


def core_id(native: Mapping[str, str], profiled: bool = False) -> str:
    """16 hex digits that change whenever the thread pool's source does; a pool that is
    ``profiled`` reports to its own library, so it has others."""
    source = native[_POOL]
    parts = [source, *(native[n] for n in sorted(included(source, native)))]
    return digest_of([*parts, "profiled"] if profiled else parts)[:16]


def _core_units(
    sources: Mapping[str, str], native: Mapping[str, str], target: Target, options: Options
) -> list[_Unit]:
    units = []
    chosen = needed_core(sources.values(), native)
    needed = [n for n in chosen if _OF_ONE_ARCH.get(n, target.arch) == target.arch]
    profiled = _PROFILE in needed
    for name in needed:
        early = name == _BEFORE_CPU_CHECK
        flags = compile_flags(target, options.opt_level, baseline=early)
        if early:
            flags += ["-Os", f"-DCUVIL_CORE_ID=0x{core_id(native, profiled)}u"]
        if profiled and name == _POOL:
            flags.append("-DCUVIL_PROFILE=1")
        units.append(_Unit(name, native[name], tuple(flags)))
    return units
