"""The header of a model in C: sizes, status codes, and the function to call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuvil.codegen.c.arena import Arena, largest, member
from cuvil.codegen.c.reserved import is_taken
from cuvil.codegen.c.spelling import c_dim
from cuvil.codegen.kernel import storage
from cuvil.ir.core import Function, Value
from cuvil.ir.late import call_symbols
from cuvil.sym.expr import product, symbols_of
from cuvil.sym.facts import Facts


def identifier(text: str) -> str:
    """A C identifier like ``text``."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "model"
    plain = f"m_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if is_taken(plain) else plain


def distinct(names: list[str], taken: set[str]) -> list[str]:
    """Identifiers like the names, none twice and none that is taken; macros have them in capitals,
    so names that differ in case alone are not distinct."""
    found = []
    for name in map(identifier, names):
        unique, k = name, 1
        while unique.upper() in taken:
            k += 1
            unique = f"{name}_{k}"
        taken.add(unique.upper())
        found.append(unique)
    return found


@dataclass
class Face:
    """How a model looks to C: the prefix of its names, those of its parameters in order, and the C
    spelling of each symbol."""

    prefix: str
    sizes: dict[str, str]
    inputs: list[str]
    outputs: list[str]

    @property
    def upper(self) -> str:
        return self.prefix.upper()


def face_of(name: str, function: Function) -> Face:
    """The names of a model's function and its parameters."""
    taken: set[str] = set()
    symbols = call_symbols(function)
    sizes = dict(zip(symbols, distinct(symbols, taken), strict=True))
    inputs = distinct(list(function.input_names), taken)
    outputs = distinct([n if n else "out" for n in function.output_names], taken)
    return Face(identifier(name).lower(), sizes, inputs, outputs)


def parameters(face: Face, function: Function) -> str:
    """The parameter list of the run function."""
    parts = [f"ptrdiff_t {name}" for name in face.sizes.values()]
    for value, name in zip(function.inputs, face.inputs, strict=True):
        parts.append(f"const {storage(value.type.dtype)} *{name}")
    for value, name in zip(function.outputs, face.outputs, strict=True):
        parts.append(f"{storage(value.type.dtype)} *{name}")
    return ", ".join(parts) or "void"


def _shape(value: Value) -> str:
    return f"{value.type.dtype.name}[{', '.join(map(str, value.type.shape))}]"


def _size_macros(face: Face, function: Function, facts: Facts) -> str:
    lines = []
    for kind, values, names in (
        ("input", function.inputs, face.inputs), ("output", function.outputs, face.outputs),
    ):  # fmt: skip
        for value, name in zip(values, names, strict=True):
            dims = value.type.shape
            used = [n for n in face.sizes if any(n in symbols_of(d) for d in dims)]
            arguments = f"({', '.join(face.sizes[n] for n in used)})" if used else ""
            spelled = {n: f"({face.sizes[n]})" for n in used}
            text = " * ".join(c_dim(d, spelled) for d in dims) or "1"
            macro = f"{face.upper}_{name.upper()}_SIZE"
            if "cuvil_" in text:
                text = str(largest(product(dims), facts, f"the {kind} {name}"))
                lines.append(f"#define {macro} {text} /* at most */\n")
            else:
                lines.append(f"#define {macro}{arguments} ({text})\n")
    return "".join(lines)


def header(face: Face, function: Function, arena: Arena, facts: Facts, weights: int) -> str:
    """The text of the .h file."""
    upper, prefix = face.upper, face.prefix
    return (
        f"/* {prefix}: written by cuvil; not to be edited. */\n"
        f"#ifndef {upper}_H\n#define {upper}_H\n\n"
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        "/* Bytes of memory for intermediates, and of constants. */\n"
        f"#define {upper}_ARENA_BYTES {arena.bytes}\n#define {upper}_WEIGHT_BYTES {weights}\n\n"
        f"/* Elements of each input and output. */\n{_size_macros(face, function, facts)}\n"
        f"/* What the function returns. */\nenum {{\n  {upper}_OK = 0,\n"
        f"  {upper}_WRONG_SIZE = 1, /* a size is not allowed */\n"
        f"  {upper}_WRONG_INDEX = 2 /* an index in the data is outside what it counts */\n}};\n\n"
        f"{_arena_type(face, arena)}{_about(face, function)}"
        f"int {prefix}_run({parameters(face, function)});\n\n"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )


def _arena_type(face: Face, arena: Arena) -> str:
    if not arena.sizes:
        return ""
    fields = "".join(f"  {ctype} {member(ctype)}[{n}];\n" for ctype, n in arena.sizes.items())
    return (
        "/* The memory for intermediates. The model has its own, unless it is compiled with\n"
        f"   -D{face.upper}_ARENA=name: then it is the struct of that name, which you define. */\n"
        f"struct {face.prefix}_arena {{\n{fields}}};\n"
        f"#ifdef {face.upper}_ARENA\nextern struct {face.prefix}_arena {face.upper}_ARENA;\n"
        "#endif\n\n"
    )


def _about(face: Face, function: Function) -> str:
    lines = ["/* Runs the model once. Arrays are row-major and must not overlap. Not for two"]
    lines.append("   threads at once, which would share the arena.")
    for name, spelled in face.sizes.items():
        low, high = function.symbols[name]
        lines.append(f"   {spelled}: {low} to {high}")
    for value, name in zip(function.inputs, face.inputs, strict=True):
        lines.append(f"   {name}: {_shape(value)}, read")
    for value, name in zip(function.outputs, face.outputs, strict=True):
        lines.append(f"   {name}: {_shape(value)}, written")
    text = "\n".join(lines).replace("*/", "* /")
    return f"{text} */\n"
