"""One generated kernel: its arguments and its text, before names and places are fixed."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuvil.analysis.index_map import LOCAL
from cuvil.ir.core import Value
from cuvil.ir.types import DType
from cuvil.sym.expr import Dim, symbol, symbols_of

THREADS = f"{LOCAL}threads"  # how many threads a call may use, as a symbol


@dataclass(frozen=True)
class Field:
    """An argument; ``kind`` is "buffer", "packed", "dim", "scratch" or "fault"."""

    ctype: str
    kind: str
    value: Value | None = None
    dim: Dim = 0
    packing: str = ""


@dataclass
class Kernel:
    """``body`` is the text of its functions with @NAME@ for the kernel's name; ``launch`` is the
    text that runs it, given a filled argument struct ``k``."""

    title: str
    comment: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    body: str = ""
    launch: str = ""
    includes: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)  # of operators that users registered
    scratch: Dim | None = None

    def buffer(self, value: Value, name: str, *, out: bool = False, packing: str = "") -> str:
        """The field holding a pointer to ``value``; made on first use."""
        for known, f in self.fields.items():
            if f.value is value and f.packing == packing:
                return known
        unique = self._unique(name)
        ctype = storage(value.type.dtype) + " *"
        if not out:
            ctype = "const " + ctype
        kind = "packed" if packing else "buffer"
        self.fields[unique] = Field(ctype, kind, value, packing=packing)
        return unique

    def symbols(self, dim: Dim) -> None:
        """Make the symbols of ``dim`` fields."""
        for name in sorted(symbols_of(dim)):
            self.fields.setdefault(symbol_name(name), Field("int64_t ", "dim", dim=symbol(name)))

    def special(self, name: str, ctype: str, kind: str, dim: Dim = 0) -> str:
        """A field that is neither a buffer nor a symbol."""
        self.fields.setdefault(name, Field(ctype, kind, dim=dim))
        return name

    def _unique(self, name: str) -> str:
        base, k = name, 1
        while name in self.fields:
            k += 1
            name = f"{base}{k}"
        return name

    def unpack(self) -> str:
        """C++ lines that bring the fields into local scope."""
        lines = []
        for name, f in self.fields.items():
            ctype = f.ctype.replace(" *", " *__restrict ") if f.kind == "buffer" else f.ctype
            lines.append(f"  {ctype}const {name} = k.{name};" if "*" in ctype else
                         f"  const {ctype}{name} = k.{name};")  # fmt: skip
        return "\n".join(lines)


def symbol_name(name: str) -> str:
    """The C++ spelling of a symbol."""
    # A name with "%" is one of ours, such as the number of threads: no model's symbol has one.
    plain = name.replace("%", "_") if name.isascii() else "u" + name.encode("utf-8").hex()
    return f"n_{plain}"


def storage(dtype: DType) -> str:
    """The C++ type of one element in memory; a bool is a byte."""
    return "uint8_t" if dtype.name == "bool" else dtype.cxx


def arithmetic(dtype: DType) -> str:
    """The C++ type of one element in an expression."""
    return dtype.cxx
