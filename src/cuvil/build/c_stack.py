"""How much stack a model in C takes at most: frames as the compiler made them, along the calls that
the source has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cuvil.build.c_source import sections_of

STACK_FLAGS = ("-ffunction-sections", "-fstack-size-section")
_ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)")
_FUNCTION = re.compile(r"^(?:static|int)\b[^;{}=]*?\b(\w+)\(([^;{}]*?)\)\s*\{", re.M)
_WORD = re.compile(r"\b([A-Za-z_]\w*)\b(\s*\()?")
_BY_POINTER = re.compile(r"\]\(|\(\*\w+\)\(")


def frames_of(unit: bytes) -> dict[str, int]:
    """Bytes of each function's frame, of an ELF32 object compiled with STACK_FLAGS. What was
    inlined everywhere has none."""
    found = {}
    sections = sections_of(unit)
    for section in sections:
        if section.name == ".stack_sizes":
            function = sections[section.link].name.removeprefix(".text.")
            found[function] = _uleb(section.data[4:])  # behind the function's address
    return found


def _uleb(data: bytes) -> int:
    """An integer as DWARF's ULEB128: seven bits a byte, the lowest first."""
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return value


@dataclass(frozen=True)
class _Function:
    calls: frozenset[str]
    by_pointer: bool


def stack_bytes(source: str, frames: Mapping[str, int], root: str) -> int:
    """An upper bound of what ``root`` and all that it calls take; the compiler's own functions
    (memcpy, arithmetic) come on top.

    No function of a model calls itself. One that calls through a pointer may call each whose
    address is taken; those may in turn, as a step of a layer its activations, but no deeper.
    """
    functions, taken = _functions(source)
    known: dict[str, int] = {}

    def depth(name: str, pointed: int) -> int:
        if name not in known:
            function = functions[name]
            below = [depth(n, pointed) for n in function.calls]
            below += [pointed] if function.by_pointer else []
            known[name] = frames.get(name, 0) + max(below, default=0)
        return known[name]

    last = max((depth(n, 0) for n in taken if not functions[n].by_pointer), default=0)
    middle = max((depth(n, last) for n in taken), default=0)
    return depth(root, max(last, middle))


def _functions(source: str) -> tuple[dict[str, _Function], set[str]]:
    """The functions of a source by name, and those whose address is taken."""
    text = _ATTRIBUTE.sub("", source)
    bodies = {}
    for found in _FUNCTION.finditer(text):
        line = text[found.end() : text.index("\n", found.end())]
        end = found.end() + len(line) if line.endswith("}") else text.index("\n}", found.end())
        bodies[found.group(1)] = found.group(2), text[found.end() : end]
    functions, taken = {}, set()
    for name, (parameters, body) in bodies.items():
        words = [(w, call) for w, call in _WORD.findall(body) if w in bodies]
        taken |= {w for w, call in words if not call}
        calls = frozenset(w for w, call in words if call)
        by_pointer = bool(_BY_POINTER.search(body) or _BY_POINTER.search(parameters))
        functions[name] = _Function(calls, by_pointer)
    return functions, taken
