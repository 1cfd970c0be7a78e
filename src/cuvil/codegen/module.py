"""A fused function as C++ text: kernels, the entry that calls them in order, the weights.

Equal kernels are emitted once. The text is a function of the module alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cuvil.codegen.contraction_kernel import THREADS, contraction_kernel
from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.kernel import Field, Kernel, symbol_name
from cuvil.codegen.map_kernel import map_kernel
from cuvil.codegen.reduce_kernel import reduce_kernel
from cuvil.codegen.standalone import standalone_kernel
from cuvil.codegen.weights import WeightLayout
from cuvil.errors import CuvilError
from cuvil.ir.core import Function, Module, Op, Value
from cuvil.passes.memory import Plan, alias_root, plan_memory
from cuvil.sym.expr import Dim, maximum, substitute
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

KERNELS_A_UNIT = 16


@dataclass
class Generated:
    """C++ units by file name, and the weights that go with them."""

    sources: dict[str, str]
    weights: WeightLayout
    kernels: list[str] = field(default_factory=list)


def generate(module: Module, target: Target) -> Generated:
    """The C++ of a module at stage "fused"."""
    return _Generator(module, target).run()


@dataclass
class _Call:
    name: str
    comment: str
    kernel: Kernel
    arguments: list[str]


class _Generator:
    def __init__(self, module: Module, target: Target) -> None:
        self.function: Function = module.main
        self.target = target
        self.facts = Facts(self.function.symbols)
        self.plan: Plan = plan_memory(self.function)
        self.weights = WeightLayout()
        self.names = {name: symbol_name(name) for name in self.function.symbols}
        self.names[THREADS] = "threads"
        self.calls: list[_Call] = []
        self._known: dict[str, str] = {}
        self._texts: dict[str, tuple[str, str, Kernel]] = {}
        self._used_names: dict[str, int] = {}
        self.scratch: Dim = 0

    def run(self) -> Generated:
        for op in self.function.body.ops:
            if op.short in ("constant", "reshape", "return"):
                continue
            self._call(op, self._kernel(op))
        sources = self._kernel_units()
        sources["model.cpp"] = self._entry()
        return Generated(sources, self.weights, list(self._texts))

    def _kernel(self, op: Op) -> Kernel:
        if op.short != "fused":
            kernel = standalone_kernel(op, self.facts, self.target)
        elif op.attrs["kind"] == "map":
            kernel = map_kernel(op, self.facts)
        elif op.attrs["kind"] == "reduce":
            kernel = reduce_kernel(op, self.facts)
        else:
            kernel = contraction_kernel(op, self.facts, self.target)
        if kernel.scratch is not None:
            self.scratch = self.facts.simplify(maximum(self.scratch, kernel.scratch))
        return kernel

    def _call(self, op: Op, kernel: Kernel) -> None:
        outer = self._outer_values(op)
        arguments = [self._argument(f, outer) for f in kernel.fields.values()]
        text = self._text(kernel)
        name = self._known.get(text)
        if name is None:
            name = self._name(kernel.title)
            self._known[text] = name
            struct, body = text.split("@SPLIT@")
            self._texts[name] = (struct, body, kernel)
        self.calls.append(_Call(name, str(op.loc), kernel, arguments))

    def _outer_values(self, op: Op) -> dict[int, Value]:
        """Region arguments to the values outside that they stand for."""
        outer = {id(v): v for v in (*op.operands, *op.results)}
        for region in op.regions:
            for inside, value in zip(region.args, op.operands, strict=True):
                outer[id(inside)] = value
        return outer

    def _argument(self, f: Field, outer: dict[int, Value]) -> str:
        if f.kind in ("buffer", "packed"):
            assert f.value is not None
            return f"({f.ctype.strip()})({self._address(outer[id(f.value)], f.packing)})"
        if f.kind == "dim":
            return cxx(f.dim, self.names)
        if f.kind == "scratch":
            return "rc.workspace + scratch"
        if f.kind == "fault":
            return "rc.fault"
        raise CuvilError(f"unknown kernel argument kind {f.kind}")

    def _address(self, value: Value, packing: str = "") -> str:
        root = alias_root(value)
        if root.op is None:
            return f"rc.inputs[{root.index}]"
        if root.op.short == "constant":
            return f"rc.weights + {self.weights.place(root.op.attrs['value'], packing)}"
        if id(root) in self.plan.outputs:
            return f"rc.outputs[{self.plan.outputs[id(root)]}]"
        return f"rc.workspace + slot{self.plan.of[id(root)]}"

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
            text += "".join(sorted({s for k in kernels for s in k.sources}))
            text += "\nnamespace cuvil::model {\n"
            for name in chosen:
                struct, body, _ = self._texts[name]
                internal = body.replace("void range", "static void range")
                internal = internal.replace("void finish_tile", "static void finish_tile")
                text += f"\nnamespace {name} {{\n{struct}{internal}}}  // namespace {name}\n"
            text += "\n}  // namespace cuvil::model\n"
            sources[f"kernels{unit // KERNELS_A_UNIT}.cpp"] = text
        return sources

    def _entry(self) -> str:
        text = '#include "kernel.hpp"\n\nnamespace cuvil::model {\n\n'
        for name, (struct, _, _) in self._texts.items():
            flat = " ".join(struct.split())
            declared = f"{flat} void run(const RunContext& rc, const Args& k);"
            text += f"namespace {name} {{ {declared} }}\n"
        text += "\n" + self._workspace() + "\nvoid run(const RunContext& rc) {\n"
        text += self._symbols("rc.symbols", "rc.threads") + self._offsets()
        for call in self.calls:
            comment = f"  // {call.comment}\n" if call.comment else ""
            arguments = ", ".join(call.arguments)
            text += f"{comment}  {call.name}::run(rc, {{{arguments}}});\n"
        text += self._copies()
        return text + "}\n\n}  // namespace cuvil::model\n"

    def _symbols(self, array: str, threads: str) -> str:
        lines = [
            f"  [[maybe_unused]] const int64_t {symbol_name(name)} = {array}[{i}];\n"
            for i, name in enumerate(self.function.symbols)
        ]
        lines.append(f"  [[maybe_unused]] const int64_t threads = {threads};\n")
        return "".join(lines)

    def _offsets(self) -> str:
        lines, previous = [], "0"
        for number, size in enumerate(self.plan.slots):
            lines.append(f"  [[maybe_unused]] const int64_t slot{number} = {previous};\n")
            previous = f"slot{number} + cuvil::aligned({cxx(size, self.names)})"
        lines.append(f"  [[maybe_unused]] const int64_t scratch = {previous};\n")
        return "".join(lines)

    def _workspace(self) -> str:
        return (
            "int64_t workspace_bytes(const int64_t* symbols, int32_t thread_count) {\n"
            "  (void)symbols;\n"
            + self._symbols("symbols", "thread_count")
            + self._offsets()
            + f"  return scratch + cuvil::aligned({cxx(self.scratch, self.names)}) + 64;\n}}\n"
        )

    def _copies(self) -> str:
        """Outputs that are an input, a constant, or the same value as another output."""
        text = ""
        for index, value in enumerate(self.function.outputs):
            root = alias_root(value)
            if self.plan.outputs.get(id(root)) == index:
                continue
            size = cxx(substitute(value.type.elements, {}), self.names)
            text += (
                f"  __builtin_memcpy(rc.outputs[{index}], {self._address(value)}, "
                f"{size} * {value.type.dtype.size});\n"
            )
        return text


