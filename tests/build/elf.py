"""The little of ELF that says what a library needs and offers (System V gABI, chapter 5)."""

from __future__ import annotations

import struct

DT_NULL, DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_STRSZ = 0, 1, 5, 6, 10
DT_RPATH, DT_RUNPATH, DT_TEXTREL = 15, 29, 22
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
WRITE, EXECUTE = 2, 1


class Elf:
    """A 64-bit little-endian shared library."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01"
        self.data = data
        self.machine = struct.unpack_from("<H", data, 18)[0]
        (offset,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        # type, flags, offset, address, physical address, file size, memory size, alignment
        self.segments = [
            struct.unpack_from("<IIQQQQQQ", data, offset + i * size) for i in range(count)
        ]
        (dynamic,) = [s for s in self.segments if s[0] == PT_DYNAMIC]
        self.dynamic: list[tuple[int, int]] = []
        for at in range(dynamic[2], dynamic[2] + dynamic[5], 16):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag == DT_NULL:
                break
            self.dynamic.append((tag, value))

    def tags(self) -> set[int]:
        return {tag for tag, _ in self.dynamic}

    def _at(self, address: int) -> int:
        for kind, _, offset, start, _, size, _, _ in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise ValueError(hex(address))

    def symbols(self) -> dict[str, bool]:
        """Names of the dynamic symbols and whether the library defines them."""
        table = dict(self.dynamic)
        begin, texts = self._at(table[DT_SYMTAB]), self._at(table[DT_STRTAB])
        found = {}
        # The string table follows the symbol table and its hash; stop at the first odd name.
        for at in range(begin + 24, texts, 24):
            name, info, other, section = struct.unpack_from("<IBBH", self.data, at)
            if name == 0 or name >= table[DT_STRSZ] or info >> 4 not in (1, 2) or other > 3:
                break
            end = self.data.index(b"\0", texts + name)
            found[self.data[texts + name : end].decode()] = section != 0
        return found
