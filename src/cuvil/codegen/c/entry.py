"""The function that a C program calls: kernels in order, with control flow around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.codegen.c.arena import Arena, Buffer, member
from cuvil.codegen.c.constants import Constants
from cuvil.codegen.c.spelling import c_dim
from cuvil.codegen.kernel import Field, Kernel, storage
from cuvil.ir.control import IF, REQUIRE, Loop, constraint_of, is_control
from cuvil.ir.core import Block, Function, Op, Value
from cuvil.passes.memory import alias_root
from cuvil.sym.expr import Dim, mul

_SILENT = ("constant", "reshape", "return", "yield")
Named = Callable[[Op], tuple[str, Kernel]]


class EntryWriter:
    """Writes the statements of the run function. ``named`` gives an op's kernel and its name."""

    def __init__(
        self, function: Function, arena: Arena, constants: Constants, names: Mapping[str, str],
        named: Named,
    ) -> None:  # fmt: skip
        self.function = function
        self.arena = arena
        self.constants = constants
        self.names = names
        self.named = named
        self.places: dict[int, str] = {}
        self.calls: list[tuple[str, Op]] = []
        self.may_fail = False
        self._regions = 0

    def body(self, inputs: list[str], outputs: list[str]) -> str:
        """The statements; ``inputs`` and ``outputs`` are the parameters' names."""
        for value, name in zip(self.function.inputs, inputs, strict=True):
            self.places[id(value)] = name
        return self._block(self.function.body, outputs, "  ")

    def dim(self, value: Dim) -> str:
        """A size in C."""
        return c_dim(value, self.names)

    def _place(self, buffer: Buffer) -> str:
        array = f"arena.{member(buffer.ctype)}"
        return array if buffer.offset == 0 else f"{array} + {buffer.offset}"

    def _block(self, block: Block, outputs: list[str], indent: str) -> str:
        for op in block.ops:
            for result in op.results:
                if id(result) in self.arena.values:
                    self.places[id(result)] = self._place(self.arena.values[id(result)])
                elif id(result) in self.arena.outputs:
                    self.places[id(result)] = outputs[self.arena.outputs[id(result)]]
        text = ""
        for op in block.ops:
            if op.name == REQUIRE:
                text += self._require(op, indent)
            elif is_control(op):
                text += self._control(op, indent)
            elif op.short not in _SILENT:
                text += self._call(op, indent)
        return text + self._copies(block, outputs, indent)

    def _call(self, op: Op, indent: str) -> str:
        name, kernel = self.named(op)
        outer = {id(v): v for v in (*op.operands, *op.results)}
        for region in op.regions:
            for inside, value in zip(region.args, op.operands, strict=True):
                outer[id(inside)] = value
        arguments = ", ".join(self._argument(f, outer, op) for f in kernel.fields.values())
        self.calls.append((name, op))
        return f"{comment(op, indent)}{indent}{name}({arguments});\n"

    def _argument(self, f: Field, outer: dict[int, Value], op: Op) -> str:
        if f.kind in ("buffer", "packed"):
            assert f.value is not None
            return self.address(outer[id(f.value)], f.packing)
        if f.kind == "dim":
            return self.dim(f.dim)
        if f.kind == "scratch":
            return self._place(self.arena.scratch[id(op)])
        self.may_fail = True
        return "&status"

    def address(self, value: Value, packing: str = "") -> str:
        """Where a value lies."""
        root = alias_root(value)
        if root.op is not None and root.op.short == "constant":
            return self.constants.name(root.op.attrs["value"], packing)
        return self.places[id(root)]

    def _copies(self, block: Block, outputs: list[str], indent: str) -> str:
        """Results that are an argument, a constant, or the same value as another result."""
        text = ""
        for index, value in enumerate(block.terminator.operands):
            if self.arena.outputs.get(id(alias_root(value))) != index:
                text += indent + self._copy(outputs[index], self.address(value), value)
        return text

    def _copy(self, to: str, source: str, value: Value) -> str:
        size = self.dim(mul(value.type.elements, value.type.dtype.size))
        return f"memcpy({to}, {source}, (size_t){size});\n"

    def _require(self, op: Op, indent: str) -> str:
        rule = constraint_of(op)
        test = f"{self.dim(rule.left)} {rule.relation} {self.dim(rule.right)}"
        return f"{indent}if (!({test})) return 1; /* {rule} */\n"

    def _control(self, op: Op, indent: str) -> str:
        self._regions += 1
        label = f"r{self._regions}_"
        if op.name == IF:
            return comment(op, indent) + self._if(op, indent)
        inner = self._loop(op, label, indent + "  ")
        return f"{comment(op, indent)}{indent}{{\n{inner}{indent}}}\n"

    def _if(self, op: Op, indent: str) -> str:
        condition, *captures = op.operands
        outputs = [self.places[id(v)] for v in op.results]
        text = f"{indent}if (*({self.address(condition)})) {{\n"
        for region in op.regions:
            for arg, value in zip(region.args, captures, strict=True):
                self.places[id(arg)] = self.address(value)
            text += self._block(region, outputs, indent + "  ")
            text += f"{indent}}} else {{\n" if region is op.regions[0] else f"{indent}}}\n"
        return text

    def _loop(self, op: Op, label: str, indent: str) -> str:
        """Each carried value has two places; a trip reads one and writes the other."""
        loop = Loop(op)
        step, inner = f"{label}step", indent + "  "
        before, swap, after, outputs = "", "", "", []
        for i, (init, result) in enumerate(zip(loop.inits, loop.results, strict=True)):
            now, to, other = (f"{label}{n}{i}" for n in ("now", "next", "other"))
            home, ctype = self.places[id(result)], storage(result.type.dtype)
            before += (
                f"{indent}const {ctype} *{now} = {self.address(init)};\n"
                f"{indent}{ctype} *{to} = {home}, *{other} = "
                f"{self._place(self.arena.spares[id(op)][i])};\n"
            )
            swap += f"{inner}{now} = {to};\n{inner}{to} = {other};\n"
            swap += f"{inner}{other} = ({ctype} *){now};\n"
            after += f"{indent}if ({now} != {home}) {self._copy(home, now, result)}"
            outputs.append(to)
            self.places[id(loop.carried_args[i])] = now
        for row, stack in zip(loop.rows, loop.stacks, strict=True):
            outputs.append(
                f"({self.places[id(stack)]} + {step} * {self.dim(row.type.elements)})"
            )
        self.places[id(loop.body.args[0])] = f"&{step}"
        for arg, value in zip(loop.captured_args, loop.captures, strict=True):
            self.places[id(arg)] = self.address(value)
        head, flag = self._head(loop, label, indent)
        text = self._block(loop.body, [*flag, *outputs], inner)
        return f"{before}{head} {{\n{text}{swap}{indent}}}\n{after}"

    def _head(self, loop: Loop, label: str, indent: str) -> tuple[str, list[str]]:
        step, go = f"{label}step", f"{label}go"
        if not loop.conditional:
            end = self.dim(loop.trips)
            return f"{indent}for (int64_t {step} = 0; {step} < {end}; ++{step})", []
        self.may_fail = True
        limit, start = (self.address(v) for v in loop.op.operands[:2])
        going = f"{step} < {label}limit && {go} && status == 0"
        return (
            f"{indent}const int64_t {label}limit = *({limit});\n"
            f"{indent}uint8_t {go} = *({start});\n"
            f"{indent}for (int64_t {step} = 0; {going}; ++{step})"
        ), [f"&{go}"]


def comment(op: Op, indent: str) -> str:
    """Where in the source model an op comes from."""
    place = str(op.loc).replace("*/", "* /").replace("/*", "/ *")
    return f"{indent}/* {place} */\n" if place else ""
