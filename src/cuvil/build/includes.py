"""Which native headers a unit sees, and so which core units a model needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def included(source: str, native: Mapping[str, str]) -> frozenset[str]:
    """Names of the native files that ``source`` includes, directly or through another one."""
    found: set[str] = set()
    waiting = _INCLUDE.findall(source)
    while waiting:
        name = waiting.pop()
        if name in native and name not in found:
            found.add(name)
            waiting.extend(_INCLUDE.findall(native[name]))
    return frozenset(found)


def needed_core(sources: Iterable[str], native: Mapping[str, str]) -> tuple[str, ...]:
    """The core units, sorted, that generated ``sources`` can refer to.

    ``core_gemm.cpp`` defines what ``gemm.hpp`` declares, so it is needed where that is included.
    A core unit without a header of its name (and the C interface) is always needed.
    """
    core = {n: n[len("core_") : -len(".cpp")] for n in native
            if n.startswith("core_") and n.endswith(".cpp")}  # fmt: skip
    headers = {h for source in sources for h in included(source, native)} | {"abi.hpp"}
    chosen: set[str] = set()
    while True:
        more = {
            name for name, stem in core.items()
            if name not in chosen and (f"{stem}.hpp" not in native or f"{stem}.hpp" in headers)
        }  # fmt: skip
        if not more:
            return tuple(sorted(chosen))
        chosen |= more
        headers |= {h for name in more for h in included(native[name], native)}
