"""C sources compiled: to a library that this machine runs, and to see how large their code is."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuvil.build.driver import (
    LINK_FLAGS,
    call_compiler,
    compiler_path,
    compiler_version,
    work_folder,
)
from cuvil.build.store import ObjectStore, digest_of
from cuvil.errors import TargetError
from cuvil.options import Options
from cuvil.target.base import Target

C_FLAGS = ("-std=c99", "-fno-sanitize=all", "-fno-stack-protector", "-g0")
CORTEX_M4 = (
    "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp", "-Os",
    "-ffunction-sections",
)  # fmt: skip
_KEPT = 0x2  # SHF_ALLOC of the ELF specification: it is in memory when the program runs
_NOBITS = 8  # SHT_NOBITS: it takes memory and no file


def compile_c(files: Mapping[str, str], name: str, flags: Sequence[str], scratch: Path) -> bytes:
    """The object of the unit ``name`` among ``files`` (text by name, its headers beside it).

    Raises TargetError with the compiler's first lines.
    """
    with work_folder(scratch) as work:
        for file, text in files.items():
            (Path(work) / file).write_text(text, encoding="utf-8")
        made = Path(work) / "out.o"
        command = [
            str(compiler_path()), "cc", *C_FLAGS, *flags, "-c", str(Path(work) / name),
            "-o", str(made),
        ]  # fmt: skip
        call_compiler(command, work, f"the C compiler refused {name}")
        return made.read_bytes()


def library_of_c(files: Mapping[str, str], name: str, target: Target, options: Options) -> bytes:
    """A shared library for ``target`` that exports all that the unit does; memcpy is for the loader
    to find. It comes from the store in ``options.cache_dir`` if it was made before."""
    flags = [
        "-target", target.triple, f"-mcpu={target.mcpu}", "-O3", "-fPIC", "-fno-math-errno",
        "-fno-trapping-math",
    ]  # fmt: skip
    store = ObjectStore(options.cache_dir / "objects")
    parts = [part for item in sorted(files.items()) for part in item]
    key = digest_of([compiler_version(), *C_FLAGS, *flags, *LINK_FLAGS, *parts])
    found = store.get(key)
    if found is None:
        scratch = options.cache_dir / "tmp"
        found = _linked(compile_c(files, name, flags, scratch), scratch)
        store.put(key, found)
    return found


def _linked(unit: bytes, scratch: Path) -> bytes:
    with work_folder(scratch) as work:
        place, made = Path(work) / "unit.o", Path(work) / "out.so"
        place.write_bytes(unit)
        free = [f for f in LINK_FLAGS if f not in ("-z", "defs", "now", "noseparate-code")]
        command = [str(compiler_path()), "ld.lld", *free, str(place), "-o", str(made)]
        call_compiler(command, work, "the linker refused the model's object")
        return made.read_bytes()


@dataclass(frozen=True)
class Section:
    """One section of an ELF32 object; ``link`` is the index of another that it is about."""

    name: str
    kind: int
    flags: int
    link: int
    size: int
    data: bytes


def sections_of(unit: bytes) -> list[Section]:
    """The sections of an ELF32 object. Raises TargetError for another file."""
    if unit[:5] != b"\x7fELF\x01":
        raise TargetError("the compiler gave no 32-bit object", stage="build")
    (offset,) = struct.unpack_from("<I", unit, 32)
    size, count, names = struct.unpack_from("<HHH", unit, 46)
    heads = [struct.unpack_from("<IIIIIIIIII", unit, offset + i * size) for i in range(count)]
    found = []
    for name, kind, flags, _, start, length, link, _, _, _ in heads:
        at = heads[names][4] + name
        data = b"" if kind == _NOBITS else unit[start : start + length]
        text = unit[at : unit.index(b"\0", at)].decode("utf-8")
        found.append(Section(text, kind, flags, link, length, data))
    return found


def code_bytes(unit: bytes) -> int:
    """Bytes of an ELF32 object that stand in flash: code, and constants of its own.

    Raises TargetError for another file.
    """
    return sum(s.size for s in sections_of(unit) if s.flags & _KEPT and s.kind != _NOBITS)
