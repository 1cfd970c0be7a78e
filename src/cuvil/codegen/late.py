"""Late sizes in the entry's text: binding symbols, checking what needs them, taking memory."""

from __future__ import annotations

from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.kernel import THREADS, symbol_name
from cuvil.errors import CuvilError
from cuvil.ir.core import Function, Op, Value
from cuvil.ir.keeping import PLACE, places_kept
from cuvil.ir.late import bound_by, call_symbols, checked, late_symbols
from cuvil.ir.signature import MAX_SYMBOL
from cuvil.passes.memory import Plan, alias_root
from cuvil.sym.expr import Dim, mul, symbols_of

_STOP = "if (late.failed()) return;\n"


def _kept(op: Op, side: str) -> tuple[str, str]:
    """The side of an op that puts aside or brings back, and where its block is noted."""
    turn = f"*(const int64_t*)({side})"
    return turn, f"kept[{2 * op.attrs[PLACE]} + ({turn} & 1)]"


class LateSteps:
    """Text around the calls of a function with late symbols; nothing for one without.

    ``scratch`` is the address of the next kernel's memory, if that is late. Sizes are computed with
    overflow noticed: they come from data.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.symbols = frozenset(late_symbols(function))
        self.scratch = ""
        self._places = places_kept(function)
        order = call_symbols(function)
        self._number = {name: i for i, name in enumerate(order)}
        self._known = {name for name in order if name not in self.symbols} | {THREADS}
        self._names = {name: f"cuvil::Checked({symbol_name(name)})" for name in order}
        self._names[THREADS] = "cuvil::Checked(threads)"
        self._pending = [
            (i, c) for i, c in enumerate(checked(function)) if c.symbols() & self.symbols
        ]
        self._scratches = self._brought = 0

    def is_late(self, dim: Dim) -> bool:
        """Whether a size needs a late symbol."""
        return bool(symbols_of(dim) & self.symbols)

    def dim(self, value: Dim) -> str:
        """An expression that notices overflow, if it needs a late symbol; else ""."""
        return cxx(value, self._names) if self.is_late(value) else ""

    def opening(self) -> str:
        """What stands before the first call."""
        if not self.symbols and not self._places:
            return ""
        kept = f"  cuvil::LateBlock* kept[{2 * self._places}] = {{}};\n" if self._places else ""
        return f"{kept}  cuvil::LateCall late(rc);\n"

    def bind(self, op: Op, address: str, indent: str) -> str:
        """The values of symbols, read from memory, and the checks that have waited for them."""
        text = ""
        for place, name in enumerate(bound_by(op)):
            low, high = self.function.symbols[name]
            high = MAX_SYMBOL if high is None else min(high, MAX_SYMBOL)
            value = f"((const int64_t*)({address}))[{place}]"
            text += (
                f"{indent}[[maybe_unused]] const int64_t {symbol_name(name)} = "
                f"late.bind({self._number[name]}, {value}, {low}, {high});\n"
            )
            self._known.add(name)
        ready = [(i, c) for i, c in self._pending if c.symbols() <= self._known]
        self._pending = [item for item in self._pending if item not in ready]
        for number, c in ready:
            left, right = cxx(c.left, self._names), cxx(c.right, self._names)
            text += f"{indent}late.require({number}, {left} {c.relation} {right});\n"
        return f"{text}{indent}{_STOP}"

    def keep(self, op: Op, source: str, side: str, token: str, own: str, indent: str) -> str:
        """A value put aside from the address ``source``; ``own`` is the late slot that nothing else
        lies in, if there is one: its memory changes hands."""
        turn, place = _kept(op, side)
        size = self._text(mul(op.operands[0].type.elements, op.operands[0].type.dtype.size), op)
        put = f"late.adopt({place}, {own})" if own else f"late.keep({place}, {source}, {size})"
        text = f"{indent}{put};\n{indent}{_STOP}"
        return f"{text}{indent}*(int64_t*)({token}) = {turn};\n"

    def kept(self, op: Op, side: str, target: str, indent: str) -> tuple[str, str]:
        """The value of a token, copied to ``target`` or, without one, where it lies: the text, and
        its address."""
        place = _kept(op, side)[1]
        size = self._text(mul(op.type.elements, op.type.dtype.size), op)
        self._brought += 1
        name = f"kept_{self._brought}"
        text = f"{indent}char* const {name} = late.kept({place}, {size});\n{indent}{_STOP}"
        if target:
            count = f"size_t(cuvil::Checked({size}).value)"
            text += f"{indent}__builtin_memcpy({target}, {name}, {count});\n"
        return text, target or name

    def take(self, op: Op, plan: Plan, prefix: str, indent: str, scratch: Dim | None) -> str:
        """Memory for what the op writes: places as offsets from the workspace, like others."""
        text = ""
        for slot in plan.taken.get(id(op), ()):
            size = self._text(plan.slots[slot], op)
            text += (
                f"{indent}[[maybe_unused]] const int64_t {prefix}{slot} = late.take({size});\n"
            )
        self.scratch = ""
        if scratch is not None and self.is_late(scratch):
            self._scratches += 1
            name = f"scratch{self._scratches}"
            self.scratch = f"rc.workspace + {name}"
            text += f"{indent}const int64_t {name} = late.take({self._text(scratch, op)});\n"
        return f"{text}{indent}{_STOP}" if text else ""

    def give(self, op: Op, plan: Plan, prefix: str, indent: str) -> str:
        """Memory that nobody reads any more."""
        names = [f"{prefix}{slot}" for slot in plan.given.get(id(op), ())]
        if self.scratch:
            names.append(f"scratch{self._scratches}")
        return "".join(f"{indent}late.give({name});\n" for name in names)

    def output(self, index: int, value: Value, indent: str) -> str:
        """Memory for an output whose declared shape is late; ``value`` is what lies there."""
        if not self.function.outputs[index].type.symbols() & self.symbols:
            return ""
        root = alias_root(value)
        size = self._text(mul(root.type.elements, root.type.dtype.size), root.op)
        return f"{indent}late.output({index}, {size});\n{indent}{_STOP}"

    def _text(self, size: Dim, op: Op | None) -> str:
        unknown = symbols_of(size) - self._known
        if unknown:
            raise CuvilError(
                f"memory is needed before {', '.join(sorted(unknown))} is known",
                where="" if op is None else str(op.loc),
                stage="codegen",
            )
        return cxx(size, self._names)
