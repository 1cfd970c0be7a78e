"""C++ text of expressions: what it computes is what sym.evaluate computes."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest

from cuvil.build.library import build_library
from cuvil.codegen.abi import c_string, emit_abi
from cuvil.codegen.cxx_expr import cxx
from cuvil.ir.signature import Signature
from cuvil.options import Options
from cuvil.sym.expr import Dim, add, evaluate, floordiv, maximum, minimum, mod, mul, symbol
from cuvil.sym.parse import parse_dim
from cuvil.target.native import native_target
from tests.runtime import sample as samples

NAMES = {"a": "v[0]", "b": "v[1]", "c": "v[2]"}
SYMBOLS: list[Dim] = [symbol(name) for name in NAMES]


def expression(order: random.Random, depth: int) -> Dim:
    if depth == 0 or order.random() < 0.15:
        return order.choice([*SYMBOLS, order.randint(-9, 9)])
    left, right = expression(order, depth - 1), expression(order, depth - 1)
    kind = order.randrange(6)
    if kind < 3:
        return (add, lambda x, y: add(x, mul(y, -1)), mul)[kind](left, right)
    if kind < 5:
        divisor: Dim = order.randint(1, 9)
        if order.random() < 0.3:
            divisor = add(maximum(right, 0), order.randint(1, 3))
        return (floordiv, mod)[kind - 3](left, divisor)
    return order.choice([maximum, minimum])(left, right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", "5"),
        ("-5", "(-5)"),
        ("a", "v[0]"),
        ("-a", "(-v[0])"),
        ("2 * a", "(2 * v[0])"),
        ("a * b - 2 * c + 1", "(v[0] * v[1] - 2 * v[2] + 1)"),
        ("(a + 1) // 4", "cuvil::floordiv((v[0] + 1), 4)"),
        ("-(a % b) * a", "(-v[0] * cuvil::mod(v[0], v[1]))"),
        ("max(a, 3) * min(b, a * a)", None),
    ],
)
def test_text(text: str, expected: str | None) -> None:
    made = cxx(parse_dim(text), NAMES)
    assert made == expected or expected is None
    assert cxx(parse_dim(text), NAMES) == made


def test_a_symbol_without_a_name() -> None:
    with pytest.raises(KeyError, match="z"):
        cxx(parse_dim("z + 1"), NAMES)


def test_strings_survive() -> None:
    nasty = 'a"b\\c\n??/ %s é\x00\x7f'
    assert c_string(nasty) == (
        '"a\\042b\\134c\\012\\077\\077/ %s \\303\\251\\000\\177"'
    )


def test_values_agree_with_the_symbolic_evaluation(tmp_path: Path) -> None:
    order = random.Random(2024)
    made = [expression(order, 4) for _ in range(200)]
    plain = "".join(f"    case {i}: return {cxx(e, NAMES)};\n" for i, e in enumerate(made))
    checked = "".join(
        f"    case {i}: return Checked({cxx(e, {'a': 'a', 'b': 'b', 'c': 'c'})});\n"
        for i, e in enumerate(made)
    )
    code = f"""#include "abi.hpp"
using namespace cuvil;
int64_t model::workspace_bytes(const int64_t*, int32_t) {{ return 0; }}
void model::run(const RunContext&) {{}}
static int64_t plain(int32_t which, const int64_t* v) {{
  switch (which) {{\n{plain}  }}
  return -1;
}}
static Checked checked(int32_t which, Checked a, Checked b, Checked c) {{
  switch (which) {{\n{checked}  }}
  return -1;
}}
extern "C" __attribute__((visibility("default"))) int32_t cuvil_test(
    int32_t which, const int64_t* v, int64_t* out) {{
  const Checked sure = checked(which, v[0], v[1], v[2]);
  out[0] = plain(which, v);
  out[1] = sure.value;
  return sure.ok;
}}
"""
    empty = samples.sample("empty", Signature(), "")
    image = build_library(
        {"tables": emit_abi(empty.manifest), "model": code}, native_target(),
        Options(samples.cache_dir(), opt_level=1),
    )  # fmt: skip
    path = tmp_path / "expressions.so"
    path.write_bytes(image)
    library = ctypes.CDLL(str(path))
    out = (ctypes.c_int64 * 2)()
    overflows = 0
    for which, expr in enumerate(made):
        for _ in range(20):
            scale = order.choice([5, 100, 1 << 20, 1 << 31])
            values = {n: order.randint(-scale, scale) for n in NAMES}
            expected = evaluate(expr, values)
            ok = library.cuvil_test(which, (ctypes.c_int64 * 3)(*values.values()), out)
            if ok:
                assert out[1] == expected, (expr, values)
            else:
                overflows += 1
                assert scale >= 1 << 20
            if ok and scale <= 100:
                assert out[0] == expected, (expr, values)
    assert overflows > 20
