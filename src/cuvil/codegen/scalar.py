"""Elements of region values as C++ statements: the pull model.

``Point.element(value, index)`` writes, at one point of a loop nest, the statements that compute
one element and returns its C++ name. Movements become index arithmetic on the way; what is
computed twice at one index is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cuvil.analysis.index_map import LOCAL, VIEW_OPS, Index, offset_of, pull
from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.kernel import Kernel, symbol_name
from cuvil.codegen.literals import from_integer, literal
from cuvil.errors import CuvilError
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, DType
from cuvil.ops.cast import cast_text
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, add, mul, substitute, symbol, symbols_of
from cuvil.sym.facts import Facts

Provider = Callable[["Point", Index], str]
Special = Callable[["Point", Op, Index], str]
_IN_A_ROW = 16  # parts that are told apart one after the other


@dataclass
class Access:
    """A memory access seen while writing: its offset, and whether it moves data or decides."""

    offset: Dim
    pure: bool
    size: int = 0


@dataclass
class Writer:
    """State of one kernel's text: names, facts, and the accesses seen."""

    kernel: Kernel
    facts: Facts
    names: dict[str, str] = field(default_factory=dict)
    rename: Mapping[str, Dim] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    bound: dict[int, Provider] = field(default_factory=dict)
    counter: int = 0
    index_type = "int64_t"

    def spell(self, text: str, types: Sequence[DType]) -> str:
        """The text of an operator on operands of ``types``, as the writer's language has it."""
        return text

    def special(self, op: Op) -> Special | None:
        """How an element of an op is written that is more than a function of its operands'."""
        return _SPECIAL.get(op.short)

    def fresh(self, prefix: str = "t") -> str:
        """A new C++ name."""
        self.counter += 1
        return f"{prefix}{self.counter}"

    def text(self, dim: Dim) -> str:
        """An expression in C++; its model symbols become fields of the kernel."""
        if isinstance(dim, int):
            return cxx(dim, {}).strip("()")
        dim = substitute(dim, self.rename)
        for name in sorted(symbols_of(dim)):
            if name not in self.names:
                self.kernel.symbols(symbol(name))
                self.names[name] = symbol_name(name)
        return cxx(dim, self.names)

    def offset(self, dim: Dim, size: int) -> str:
        """The text of a memory offset, recorded as an access."""
        self.accesses.append(Access(dim, True, size))
        return self.text(dim)

    def decide(self, dim: Dim) -> str:
        """The text of an expression whose value matters by itself, recorded."""
        self.accesses.append(Access(dim, False))
        return self.text(dim)


class Point:
    """One place in the loop nest: statements so far and the elements already computed there.

    ``outside`` is the place just outside the innermost loop, for elements whose index has none of
    the symbols in ``varying``: a row's lookup is not made again for each column.
    """

    def __init__(self, writer: Writer, indent: int, parent: Point | None = None) -> None:
        self.writer = writer
        self.indent = indent
        self.parent = parent
        self.outside: Point | None = None
        self.varying: frozenset[str] = frozenset()
        self.lines: list[str] = []
        self._known: dict[tuple[int, Index], str] = {}

    def line(self, text: str) -> None:
        """Append one statement."""
        self.lines.append("  " * self.indent + text)

    def set(self, ctype: str, expression: str, prefix: str = "t") -> str:
        """``const ctype tN = expression;`` and its name."""
        name = self.writer.fresh(prefix)
        self.line(f"const {ctype} {name} = {expression};")
        return name

    def _lookup(self, key: tuple[int, Index]) -> str | None:
        point: Point | None = self
        while point is not None:
            found = point._known.get(key)
            if found is not None:
                return found
            point = point.parent
        return None

    def element(self, value: Value, index: Index) -> str:
        """The C++ name or literal of ``value[index]``."""
        key = (id(value), index)
        found = self._lookup(key)
        if found is None:
            place = self.place_of(index)
            found = self._compute(value, index) if place is self else place.element(value, index)
            self._known[key] = found
        return found

    def hoist_to(self, outside: Point, varying: Iterable[str]) -> Point:
        """Compute what doesn't vary with those symbols there; returns this point."""
        self.outside, self.varying = outside, frozenset(varying)
        return self

    def place_of(self, index: Index) -> Point:
        """Where to compute what stands at ``index``: outside the loop if it is the same there."""
        if self.outside is None or any(self.varying & symbols_of(part) for part in index):
            return self
        return self.outside

    def _compute(self, value: Value, index: Index) -> str:
        provider = self.writer.bound.get(id(value))
        if provider is not None:
            return provider(self, index)
        op = value.op
        if op is None:
            return self._load(value, index)
        if op.short in VIEW_OPS:
            return self.element(op.operands[0], pull(op, index, self.writer.facts))
        special = self.writer.special(op)
        if special is not None:
            return special(self, op, index)
        definition = registry()[op.name]
        if definition.scalar is None:
            raise CuvilError(f"{op.name} can't be part of a fused kernel", where=str(op.loc))
        if definition.source:
            self.writer.kernel.sources.add(definition.source)
        operands = [self.element(v, index) for v in op.operands]
        types = [v.type.dtype for v in op.operands]
        text = self.writer.spell(definition.scalar(operands, types, value.type.dtype), types)
        return text if text in operands else self.set(value.type.dtype.cxx, text)

    def _load(self, value: Value, index: Index) -> str:
        name = self.writer.kernel.buffer(value, buffer_name(value))
        offset = self.writer.facts.simplify(offset_of(index, value.type.shape))
        text = f"{name}[{self.writer.offset(offset, value.type.dtype.size)}]"
        if value.type.dtype.name == "bool":
            text = f"({text} != 0)"
        return self.set(value.type.dtype.cxx, text)

    def store(self, value: Value, name: str, index: Index, element: str) -> None:
        """``name[offset] = element;``"""
        offset = self.writer.facts.simplify(offset_of(index, value.type.shape))
        where = self.writer.offset(offset, value.type.dtype.size)
        self.line(f"{name}[{where}] = {element};")

    def choose(self, condition: str, dtype: DType, yes: Callable[[Point], str],
               no: Callable[[Point], str]) -> str:  # fmt: skip
        """``condition ? yes : no`` where only the chosen side is evaluated."""
        name = self.writer.fresh()
        self.line(f"{dtype.cxx} {name};")
        self.line(f"if ({condition}) {{")
        for side, closing in ((yes, "} else {"), (no, "}")):
            inner = Point(self.writer, self.indent + 1, self)
            result = side(inner)
            self.lines += inner.lines
            self.line(f"  {name} = {result};")
            self.line(closing)
        return name


def buffer_name(value: Value) -> str:
    """A readable C++ name for an operand."""
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in value.name).strip("_")
    return f"in_{text}" if text else f"in{value.index}"


def _constant(point: Point, op: Op, index: Index) -> str:
    array = op.attrs["value"].array
    if array.size != 1:
        raise CuvilError("a large constant must be an operand of its kernel", where=str(op.loc))
    number = array.reshape(())
    keep = op.type.dtype == BF16 or op.type.dtype.is_narrow
    return literal(number if keep else number.item(), op.type.dtype)


def _cast(point: Point, op: Op, index: Index) -> str:
    x = point.element(op.operands[0], index)
    source, result = op.operands[0].type.dtype, op.type.dtype
    if source.is_narrow or result.is_narrow:
        point.writer.kernel.includes.add("math_narrow.hpp")
    how = (op.attrs.get("saturate", True), op.attrs.get("round_mode", "up"))
    text = point.writer.spell(cast_text(x, source, result, *how), [source])
    return text if text == x else point.set(result.cxx, text)


def _iota(point: Point, op: Op, index: Index) -> str:
    at = point.writer.decide(index[op.attrs["axis"]])
    return point.set(op.type.dtype.cxx, from_integer(f"int64_t({at})", op.type.dtype))


def _dims(point: Point, op: Op, index: Index) -> str:
    values = op.attrs["values"]
    at = index[0] if index else 0
    if isinstance(at, int):
        return f"int64_t({point.writer.decide(values[at])})"
    where = point.writer.decide(at)
    text = point.writer.decide(values[-1])
    for i in reversed(range(len(values) - 1)):
        text = f"({where} == {i} ? {point.writer.decide(values[i])} : {text})"
    return point.set("int64_t", text)


def _concat(point: Point, op: Op, index: Index) -> str:
    axis = op.attrs["axis"] % op.type.rank
    ends: list[Dim] = [0]
    for operand in op.operands:
        ends.append(add(ends[-1], operand.type.shape[axis]))
    return _concat_from(point, op, index, ends, 0, len(op.operands))


def _concat_from(
    point: Point, op: Op, index: Index, ends: list[Dim], first: int, last: int
) -> str:
    """One element of the parts from ``first`` on, before ``last``; of many, one half is chosen."""
    axis = op.attrs["axis"] % op.type.rank
    split = first + 1 if last - first <= _IN_A_ROW else (first + last) // 2
    facts, end = point.writer.facts, ends[split]

    def before(p: Point) -> str:
        if split > first + 1:
            return _concat_from(p, op, index, ends, first, split)
        at = add(index[axis], mul(ends[first], -1))
        return p.element(op.operands[first], (*index[:axis], at, *index[axis + 1 :]))

    if split == last or facts.less(index[axis], end):
        return before(point)
    if facts.nonnegative(add(index[axis], mul(end, -1))):
        return _concat_from(point, op, index, ends, split, last)
    condition = f"{point.writer.decide(index[axis])} < {point.writer.decide(end)}"
    return point.choose(
        condition, op.type.dtype, before,
        lambda p: _concat_from(p, op, index, ends, split, last),
    )  # fmt: skip


def _pad(point: Point, op: Op, index: Index) -> str:
    mode = op.attrs.get("mode", "constant")
    shape = op.operands[0].type.shape
    facts = point.writer.facts
    at = tuple(add(i, mul(lo, -1)) for i, lo in zip(index, op.attrs["lo"], strict=True))
    tests = []
    moved: list[Dim] = list(at)
    for axis, (i, size) in enumerate(zip(at, shape, strict=True)):
        if op.attrs["lo"][axis] == 0 and op.attrs["hi"][axis] == 0:
            continue
        inside = facts.nonnegative(i) and facts.less(i, size)
        if inside:
            continue
        if mode == "constant":
            if not facts.nonnegative(i):
                tests.append(f"{point.writer.decide(i)} >= 0")
            if not facts.less(i, size):
                tests.append(f"{point.writer.decide(i)} < {point.writer.decide(size)}")
            continue
        call = f"cuvil::{mode}_index({point.writer.decide(i)}, {point.writer.decide(size)})"
        moved[axis] = runtime_index(point, call, size)
    source = op.operands[0]
    if not tests:
        return point.element(source, tuple(moved))
    value = op.attrs.get("value", 0) or 0
    return point.choose(
        " && ".join(tests),
        op.type.dtype,
        lambda p: p.element(source, tuple(moved)),
        lambda p: literal(value, op.type.dtype),
    )


def runtime_index(point: Point, text: str, size: Dim) -> Dim:
    """A C++ integer computed at run time, as an expression known to be in [0, size)."""
    writer = point.writer
    variable = point.set(writer.index_type, text, "g")
    name = LOCAL + variable
    writer.names[name] = variable
    point.varying |= {name}
    writer.facts = writer.facts.with_loops({name: (0, add(size, -1))})
    return symbol(name)


def _checked(point: Point, element: str, size: Dim, from_end: bool = True) -> Dim:
    function = "checked_index" if from_end else "index_from_start"
    fault = point.writer.kernel.special("fault", "cuvil::Fault *", "fault")
    size_text = point.writer.decide(size)
    return runtime_index(
        point, f"cuvil::{function}(int64_t({element}), {size_text}, {fault})", size
    )


def _read(point: Point, op: Op, index: Index, sizes: Sequence[Dim]) -> str:
    """The element of the data at an index whose parts were checked against ``sizes``.

    A dimension without elements has none to read: 0 stands in, and the check has failed.
    """
    data = op.operands[0]
    writer = point.writer
    unsure = [size for size in sizes if not writer.facts.nonnegative(add(size, -1))]
    if not unsure:
        return point.element(data, index)
    return point.choose(
        " && ".join(f"{writer.decide(size)} > 0" for size in unsure),
        op.type.dtype,
        lambda p: p.element(data, index),
        lambda p: literal(0, op.type.dtype),
    )


def _gather(point: Point, op: Op, index: Index) -> str:
    data, indices = op.operands
    axis = op.attrs["axis"] % data.type.rank
    end, size = axis + indices.type.rank, data.type.shape[axis]
    place = point.place_of(index[axis:end])
    picked = place.element(indices, index[axis:end])
    at = _checked(place, picked, size, op.attrs.get("from_end", True))
    return _read(point, op, (*index[:axis], at, *index[end:]), [size])


def _gather_elements(point: Point, op: Op, index: Index) -> str:
    data, indices = op.operands
    axis = op.attrs["axis"] % data.type.rank
    size = data.type.shape[axis]
    at = _checked(point, point.element(indices, index), size, op.attrs.get("from_end", True))
    return _read(point, op, (*index[:axis], at, *index[axis + 1 :]), [size])


def _gather_nd(point: Point, op: Op, index: Index) -> str:
    data, indices = op.operands
    batch = op.attrs.get("batch_dims", 0)
    lead = indices.type.rank - 1
    depth = indices.type.shape[-1]
    assert isinstance(depth, int)
    sizes = data.type.shape[batch : batch + depth]
    where: list[Dim] = list(index[:batch])
    for k, size in enumerate(sizes):
        where.append(_checked(point, point.element(indices, (*index[:lead], k)), size))
    return _read(point, op, (*where, *index[lead:]), sizes)


_SPECIAL: Mapping[str, Special] = {
    "constant": _constant,
    "cast": _cast,
    "iota": _iota,
    "dims": _dims,
    "concat": _concat,
    "pad": _pad,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
}
