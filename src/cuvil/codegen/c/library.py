"""The C functions that kernels call: pieces of library/*.c, of which a model gets what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from cuvil.ir.types import DTYPES

_FOLDER = Path(__file__).resolve().parent / "library"
_FILES = (
    "base.c", "exp.c", "trig.c", "integer.c", "tile.c", "windows.c", "bytes.c", "layers.c",
    "order.c",
)  # fmt: skip
_NAME = re.compile(r"\b(?:cuvil_\w+|CUVIL_\w+)\b")
_DEFINED = (
    re.compile(r"^(?:static|typedef)\b[^;={]*?\b(cuvil_\w+)(?:\(|\[|\s__attribute__)", re.M),
    re.compile(r"^\} (cuvil_\w+);", re.M),
    re.compile(r"^#define (CUVIL_\w+)", re.M),
)
_CHOICE = re.compile(r"\{\s*([^{};|]*?)\s*\|\s*([^{};|]*?)\s*\}")


@dataclass(frozen=True)
class Piece:
    """One paragraph: what it defines, its text, and the names it mentions."""

    place: int
    text: str
    defines: frozenset[str]
    mentions: frozenset[str]


def c_type(name: str) -> str:
    """The C type of a dtype's elements in expressions."""
    return DTYPES[name].cxx


def written_out(names: Iterable[str]) -> str:
    """The pieces that define ``names`` and all that they mention, in the library's order."""
    pieces = _pieces()
    wanted: dict[int, Piece] = {}
    work = [name for name in names if name in pieces]
    while work:
        for piece in pieces[work.pop()]:
            if piece.place not in wanted:
                wanted[piece.place] = piece
                work += [name for name in piece.mentions if name in pieces]
    return "\n".join(piece.text for piece in _ordered(wanted))


def _ordered(wanted: Mapping[int, Piece]) -> list[Piece]:
    """What a piece mentions comes before it; otherwise the library's order."""
    by_name: dict[str, list[Piece]] = {}
    for piece in wanted.values():
        for name in piece.defines:
            by_name.setdefault(name, []).append(piece)
    done: dict[int, Piece] = {}

    def visit(piece: Piece) -> None:
        if piece.place in done:
            return
        for name in sorted(piece.mentions - piece.defines):
            for other in by_name.get(name, ()):
                visit(other)
        done[piece.place] = piece

    for place in sorted(wanted):
        visit(wanted[place])
    return list(done.values())


def names_in(text: str) -> set[str]:
    """The library's names that a text mentions."""
    return set(_NAME.findall(text))


@lru_cache(maxsize=1)
def _pieces() -> Mapping[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    count = 0
    for file in _FILES:
        for types, text in _paragraphs((_FOLDER / file).read_text(encoding="utf-8")):
            for instance in _instances(text, types):
                code = "\n".join(x for x in instance.splitlines() if not x.startswith("//"))
                defines = frozenset(n for rule in _DEFINED for n in rule.findall(code))
                piece = Piece(count, instance, defines, frozenset(names_in(code)))
                count += 1
                for name in sorted(defines):
                    found.setdefault(name, []).append(piece)
    return found


def _paragraphs(text: str) -> Iterable[tuple[Mapping[str, Sequence[str]], str]]:
    """Each paragraph with the types of its letters; a paragraph of comments alone is none."""
    types: dict[str, Sequence[str]] = {}
    for block in re.split(r"\n\n+", text.strip()):
        lines = []
        for line in block.splitlines():
            if line.startswith("//:"):
                pairs = (pair.split("=") for pair in line[3:].split())
                types = {letter: names.split(",") for letter, names in pairs}
            else:
                lines.append(line)
        if any(not line.startswith("//") for line in lines):
            yield dict(types), "\n".join(lines) + "\n"


def _instances(text: str, types: Mapping[str, Sequence[str]]) -> Iterable[str]:
    text = _with_polynomials(text)
    for chosen in product(*(list(enumerate(names)) for names in types.values())):
        made = text
        for letter, (at, name) in zip(types, chosen, strict=True):
            if letter == "T":
                made = _CHOICE.sub(rf"\{1 + min(at, 1)}", made)
                size = 8 * DTYPES[name].size
                made = re.sub(r"\bUINT\b", f"uint{size}_t", made)
                made = re.sub(r"\bSINT\b", f"int{size}_t", made)
            made = re.sub(rf"_{letter}(?=_|\b)", f"_{name}", made)
            made = re.sub(rf"\b{letter}\b", c_type(name), made)
        yield made


def _with_polynomials(text: str) -> str:
    """horner(x, a, b, c) as a + x * (b + x * c)."""
    at = text.find("horner(")
    while at >= 0:
        end = depth = 0
        parts, start = [], at + len("horner(")
        for i in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            if depth < 0 or (depth == 0 and text[i] == ","):
                parts.append(text[start:i].strip())
                start = i + 1
            if depth < 0:
                end = i + 1
                break
        x, *rest = parts
        if not x.isidentifier():
            x = f"({x})"
        made = f" + {x} * (".join(rest) + ")" * (len(rest) - 1)
        text = f"{text[:at]}({made}){text[end:]}"
        at = text.find("horner(")
    return text
