"""The table unit of a model: its tensors, symbols, constraints and description as C++ data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cuvil.codegen.cxx_expr import cxx
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.ir.types import dlpack_code
from cuvil.sym.constraint import Constraint, in_words
from cuvil.sym.expr import symbols_of
from cuvil.target.base import Variant, namespace_of
from cuvil.target.features import CPU_FEATURES


class Face(Protocol):
    """What the tables are made from; a package's Manifest is one."""

    @property
    def signature(self) -> Signature: ...
    @property
    def weights_bytes(self) -> int: ...
    @property
    def target(self) -> str: ...
    @property
    def cpu_features(self) -> tuple[str, ...]: ...
    def describe(self) -> str: ...


def emit_abi(face: Face, variants: Sequence[Variant] = ()) -> str:
    """C++ text that defines ``cuvil::model_tables``, over the code of ``variants``, the best first;
    without any over the one code for the face's CPU. Raises InvalidModelError on a bad face."""
    signature = face.signature
    signature.check()
    names = {s.name: f"s{i}" for i, s in enumerate(signature.symbols)}
    parts = ['#include "abi.hpp"\n', *map(_declared, variants), "namespace cuvil {\nnamespace {\n"]
    for prefix, specs in (("in", signature.inputs), ("out", signature.outputs)):
        for index, spec in enumerate(specs):
            parts.append(_shape_function(f"{prefix}{index}", spec, names))
    parts.append(_constraint_function(signature, names))
    for label, prefix, specs in (
        ("inputs", "in", signature.inputs), ("outputs", "out", signature.outputs),
    ):  # fmt: skip
        parts.append(_tensor_table(label, prefix, specs, [signature.is_late(s) for s in specs]))
    parts.append(_symbol_table(signature))
    parts.append(_table("ConstraintTable", "constraints", [
        f"{{{c_string(c.text)}, {c_string(in_words(c.origin))}}}" for c in signature.numbered
    ]))  # fmt: skip
    parts.append(_variant_tables(face, variants))
    parts.append(f"constexpr char description[] =\n    {_long_string(face.describe())};\n")
    counts = (signature.inputs, signature.outputs, signature.symbols, signature.constraints)
    parts.append(
        "\n}  // namespace\n\nconst ModelTables model_tables = {\n    "
        + ", ".join(str(len(c)) for c in (*counts, variants or ("",)))
        + ",\n    inputs, outputs, symbols, constraints, variants, broken_constraint,\n"
        + f"    {face.weights_bytes}u, description,\n}};\n\n}}  // namespace cuvil\n"
    )
    return "\n".join(parts)


def c_string(text: str) -> str:
    """A C string literal; every byte beyond plain ASCII is an octal escape."""
    out = []
    for byte in text.encode("utf-8", "replace"):
        char = chr(byte)
        plain = 32 <= byte < 127 and char not in '"\\?'
        out.append(char if plain else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def _long_string(text: str, width: int = 80) -> str:
    pieces = [text[i : i + width] for i in range(0, len(text), width)] or [""]
    return "\n    ".join(c_string(p) for p in pieces)


def _table(kind: str, name: str, rows: Sequence[str]) -> str:
    # An empty array is no C++: one default row stands in, and the count says 0.
    body = "".join(f"    {row},\n" for row in rows) or "    {},\n"
    return f"constexpr {kind} {name}[] = {{\n{body}}};\n"


def _locals(used: set[str], names: Mapping[str, str]) -> str:
    return "".join(
        f"  const Checked {cname}(symbols[{index}]);  // {name}\n"
        for index, (name, cname) in enumerate(names.items())
        if name in used and name.isascii()
    ) + "".join(
        f"  const Checked {cname}(symbols[{index}]);\n"
        for index, (name, cname) in enumerate(names.items())
        if name in used and not name.isascii()
    )


def _shape_function(label: str, spec: TensorSpec, names: Mapping[str, str]) -> str:
    used = {s for dim in spec.dims for s in symbols_of(dim)}
    lines = [
        f"  put_dim(&dims[{axis}], Checked({cxx(dim, names)}));\n"
        for axis, dim in enumerate(spec.dims)
    ]
    symbols = "symbols" if used else ""
    dims = "dims" if lines else ""
    head = f"void {label}_shape(const int64_t* {symbols}, int64_t* {dims}) {{\n"
    return head.replace("* ,", "*,").replace("* )", "*)") + _locals(used, names) + "".join(
        lines
    ) + "}\n"


def _constraint_function(signature: Signature, names: Mapping[str, str]) -> str:
    """Of those that the inputs' shapes decide; the model's code checks the others."""
    parsed: dict[int, Constraint] = {
        index: c.parsed for index, c in enumerate(signature.constraints)
        if not c.parsed.symbols() & signature.late
    }  # fmt: skip
    used = {s for c in parsed.values() for s in c.symbols()}
    lines = [
        f"  if (!(Checked({cxx(c.left, names)}) {c.relation} Checked({cxx(c.right, names)}))) "
        f"return {index};\n"
        for index, c in parsed.items()
    ]
    argument = "const int64_t* symbols" if used else "const int64_t*"
    return (
        f"int32_t broken_constraint({argument}) {{\n"
        + _locals(used, names) + "".join(lines) + "  return -1;\n}\n"
    )  # fmt: skip


def _tensor_table(
    name: str, prefix: str, specs: Sequence[TensorSpec], late: Sequence[bool]
) -> str:
    dims, rows = [], []
    for index, spec in enumerate(specs):
        label = f"{prefix}{index}"
        if spec.shape:
            texts = ", ".join(c_string(str(d)) for d in spec.shape)
            dims.append(f"constexpr const char* {label}_dims[] = {{{texts}}};\n")
        rows.append(
            f"{{{c_string(spec.name)}, {c_string(spec.dtype)}, {dlpack_code(spec.element)}, "
            f"{spec.element.bits}, {spec.rank}, "
            f"{f'{label}_dims' if spec.shape else 'nullptr'}, {label}_shape, "
            f"{'true' if late[index] else 'false'}}}"
        )
    return "".join(dims) + _table("TensorTable", name, rows)


def _symbol_table(signature: Signature) -> str:
    places = {
        b.symbol: f"{b.input}, {b.axis}, {b.slope}, {b.offset}" for b in signature.bindings
    }
    rows = [
        f"{{{c_string(s.name)}, {s.min}, {s.highest}, {places.get(s.name, '-1, 0, 1, 0')}, "
        f"{c_string(s.source or s.origin)}}}"
        for s in signature.symbols
    ]
    return _table("SymbolTable", "symbols", rows)


def _variant_tables(face: Face, variants: Sequence[Variant]) -> str:
    """What each code needs of the CPU, and where it begins."""
    chosen = [(v.name, v.features, v.vector_bits, namespace_of(v)) for v in variants]
    texts, rows = [], []
    for name, features, vector_bits, space in chosen or [("", face.cpu_features, 0, "cuvil")]:
        bits = _cpu_bits(face.target, features)
        label = f"{name}_bits" if name else "cpu_bits"
        texts.append(_table("CpuBit", label, bits))
        run, size = f"{space}::model::run", f"{space}::model::workspace_bytes"
        if name:  # its RunContext is the same struct under another name
            run = f"reinterpret_cast<RunFn>({run})"
        rows.append(f"{{{c_string(name)}, {len(bits)}, {label}, {vector_bits}, {run}, {size}}}")
    # Not constexpr: a cast stands in it. The compiler makes constant data of it all the same.
    table = "".join(f"    {row},\n" for row in rows)
    return "\n".join([*texts, f"const VariantTable variants[] = {{\n{table}}};\n"])


def _declared(variant: Variant) -> str:
    space = namespace_of(variant)
    return f"""namespace {space} {{
struct RunContext;
namespace model {{
void run(const RunContext& rc);
int64_t workspace_bytes(const int64_t* symbols, int32_t threads);
}}  // namespace model
}}  // namespace {space}
"""


def _cpu_bits(triple: str, features: Sequence[str]) -> list[str]:
    known = CPU_FEATURES.get(triple.split("-", 1)[0], {})
    found = (known[name] for name in features if name in known)
    return [
        f"{{{c_string(f.name)}, {f.leaf:#x}u, {f.subleaf}, {f.register}, {f.bit}}}" for f in found
    ]
