"""The entry's text: kernels called in order, and control flow around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.dispatch import Comparisons, WayTable
from cuvil.codegen.kernel import Field
from cuvil.codegen.late import LateSteps
from cuvil.codegen.versions import Version
from cuvil.codegen.weights import WeightLayout
from cuvil.errors import CuvilError
from cuvil.ir.control import IF, REQUIRE, Loop, constraint_of, inner_checks, is_control
from cuvil.ir.core import Block, Function, Op, Value
from cuvil.ir.keeping import KEEP, is_keeping
from cuvil.ir.late import checked
from cuvil.passes.memory import Plan, alias_root
from cuvil.sym.expr import Dim, mul

_SILENT = ("constant", "reshape", "return", "yield")
# The names and versions of an op's kernel, the first of which is for all sizes.
Called = Callable[[Op], list[tuple[str, Version]]]


class EntryWriter:
    """Writes the statements of ``run``. ``called`` gives the kernels of an op, ``chooser`` writes
    which of them runs; ``names`` are the C++ spelling of symbols. With ``profile`` each call of a
    kernel is timed."""

    def __init__(
        self,
        function: Function,
        plan: Plan,
        weights: WeightLayout,
        names: Mapping[str, str],
        called: Called,
        late: LateSteps,
        chooser: Comparisons | WayTable,
        profile: bool = False,
    ) -> None:
        self.function = function
        self.plan = plan
        self.weights = weights
        self.names = names
        self.called = called
        self.late = late
        self.chooser = chooser
        self.places: dict[int, str] = {}
        first = len(checked(function))
        self.checks = {rule: first + i for i, rule in enumerate(inner_checks(function))}
        self.regions = 0
        self.profile = profile
        self.calls: list[tuple[str, Op]] = []  # name of the kernel and op, numbered as profiled
        self.dispatched: dict[int, list[tuple[str, Version]]] = {}  # by number of the call

    def body(self) -> str:
        """The statements of the function, its slots' offsets left out."""
        for index, value in enumerate(self.function.inputs):
            self.places[id(value)] = f"rc.inputs[{index}]"
        outputs = [f"rc.outputs[{i}]" for i in range(len(self.function.outputs))]
        return self._block(self.function.body, self.plan, "slot", outputs, "  ")

    def offsets(self, plan: Plan, prefix: str, start: str, end: str, indent: str = "  ") -> str:
        """Where each slot begins, and where the last one ends."""
        lines, previous = [], start
        for number, size in enumerate(plan.slots):
            if number in plan.late:
                continue
            lines.append(f"[[maybe_unused]] const int64_t {prefix}{number} = {previous};\n")
            previous = f"{prefix}{number} + cuvil::aligned({self.dim(size)})"
        lines.append(f"[[maybe_unused]] const int64_t {end} = {previous};\n")
        return "".join(indent + line for line in lines)

    def dim(self, value: Dim) -> str:
        """An expression over symbols in C++."""
        return cxx(value, self.names)

    def _block(
        self, block: Block, plan: Plan, prefix: str, outputs: list[str], indent: str
    ) -> str:
        """The statements of a block whose results go to the addresses ``outputs``."""
        for op in block.ops:
            for result in op.results:
                if id(result) in plan.outputs:
                    self.places[id(result)] = outputs[plan.outputs[id(result)]]
                elif id(result) in plan.of:
                    self.places[id(result)] = f"rc.workspace + {prefix}{plan.of[id(result)]}"
        text = ""
        for op in block.ops:
            if op.name == REQUIRE:
                text += self._require(op, indent)
            elif op.short == "sizes":
                text += self.late.bind(op, self.address(op.operands[0]), indent)
            elif is_control(op):
                before, after = self._memory(op, plan, prefix, indent)
                text += before + self._control(op, plan, prefix, indent) + after
            elif is_keeping(op):
                text += self._keeping(op, plan, prefix, indent)
            elif op.short not in _SILENT:
                text += self._call(op, plan, prefix, indent)
        return text + self._copies(block, plan, outputs, indent)

    def _memory(
        self, op: Op, plan: Plan, prefix: str, indent: str, scratch: Dim | None = None
    ) -> tuple[str, str]:
        """What stands around an op that writes where late sizes decide how much."""
        if not self.late.symbols:
            return "", ""
        before = "" if plan is not self.plan else "".join(
            self.late.output(plan.outputs[id(r)], r, indent)
            for r in op.results if id(r) in plan.outputs
        )  # fmt: skip
        before += self.late.take(op, plan, prefix, indent, scratch)
        return before, self.late.give(op, plan, prefix, indent)

    def _call(self, op: Op, plan: Plan, prefix: str, indent: str) -> str:
        called = self.called(op)
        name, general = called[0]
        before, after = self._memory(op, plan, prefix, indent, general.kernel.scratch)
        texts = [(version, self._run(name, version, op)) for name, version in called]
        outside = plan is self.plan and not self.late.symbols
        call = self.chooser.text(op, texts, indent, outside)
        if self.profile:
            call = f"{indent}{{ cuvil::ProfileSlice slice({len(self.calls)});\n{call}{indent}}}\n"
        fixed = [(name, version) for name, version in called[1:] if version.is_fixed]
        if fixed:
            self.dispatched[len(self.calls)] = fixed
        self.calls.append((name, op))
        return f"{_comment(op, indent)}{before}{call}{after}"

    def _run(self, name: str, version: Version, op: Op) -> str:
        """The call of a version: its own values stand for those of the op."""
        own = version.op
        outer = dict(zip(map(id, (*own.operands, *own.results)), (*op.operands, *op.results)))
        for region in own.regions:
            outer.update(zip(map(id, region.args), op.operands, strict=True))
        fields = version.kernel.fields.values()
        return f"{name}::run(rc, {{{', '.join(self._argument(f, outer) for f in fields)}}});"

    def _keeping(self, op: Op, plan: Plan, prefix: str, indent: str) -> str:
        before, after = self._memory(op, plan, prefix, indent)
        side = self.address(op.operands[-1])
        if op.name == KEEP:
            source, token = self.address(op.operands[0]), self.address(op.result)
            slot = plan.of.get(id(alias_root(op.operands[0])), -1)
            own = f"{prefix}{slot}" if slot in plan.given.get(id(op), ()) else ""
            text = self.late.keep(op, source, side, token, own, indent)
            if own:
                after = after.replace(f"{indent}late.give({own});\n", "")
        else:
            target = self.places.get(id(op.result), "")
            text, self.places[id(op.result)] = self.late.kept(op, side, target, indent)
        return f"{_comment(op, indent)}{before}{text}{after}"

    def _argument(self, f: Field, outer: dict[int, Value]) -> str:
        if f.kind in ("buffer", "packed"):
            assert f.value is not None
            return f"({f.ctype.strip()})({self.address(outer[id(f.value)], f.packing)})"
        if f.kind == "dim":
            return self.dim(f.dim)
        if f.kind == "scratch":
            return self.late.scratch or "rc.workspace + scratch"
        if f.kind == "fault":
            return "rc.fault"
        raise CuvilError(f"unknown kernel argument kind {f.kind}")

    def address(self, value: Value, packing: str = "") -> str:
        """Where a value lies, as C++."""
        root = alias_root(value)
        if root.op is not None and root.op.short == "constant":
            return f"rc.weights + {self.weights.place(root.op.attrs['value'], packing)}"
        return self.places[id(root)]

    def _copies(self, block: Block, plan: Plan, outputs: list[str], indent: str) -> str:
        """Results that are an argument, a constant, or the same value as another result."""
        text = ""
        for index, value in enumerate(block.terminator.operands):
            root = alias_root(value)
            if plan.outputs.get(id(root)) != index:
                if plan is self.plan:
                    text += self.late.output(index, value, indent)
                text += self._copy(outputs[index], self.address(value), value, indent)
        return text

    def _copy(self, to: str, source: str, value: Value, indent: str) -> str:
        size = self.dim(mul(value.type.elements, value.type.dtype.size))
        return f"{indent}__builtin_memcpy({to}, {source}, {size});\n"

    def _require(self, op: Op, indent: str) -> str:
        rule = constraint_of(op)
        left, right = (self.late.dim(d) or self.dim(d) for d in (rule.left, rule.right))
        text = f"{left} {rule.relation} {right}"
        fault = f"cuvil::set_broken(rc.fault, {self.checks[rule]})"
        return f"{indent}if (!({text})) return {fault};  // {rule}\n"

    def _control(self, op: Op, plan: Plan, prefix: str, indent: str) -> str:
        self.regions += 1
        label = f"r{self.regions}_"
        inner = indent + "  "
        base = f"{inner}const int64_t {label}base = {prefix}{plan.inner[id(op)]};\n"
        write = self._if if op.name == IF else self._loop
        text = write(op, plan, label, inner)
        return f"{_comment(op, indent)}{indent}{{\n{base}{text}{indent}}}\n"

    def _if(self, op: Op, plan: Plan, label: str, indent: str) -> str:
        condition, *captures = op.operands
        outputs = [self.places[id(v)] for v in op.results]
        text = f"{indent}if (*(const uint8_t*)({self.address(condition)})) {{\n"
        for region in op.regions:
            for arg, value in zip(region.args, captures, strict=True):
                self.places[id(arg)] = self.address(value)
            text += self._region(region, plan, label, outputs, indent + "  ")
            text += f"{indent}}} else {{\n" if region is op.regions[0] else f"{indent}}}\n"
        return text

    def _region(
        self, region: Block, plan: Plan, label: str, outputs: list[str], indent: str
    ) -> str:
        own = plan.blocks[id(region)]
        text = self.offsets(own, f"{label}slot", f"{label}base", f"{label}end", indent)
        return text + self._block(region, own, f"{label}slot", outputs, indent)

    def _loop(self, op: Op, plan: Plan, label: str, indent: str) -> str:
        """Each carried value has two places, the result's own and a spare one; a trip reads one
        and writes the other. The first trip reads the initial value where it lies."""
        loop = Loop(op)
        step, inner = f"{label}step", indent + "  "
        end = f"{label}base + {self.dim(plan.blocks[id(loop.body)].total)}"
        before, swap, after = "", "", ""
        outputs, spare = [], f"rc.workspace + {end}"
        for i, (init, result) in enumerate(zip(loop.inits, loop.results, strict=True)):
            now, to, other = f"{label}now{i}", f"{label}next{i}", f"{label}other{i}"
            home = self.places[id(result)]
            before += (
                f"{indent}const char* {now} = (const char*)({self.address(init)});\n"
                f"{indent}char* {to} = (char*)({home});\n{indent}char* {other} = {spare};\n"
            )
            size = self.dim(mul(result.type.elements, result.type.dtype.size))
            spare = f"{other} + cuvil::aligned({size})"
            swap += f"{inner}{now} = {to}, {to} = {other}, {other} = (char*){now};\n"
            after += f"{indent}if ({now} != (const char*)({home}))"
            after += self._copy(f"(char*)({home})", now, result, " ")
            outputs.append(to)
            self.places[id(loop.carried_args[i])] = now
        for row, stack in zip(loop.rows, loop.stacks, strict=True):
            size = self.dim(mul(row.type.elements, row.type.dtype.size))
            outputs.append(f"((char*)({self.places[id(stack)]}) + {step} * {size})")
        self.places[id(loop.body.args[0])] = f"&{step}"
        for arg, value in zip(loop.captured_args, loop.captures, strict=True):
            self.places[id(arg)] = self.address(value)
        head, flag = self._head(loop, label, indent)
        text = self._region(loop.body, plan, label, [*flag, *outputs], inner)
        return f"{before}{head} {{\n{text}{swap}{indent}}}\n{after}"

    def _head(self, loop: Loop, label: str, indent: str) -> tuple[str, list[str]]:
        """The ``for`` with its conditions, and the address of the flag that ends it."""
        step, go = f"{label}step", f"{label}go"
        if not loop.conditional:
            count = self.dim(loop.trips)
            return f"{indent}for (int64_t {step} = 0; {step} < {count}; ++{step})", []
        limit, start = (self.address(v) for v in loop.op.operands[:2])
        # After a fault nothing is what it should be: the loop might never end.
        going = f"{step} < {label}limit && {go} && !cuvil::is_faulty(rc.fault)"
        return (
            f"{indent}const int64_t {label}limit = *(const int64_t*)({limit});\n"
            f"{indent}uint8_t {go} = *(const uint8_t*)({start});\n"
            f"{indent}for (int64_t {step} = 0; {going}; ++{step})"
        ), [f"&{go}"]


def _comment(op: Op, indent: str) -> str:
    place = str(op.loc)
    return f"{indent}// {place}\n" if place else ""
