"""A fused module as C: one source and one header.

The text is a function of the module alone. Equal kernels are written once; of the library there is
what they call. What C has no kernel for is refused with the whole list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuvil.analysis.cost import kernel_cost
from cuvil.codegen.c.arena import Arena, lay_out
from cuvil.codegen.c.constants import Constants
from cuvil.codegen.c.entry import EntryWriter
from cuvil.codegen.c.header import Face, face_of, header, parameters
from cuvil.codegen.c.layers import layer_kernel
from cuvil.codegen.c.library import names_in, written_out
from cuvil.codegen.c.maps import map_kernel
from cuvil.codegen.c.products import product_kernel
from cuvil.codegen.c.reductions import reduce_kernel
from cuvil.codegen.c.spelling import c_dim, c_text
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.module import Generated
from cuvil.codegen.weights import WeightLayout
from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ir.control import REQUIRE, blocks, is_control
from cuvil.ir.core import Function, Module, Op
from cuvil.ir.late import checked, late_symbols
from cuvil.passes.memory import intermediate_bytes, plan_memory
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

BUSY = 1 << 18
"""Operations from which on products are made in tiles even where size counts: some ten milliseconds
of a Cortex-M4 without them."""
SOURCE, HEADER, MEASURED = "model.c", "model.h", "measured.c"
_CXX = re.compile(r"cuvil::\w+")
_SILENT = ("constant", "reshape", "return", "yield")


def generate(module: Module, target: Target, profile: bool = False) -> Generated:
    """The C of a module at stage "fused": source, header, and the source with its constants
    declared alone, by which code is measured."""
    return _Generator(module).run()


@dataclass
class _Written:
    name: str
    text: str


class _Generator:
    def __init__(self, module: Module) -> None:
        self.function: Function = module.main
        self.facts = Facts(self.function.symbols)
        self.face: Face = face_of(module.name, self.function)
        self.constants = Constants()
        self.kernels: dict[int, Kernel] = {}
        self._texts: dict[str, str] = {}
        self._order: list[_Written] = []
        self._used: dict[str, int] = {}
        self._zeros = 0

    def run(self) -> Generated:
        self._build_kernels()
        arena = lay_out(self.function, self.kernels, self.facts)
        names = dict(self.face.sizes)
        writer = EntryWriter(self.function, arena, self.constants, names, self._named)
        body = writer.body(self.face.inputs, self.face.outputs)
        code = self._code(arena, body, writer.may_fail)
        include = f'#include "{HEADER}"\n'
        top = f"/* {self.face.prefix}: written by cuvil; not to be edited. */\n{include}{_HEAD}"
        if self._operations() >= BUSY:
            top += _MANY
        library = written_out(names_in(code))
        data = self.constants.defined()
        sources = {
            SOURCE: f"{top}\n{data}\n{library}\n{code}",
            HEADER: header(self.face, self.function, arena, self.facts, self.constants.bytes),
            MEASURED: f"{top}\n{self.constants.declared()}\n{library}\n{code}",
        }
        apart = intermediate_bytes(plan_memory(self.function, self.facts), self.function)
        memory = {
            "ram": arena.bytes,
            "weights": self.constants.bytes,
            "buffers": _greatest([(b.what, b.bytes) for b in arena.buffers]),
            "arrays": _greatest([(n, a.nbytes) for n, a in self.constants.arrays.items()]),
            "prefix": self.face.prefix,
        }
        kernels = [w.name for w in self._order]
        return Generated(
            sources, WeightLayout(), kernels, writer.calls, apart, facts={"memory": memory}
        )

    def _operations(self) -> int:
        """Of all kernels at the largest sizes, each once."""
        whole = 0
        for op in (o for block in blocks(self.function) for o in block.ops):
            if op.short not in _SILENT and not is_control(op) and op.name != REQUIRE:
                most = self.facts.bounds(kernel_cost(op).flops)[1]
                whole += BUSY if most is None else most
        return whole

    def _build_kernels(self) -> None:
        """The kernel of every op. Raises UnsupportedOpError with all that have none."""
        missing: list[UnsupportedNode] = []
        late = late_symbols(self.function)
        for name, op in late.items():
            why = f"the size {name} depends on data, which a static arena can't hold"
            missing.append(UnsupportedNode(op.name, "", str(op.loc), why))
        for block in blocks(self.function):
            for op in block.ops:
                if op.short in _SILENT or is_control(op) or op.name == REQUIRE:
                    continue
                try:
                    self.kernels[id(op)] = self._kernel(op)
                except UnsupportedOpError as error:
                    missing += error.nodes
        if missing:
            raise UnsupportedOpError(missing, stage="codegen")

    def _kernel(self, op: Op) -> Kernel:
        if op.short != "fused":
            return layer_kernel(op, self.facts)
        makers = {"map": map_kernel, "reduce": reduce_kernel}
        kernel = makers.get(op.attrs["kind"], product_kernel)(op, self.facts)
        for include in kernel.includes:
            kind, _, size = include.partition(":")
            if kind == "zeros":
                self._zeros = max(self._zeros, int(size))
        text = c_text(kernel.body)
        unknown = sorted({*_CXX.findall(text), *(n for n in names_in(text) if not _is_known(n))})
        if unknown or kernel.sources:
            plain = ", ".join(n.removeprefix("cuvil::").removeprefix("cuvil_") for n in unknown)
            why = f"the target c has no {plain or 'operators written in C++'}"
            node = UnsupportedNode(op.name, str(op.results[0].type.dtype), str(op.loc), why)
            raise UnsupportedOpError([node], stage="codegen")
        return kernel

    def _named(self, op: Op) -> tuple[str, Kernel]:
        kernel = self.kernels[id(op)]
        text = f"({_parameters(kernel)}) {{\n{_body(kernel)}}}\n"
        known = self._texts.get(text)
        if known is None:
            base = "k_" + re.sub(r"[^A-Za-z0-9_]", "_", kernel.title)
            count = self._used.get(base, 0)
            self._used[base] = count + 1
            known = self._texts[text] = f"{base}_{count}" if count else base
            self._order.append(_Written(known, f"static void {known}{text}"))
        return known, kernel

    def _code(self, arena: Arena, body: str, may_fail: bool) -> str:
        face, function = self.face, self.function
        text = f"static const float zeros[{self._zeros}] = {{0}};\n\n" if self._zeros else ""
        if arena.sizes:
            text += (
                f"#ifdef {face.upper}_ARENA\n#define arena {face.upper}_ARENA\n#else\n"
                f"static struct {face.prefix}_arena arena;\n#endif\n\n"
            )
        text += "\n".join(w.text for w in self._order)
        text += f"\nint {face.prefix}_run({parameters(face, function)}) {{\n"
        text += "  int status = 0;\n" if may_fail else ""
        return f"{text}{self._checks()}{body}  return {'status' if may_fail else '0'};\n}}\n"

    def _checks(self) -> str:
        """What the sizes must satisfy."""
        lines = []
        for name, spelled in self.face.sizes.items():
            low, high = self.function.symbols[name]
            tests = [f"{spelled} < {low}"]
            tests += [f"{spelled} > {high}"] if high is not None else []
            lines.append(f"  if ({' || '.join(tests)}) return {self.face.upper}_WRONG_SIZE;\n")
        for rule in checked(self.function):
            left, right = (c_dim(d, self.face.sizes) for d in (rule.left, rule.right))
            lines.append(
                f"  if (!({left} {rule.relation} {right})) return {self.face.upper}_WRONG_SIZE;\n"
            )
        return "".join(lines)


_HEAD = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *, const void *, size_t);
#if defined(__GNUC__)
#define memcpy __builtin_memcpy /* with -ffreestanding too */
#endif
"""


_MANY = "\n#define CUVIL_BUSY /* it multiplies much: products are made in tiles with -Os too */\n"


def _greatest(sizes: list[tuple[str, int]]) -> list[list[object]]:
    return [[what, size] for what, size in sorted(sizes, key=lambda x: (-x[1], x[0]))[:5]]


def _is_known(name: str) -> bool:
    return not name.startswith("cuvil_") or bool(written_out([name]))


def _parameters(kernel: Kernel) -> str:
    parts = []
    for name, f in kernel.fields.items():
        if f.kind == "dim":
            parts.append(f"ptrdiff_t {name}")
        elif f.kind == "fault":
            parts.append(f"int *{name}")
        else:
            parts.append(f"{f.ctype.strip().removesuffix('*').strip()} *restrict {name}")
    return ", ".join(parts) or "void"


def _body(kernel: Kernel) -> str:
    text = c_text(kernel.body)
    unused = [n for n in kernel.fields if not re.search(rf"\b{re.escape(n)}\b", text)]
    return "".join(f"  (void){name};\n" for name in unused) + text

