"""A fused function as C++ text: kernels, the entry that calls them in order, the weights.

Equal kernels are emitted once. The text is a function of the module alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.dispatch import Comparisons, WayTable
from cuvil.codegen.entry import EntryWriter
from cuvil.codegen.kernel import THREADS, Kernel, symbol_name
from cuvil.codegen.late import LateSteps
from cuvil.codegen.versions import (
    Version,
    Versions,
    choose_versions,
    kernel_of,
    larger_scratch,
)
from cuvil.codegen.weights import WeightLayout
from cuvil.codegen.workspace import Workspace, workspace_of
from cuvil.ir.core import Function, Module, Op
from cuvil.ir.late import call_symbols
from cuvil.passes.memory import ALIGNMENT, Plan, intermediate_bytes, plan_memory
from cuvil.passes.variants import When
from cuvil.sym.expr import Dim
from cuvil.sym.facts import Facts
from cuvil.sym.largest import Largest
from cuvil.target.base import Target

KERNELS_A_UNIT = 16


@dataclass
class Generated:
    """C++ units by file name, and the weights that go with them; the names of kernels, and the
    calls of them (name and op) in the order of the entry's text; the bytes of all intermediates,
    and the memory that a call works in; the versions of each call that has some, as names and where
    they run, and how many of them there was no room for; the table of versions, where the process
    may change them."""

    sources: dict[str, str]
    weights: WeightLayout
    kernels: list[str] = field(default_factory=list)
    calls: list[tuple[str, Op]] = field(default_factory=list)
    intermediates: Dim = 0
    workspace: Workspace | None = None
    dispatched: dict[int, list[tuple[str, Version]]] = field(default_factory=dict)
    left_out: int = 0
    table: WayTable | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # more for the manifest

    @property
    def memory(self) -> dict[str, Any]:
        """What the manifest says of memory."""
        space = {} if self.workspace is None else {"workspace": self.workspace.described()}
        return {"intermediates": str(self.intermediates), **space}


def generate(
    module: Module,
    target: Target,
    profile: bool = False,
    retuned: Sequence[When] | None = None,
) -> Generated:
    """The C++ of a module at stage "fused". With ``profile`` each call of a kernel is timed, under
    its index in ``calls``. With ``retuned``, ranges of sizes, how long calls take is recorded for
    each, and which version of a kernel runs is a table that the process may change."""
    return _Generator(module, target, profile, retuned).run()


class _Generator:
    def __init__(
        self, module: Module, target: Target, profile: bool, retuned: Sequence[When] | None
    ) -> None:
        self.profile = profile
        self.function: Function = module.main
        self.target = target
        self.facts = Facts(self.function.symbols)
        self.plan: Plan = plan_memory(self.function, self.facts)
        self.weights = WeightLayout()
        self.names = {name: symbol_name(name) for name in self.function.symbols}
        self.names[THREADS] = "threads"
        self.late = LateSteps(self.function)
        self.table = None if retuned is None else WayTable(self.names, [*retuned, {}])
        several = retuned is not None
        self.versions: Versions = choose_versions(self.function, self.facts, target, several)
        self._known: dict[str, str] = {}
        self._texts: dict[str, tuple[str, str, Kernel]] = {}
        self._used_names: dict[str, int] = {}
        self.scratch = Largest(self.facts)

    def run(self) -> Generated:
        writer = EntryWriter(
            self.function, self.plan, self.weights, self.names, self._called, self.late,
            self.table or Comparisons(self.names), self.profile,
        )  # fmt: skip
        statements = writer.body()
        offsets = writer.offsets(self.plan, "slot", "0", "scratch")
        sources = self._kernel_units()
        sources["model.cpp"] = self._entry(offsets, statements)
        apart = intermediate_bytes(self.plan, self.function)
        return Generated(
            sources, self.weights, list(self._texts), writer.calls, apart,
            workspace_of(self.plan.total, self.scratch.value), writer.dispatched,
            self.versions.left_out, self.table,
        )  # fmt: skip

    def _called(self, op: Op) -> list[tuple[str, Version]]:
        """An op's version for all sizes and then the others, each with the name of its text, which
        equal kernels share."""
        general = Version({}, op, kernel_of(op, self.facts, self.target))
        self._reserve(general.kernel.scratch)
        found = [(self._named(general.kernel), general)]
        for made in self.versions.of.get(id(op), ()):
            own = made.kernel.scratch
            self._reserve(larger_scratch(own, general.kernel.scratch, made.when))
            found.append((self._named(made.kernel), made))
        return found

    def _reserve(self, scratch: Dim | None) -> None:
        if scratch is not None and not self.late.is_late(scratch):
            self.scratch.add(self.facts.simplify(scratch))

    def _named(self, kernel: Kernel) -> str:
        text = self._text(kernel)
        name = self._known.get(text)
        if name is None:
            name = self._name(kernel.title)
            self._known[text] = name
            struct, body = text.split("@SPLIT@")
            self._texts[name] = (struct, body, kernel)
        return name

    def _text(self, kernel: Kernel) -> str:
        fields = "".join(f"  {f.ctype}{name};\n" for name, f in kernel.fields.items())
        struct = f"struct Args {{\n{fields}}};\n"
        unpack = kernel.unpack()
        context = "  const Args& k = *(const Args*)context;\n" if kernel.fields else ""
        body = kernel.body.replace("@UNPACK@", context + unpack)
        head = "void run(const cuvil::RunContext& rc, const Args& k) {\n"
        return f"{struct}@SPLIT@{body}{head}{unpack}\n{kernel.launch}}}\n"

    def _name(self, title: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_]", "_", title)
        count = self._used_names.get(base, 0)
        self._used_names[base] = count + 1
        return f"k_{base}_{count}" if count else f"k_{base}"

    def _kernel_units(self) -> dict[str, str]:
        sources = {}
        names = list(self._texts)
        for unit in range(0, len(names), KERNELS_A_UNIT):
            chosen = names[unit : unit + KERNELS_A_UNIT]
            kernels = [self._texts[n][2] for n in chosen]
            includes = sorted({"kernel.hpp", *(i for k in kernels for i in k.includes)})
            text = "".join(f'#include "{i}"\n' for i in includes)
            given = sorted({s for k in kernels for s in k.sources})
            if given:  # these count lines of their own
                text += "".join(given)
                text += f'#line {text.count(chr(10)) + 2} "kernels{unit // KERNELS_A_UNIT}.cpp"\n'
            text += "\nnamespace cuvil::model {\n"
            for name in chosen:
                struct, body, _ = self._texts[name]
                internal = body.replace("void range", "static void range")
                internal = internal.replace("void finish_tile", "static void finish_tile")
                text += f"\nnamespace {name} {{\n{struct}{internal}}}  // namespace {name}\n"
            text += "\n}  // namespace cuvil::model\n"
            sources[f"kernels{unit // KERNELS_A_UNIT}.cpp"] = text
        return sources

    def _entry(self, offsets: str, statements: str) -> str:
        include = '#include "late.hpp"\n' if self.late.opening() else ""
        include += '#include "profile.hpp"\n' if self.profile else ""
        include += '#include "retune.hpp"\n' if self.table is not None else ""
        text = f'#include "kernel.hpp"\n{include}\nnamespace cuvil::model {{\n\n'
        for name, (struct, _, _) in self._texts.items():
            flat = " ".join(struct.split())
            declared = f"{flat} void run(const RunContext& rc, const Args& k);"
            text += f"namespace {name} {{ {declared} }}\n"
        text += "\n" + self._workspace(offsets) + "\n"
        opening = self._symbols("rc.symbols", "rc.threads")
        count = len(call_symbols(self.function))
        if self.table is not None:
            text += self.table.before(self._symbols("symbols", "0"), count)
        text += "void run(const RunContext& rc) {\n"
        text += "  const cuvil::ProfileSlice whole(-1);\n" if self.profile else ""
        text += opening + offsets
        text += self.table.opening() if self.table is not None else ""
        text += self.late.opening() + statements + "}\n"
        if self.table is None:
            return text + "\n}  // namespace cuvil::model\n"
        return text + self.table.after(opening + offsets, count) + "}  // namespace cuvil\n"

    def _symbols(self, array: str, threads: str) -> str:
        lines = [
            f"  [[maybe_unused]] const int64_t {symbol_name(name)} = {array}[{i}];\n"
            for i, name in enumerate(call_symbols(self.function))
            if name not in self.late.symbols
        ]
        lines.append(f"  [[maybe_unused]] const int64_t threads = {threads};\n")
        return "".join(lines)

    def _workspace(self, offsets: str) -> str:
        return (
            "int64_t workspace_bytes(const int64_t* symbols, int32_t thread_count) {\n"
            "  (void)symbols;\n"
            + self._symbols("symbols", "thread_count")
            + offsets
            + f"  return scratch + cuvil::aligned({cxx(self.scratch.value, self.names)})"
            + f" + {ALIGNMENT};\n}}\n"
        )
