"""Kernels that walk along axes, in C: running sums, scattering, resizing."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.codegen.c.call import LibraryCall, refused
from cuvil.codegen.c.spelling import c_text
from cuvil.codegen.kernel import Kernel, storage
from cuvil.codegen.literals import literal
from cuvil.codegen.native_call import split_axis
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, F16, DType
from cuvil.ops.resize import Taps, axis_taps, is_identity
from cuvil.sym.expr import product
from cuvil.sym.facts import Facts

_JOINS: Mapping[str, str] = {
    "none": "{b}", "add": "{a} + {b}", "mul": "{a} * {b}", "max": "cuvil::max({a}, {b})",
    "min": "cuvil::min({a}, {b})",
}  # fmt: skip


def joined(how: str, a: str, b: str, dtype: DType) -> str:
    """``a`` and ``b`` combined; integers wrap."""
    if how in ("add", "mul") and dtype.is_integer:
        a, b = f"(uint64_t){a}", f"(uint64_t){b}"
    text = _JOINS[how].format(a=a, b=b)
    return f"({storage(dtype)})({c_text(text, dtype)})"


def running(op: Op, facts: Facts) -> Kernel:
    """cumsum and cumprod of any number type; sums of f32 are made in f64."""
    call, dtype = LibraryCall(op, facts), op.type.dtype
    outer, size, inner = map(call.text, split_axis(op.operands[0].type.shape, op.attrs["axis"]))
    how, start = ("add", 0) if op.short == "cumsum" else ("mul", 1)
    wide = "double" if dtype.is_float else storage(dtype)
    call.loop("o", outer)
    call.loop("n", inner)
    call.line(f"{wide} sum = {start};")
    call.loop("s", size)
    at = f"{size} - 1 - s" if op.attrs.get("reverse") else "s"
    call.line(f"const ptrdiff_t at = (o * {size} + ({at})) * {inner} + n;")
    value = f"sum = {joined(how, 'sum', f'{call.input(0)}[at]', dtype)};"
    if dtype.is_float:
        value = f"sum {'+' if how == 'add' else '*'}= {call.input(0)}[at];"
    store = f"{call.outputs[0]}[at] = ({storage(dtype)})sum;"
    for line in (store, value) if op.attrs.get("exclusive") else (value, store):
        call.line(line)
    call.close(3)
    return call.done()


def _scatter_join(call: LibraryCall, at: str, update: str) -> None:
    dtype = call.op.type.dtype
    how = call.op.attrs.get("reduction", "none")
    out = f"{call.outputs[0]}[{at}]"
    call.line(f"{out} = {joined(how, out, update, dtype)};")


def _scatter_base(op: Op, facts: Facts) -> LibraryCall:
    dtype = op.type.dtype
    if dtype in (F16, BF16) and op.attrs.get("reduction", "none") != "none":
        raise refused(op, "the target c combines no 16-bit floats")
    call = LibraryCall(op, facts)
    size = call.text(op.type.elements)
    call.line(f"memcpy({call.outputs[0]}, {call.input(0)}, (size_t){size} * {dtype.size});")
    return call


def scatter_elements(op: Op, facts: Facts) -> Kernel:
    """The updates in order, each at its own index along the axis."""
    call = _scatter_base(op, facts)
    sizes, shape = op.type.shape, op.operands[1].type.shape
    axis = op.attrs["axis"] % len(sizes)
    fault = call.kernel.special("fault", "cuvil::Fault *", "fault")
    call.line("ptrdiff_t item = 0;")
    for i, extent in enumerate(shape):
        call.loop(f"i{i}", call.text(extent))
    size = call.text(sizes[axis])
    call.line(
        f"const ptrdiff_t place = cuvil_checked_index((int64_t){call.input(1)}[item], {size}, "
        f"{fault});"
    )
    at = "0"
    for i, extent in enumerate(sizes):
        at = f"({at}) * {call.text(extent)} + {'place' if i == axis else f'i{i}'}"
    if sizes[axis] == 0:
        call.line("(void)place;")
    else:
        _scatter_join(call, at, f"{call.input(2)}[item]")
    call.line("++item;")
    call.close(len(shape))
    return call.done()


def scatter_nd(op: Op, facts: Facts) -> Kernel:
    """The updates in order, each a block at an index of the first dimensions."""
    call = _scatter_base(op, facts)
    sizes, index = op.type.shape, op.operands[1].type
    depth = index.shape[-1]
    assert isinstance(depth, int)
    if any(d == 0 for d in sizes[:depth]):
        raise refused(op, "the target c scatters into no empty dimensions")
    fault = call.kernel.special("fault", "cuvil::Fault *", "fault")
    block = call.text(product(sizes[depth:]))
    call.loop("row", call.text(product(index.shape[:-1])))
    call.line("ptrdiff_t at = 0;")
    for i in range(depth):
        size = call.text(sizes[i])
        picked = f"(int64_t){call.input(1)}[row * {depth} + {i}]"
        call.line(f"at = at * {size} + cuvil_checked_index({picked}, {size}, {fault});")
    call.loop("j", block)
    _scatter_join(call, f"at * {block} + j", f"{call.input(2)}[row * {block} + j]")
    call.close(2)
    return call.done()


def resize(op: Op, facts: Facts) -> Kernel:
    """Taps and their weights are tables, made when the model is compiled."""
    x, out = op.operands[0].type, op.type
    if len(op.operands) > 1:
        raise refused(op, "the target c resizes by sizes that are known")
    moved = [
        a for a, (size, count) in enumerate(zip(x.shape, out.shape, strict=True))
        if not is_identity(op.attrs, a, size, count)
    ]  # fmt: skip
    tables: dict[int, Taps] = {}
    for a in moved:
        size, count = x.shape[a], out.shape[a]
        if not isinstance(size, int) or not isinstance(count, int):
            raise refused(op, "the target c resizes axes of fixed size")
        tables[a] = axis_taps(op.attrs, a, size, count)
        if tables[a].outside.any():
            raise refused(op, "the target c has no crops beyond the input")
    call = LibraryCall(op, facts)
    if op.attrs["mode"] != "nearest" and out.dtype.name not in ("f32", "f64"):
        raise refused(op, "the target c interpolates f32 and f64")
    return _resized(call, tables, op.attrs["mode"] == "nearest")


def _resized(call: LibraryCall, tables: Mapping[int, Taps], nearest: bool) -> Kernel:
    op = call.op
    x, out = op.operands[0].type, op.type
    ctype, dtype = storage(out.dtype), out.dtype
    for a, taps in tables.items():
        numbers = ", ".join(map(str, taps.index.reshape(-1).tolist()))
        call.line(f"static const int32_t index{a}[] = {{{numbers}}};")
        if not nearest:
            values = taps.weight.reshape(-1).astype(dtype.numpy)
            text = ", ".join(c_text(literal(v, dtype)) for v in values.tolist())
            call.line(f"static const {ctype} weight{a}[] = {{{text}}};")
    at = to = "0"
    for i, (size, count) in enumerate(zip(x.shape, out.shape, strict=True)):
        call.loop(f"i{i}", call.text(count))
        width = tables[i].index.shape[1] if i in tables else 0
        tap = f"index{i}[i{i} * {width} + t{i}]" if width > 1 else f"index{i}[i{i}]"
        at = f"({at}) * {call.text(size)} + {tap if i in tables else f'i{i}'}"
        to = f"({to}) * {call.text(count)} + i{i}"
    value = f"{call.input(0)}[{at}]"
    if not nearest:
        call.line(f"{ctype} sum = 0;")
        for a, taps in tables.items():
            width = taps.index.shape[1]
            call.loop(f"t{a}", str(width))
            value = f"weight{a}[i{a} * {width} + t{a}] * {value}"
        call.line(f"sum += {value};")
        call.close(len(tables))
        value = "sum"
    call.line(f"{call.outputs[0]}[{to}] = {value};")
    call.close(len(out.shape))
    return call.done()
