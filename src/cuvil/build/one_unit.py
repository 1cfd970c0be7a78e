"""A model's code as one translation unit: the units of the core that it needs, then its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cuvil.build.includes import needed_core
from cuvil.build.library import core_id

_ENTRY = "model.cpp"
_PROFILE = "core_profile.cpp"
# What the entry says of a kernel in another unit; here the kernel stands before it.
_DECLARED = re.compile(r"^namespace \w+ \{ struct Args \{.*\}; void run\(.*\); \}\n", re.MULTILINE)


def one_unit(sources: Mapping[str, str], native: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text, whose includes are files of ``native``, and the macros that it is compiled with.

    ``sources`` are the generated units by name. No two units of the core share a name.
    """
    needed = needed_core(sources.values(), native)
    profiled = _PROFILE in needed
    text = "".join(f'#include "{name}"\n' for name in needed)
    for name in sorted(sources, key=lambda n: (n == _ENTRY, n)):
        own = sources[name]
        text += f"\n// {name}\n" + (_DECLARED.sub("", own) if name == _ENTRY else own)
    macros = [f"-DCUVIL_CORE_ID=0x{core_id(native, profiled)}u"]
    return text, macros + (["-DCUVIL_PROFILE=1"] if profiled else [])
