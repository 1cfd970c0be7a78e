"""Text is canonical: print, parse, print is the identity, and errors point at their place."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvil.analysis.wellformed import check_graph
from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.attr_parser import AttrParser
from cuvil.ir.attr_text import attr_text, dim_text
from cuvil.ir.core import Module, Weight
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import excerpt, print_module, print_op
from cuvil.ir.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I64, U64, TensorType
from cuvil.ir.weights import weights_of
from cuvil.sym.expr import Dim, add, floordiv, maximum, minimum, mod, mul, symbol
from cuvil.sym.parse import parse_dim
from tests.ir.samples import N, sample


@pytest.mark.parametrize("locations", [False, True])
def test_print_parse_print_is_the_identity(locations: bool) -> None:
    module = sample()
    text = print_module(module, locations=locations)
    again = parse_module(text, weights_of(module))
    assert print_module(again, locations=locations) == text
    assert again.call == module.call
    assert again.source == module.source
    assert again.main.symbols == module.main.symbols
    assert again.main.constraints == module.main.constraints
    assert [c.origin for c in again.main.constraints] == ['user said "so"']
    assert again.main.input_names == ["x.1:0"]


def test_locations_survive() -> None:
    module = sample()
    again = parse_module(print_module(module, locations=True), weights_of(module))
    assert [op.loc for op in again.main.walk()][:4] == [op.loc for op in module.main.walk()][:4]
    assert str(next(again.main.walk()).loc) == "layer/0 (model.py:12)"


def test_equal_modules_print_equal_bytes() -> None:
    assert print_module(sample()) == print_module(sample())


def test_large_weights_stay_outside_and_small_ones_come_back() -> None:
    module = sample()
    text = print_module(module)
    assert text.count("#cuvil.weight<") == 1
    with pytest.raises(InvalidModelError, match="no data was given for the weight"):
        parse_module(text)
    again = parse_module(text, weights_of(module))
    for old, new in zip(module.main.walk(), again.main.walk(), strict=True):
        if old.short == "constant":
            a, b = old.attrs["value"], new.attrs["value"]
            assert a.array.tobytes() == b.array.tobytes() and a.name == b.name


def test_a_weight_of_another_type_is_refused() -> None:
    module = sample()
    table = {d: Weight(w.array.astype(np.float64), w.name) for d, w in weights_of(module).items()}
    with pytest.raises(InvalidModelError, match=r"is !cuvil.tensor<\[100\] x f64>, not"):
        parse_module(print_module(module), table)


@pytest.mark.parametrize(
    "value",
    [
        True, False, 0, -5, (1 << 63) - 1, -(1 << 63), 1e-5, -0.0, 1e300, 0.1, math.inf, -math.inf,
        "", 'a "b" \\ \n \t é \x00 日本', None, (), (1, 2), (0,), (True, False), ("a", "b"),
        (1.5, 2.0), ((1, 2), ("x", None)), {"a": 1, "odd key": {"b": (1,)}}, N, (N, 3), (3, N),
        F32, BOOL, TensorType((), I64), TensorType((N, floordiv(N, 2)), BF16),
    ],
)  # fmt: skip
def test_attributes_come_back(value: object) -> None:
    text = attr_text(value)
    parser = AttrParser(text, {})
    found = parser.attribute()
    assert found == value and type(found) is type(value)
    assert parser.peek() == ""
    assert attr_text(found) == text


def test_lists_and_numpy_numbers_print_as_tuples_and_python_numbers() -> None:
    assert attr_text([1, 2]) == attr_text((1, 2))
    assert attr_text(np.int32(3)) == attr_text(3)
    assert attr_text(np.float32(0.5)) == attr_text(0.5)


@pytest.mark.parametrize("value", [object(), 1 << 63, {1, 2}, (object(),)])
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidModelError):
        attr_text(value)


@pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=str)
def test_inline_constants_keep_every_bit(dtype: object) -> None:
    kind = dtype.numpy  # type: ignore[attr-defined]
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, 16 * kind.itemsize, dtype=np.uint8)
    array = (raw % 2 if kind == np.bool_ else raw).view(kind)[:16]
    weight = Weight(array.reshape(4, 4), "w")
    found = AttrParser(attr_text(weight), {}).attribute()
    assert found.array.tobytes() == weight.array.tobytes()
    assert found.type == weight.type


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_special_floats_keep_their_bits(dtype: object) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], np.float64)
    array = values.astype(dtype.numpy)  # type: ignore[attr-defined]
    array.view(f"u{array.dtype.itemsize}")[0] |= 1
    found = AttrParser(attr_text(Weight(array)), {}).attribute()
    assert found.array.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(0,), (), (1,), (2, 0, 3)])
def test_empty_and_scalar_constants(shape: tuple[int, ...]) -> None:
    for dtype in (I8, U64, BOOL, F32):
        weight = Weight(np.ones(shape, dtype.numpy))
        found = AttrParser(attr_text(weight), {}).attribute()
        assert found.array.shape == shape and found.digest == weight.digest


def _dims() -> st.SearchStrategy[Dim]:
    leaf = st.one_of(st.integers(-9, 9), st.sampled_from(["n", "s", "batch_1"]).map(symbol))
    positive = st.integers(1, 7)

    def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: add(*p)),
            pair.map(lambda p: mul(*p)),
            pair.map(lambda p: maximum(*p)),
            pair.map(lambda p: minimum(*p)),
            st.tuples(inner, positive).map(lambda p: floordiv(*p)),
            st.tuples(inner, positive).map(lambda p: mod(*p)),
        )

    return st.recursive(leaf, grow, max_leaves=6)


@settings(max_examples=150, deadline=None)
@given(_dims())
def test_dims_come_back(dim: Dim) -> None:
    text = dim_text(dim)
    assert "//" not in text and "%" not in text
    assert parse_dim(text) == dim
    assert dim_text(parse_dim(text)) == text


_TEXT = """"builtin.module"() ({
  "func.func"() <{function_type = (T) -> T, sym_name = "main"}> ({
  ^bb0(%arg0: T):
    %0 = "cuvil.exp"(%arg0) {axis = 1 : i64} : (T) -> T
    "func.return"(%0) : (T) -> ()
  }) {cuvil.inputs = ["x"], cuvil.outputs = ["y"],
      cuvil.symbols = [#cuvil.symbol<n, 1, inf>]} : () -> ()
}) : () -> ()
""".replace("T", "!cuvil.tensor<[n] x f32>")


def test_hand_written_text_parses() -> None:
    text = "// a comment\n" + _TEXT.replace(" = ", "=").replace(", ", " ,\n ")
    module = parse_module(text.replace("[n] x f32>) -> ()", "[n] x f32>) -> () // end"))
    assert [op.name for op in module.main.walk()] == ["cuvil.exp", "func.return"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cuvil.exp"(%arg0)', '"cuvil.exp"(%arg1)', r"line 4, column 22: the value %arg1 is not"),
        ('"cuvil.exp"(', "cuvil.exp(", r"line 4, column 10: expected an operation"),
        ("%0 = ", "", r"line 4, column 5: 0 names for 1 results"),
        ("%0 = ", "%0, %1 = ", r"line 4, column 5: 2 names for 1 results"),
        ("%0 = ", "%arg0 = ", r"line 4, column 5: the value %arg0 is defined twice"),
        ("axis = 1", "axis = ?", r"line 4, column 37: expected an attribute"),
        ("axis = 1 : i64", "axis = 1 : i32", r"line 4, column 41: a number here is i64 or f64"),
        ("axis = 1 : i64", "a = 1, a = 2", r"line 4, column 37: the key 'a' comes twice"),
        ("axis = 1 : i64", "axis = #cuvil.no<1>", r"line 4, column 37: there is no attribute"),
        ("(%0) : (!cuvil.tensor<[n] x f32>)", "(%0) : (!cuvil.tensor<[n] x f64>)",
         r"line 5, column 5: the types of func.return's operands differ"),
        ("^bb0(%arg0: !cuvil.tensor<[n] x f32>)", "^bb0(%arg0: !cuvil.tensor<[n] x q32>)",
         r"line 3, column 35: there is no element type 'q32'"),
        ("^bb0(%arg0: !cuvil.tensor<[n] x f32>)", "^bb0(%arg0: !cuvil.tensor<[2, n +] x f32>)",
         r"line 3, column 33: cannot read the dimension expression"),
        ("#cuvil.symbol<n, 1, inf>", "#cuvil.symbol<n, 1>", "expected name, low, high"),
        ('cuvil.outputs = ["y"]', "cuvil.outputs = []", "need one name for each value"),
        ('cuvil.inputs = ["x"]', "cuvil.inputs = [3]", "expected a list|must be a list of str"),
        ("}) : () -> ()\n", "}) : () -> () x", "expected the end of the text"),
        ("}) : () -> ()\n", "", "line 8, column 1: expected"),
        ('    "func.return"', '    "cuvil.return"', "needs func.return at its end"),
        ("<{function_type = (!cuvil.tensor<[n] x f32>)", "<{function_type = ()",
         "function_type differs"),
    ],
)  # fmt: skip
def test_errors_point_at_their_place(old: str, new: str, message: str) -> None:
    assert old in _TEXT
    with pytest.raises(InvalidModelError, match=message):
        parse_module(_TEXT.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "[" * 10_000, '"', "{", '"builtin.module"() ({' * 500])
def test_broken_text_never_crashes(text: str) -> None:
    with pytest.raises(InvalidModelError):
        parse_module(text)
    with pytest.raises(InvalidModelError):
        parse_module(f'"x"() {{a = {text}')


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.text(max_size=3))
def test_damaged_text_parses_or_is_refused(at: int, junk: str) -> None:
    text = print_module(sample(), locations=True)
    at %= len(text)
    try:
        parse_module(text[:at] + junk + text[at + 2 :], weights_of(sample()))
    except InvalidModelError as error:
        assert error.message


def test_an_excerpt_shows_at_most_seven_ops() -> None:
    e = Emitter()
    value = e.input("x", TensorType((2,), F32))
    for _ in range(20):
        value = e.op("exp", value)
    ops = list(e.block.ops)
    text = excerpt(ops[10])
    assert len(text.splitlines()) == 7
    assert text.splitlines()[3].startswith("> ")
    assert len(excerpt(ops[0]).splitlines()) == 4
    assert print_op(ops[3]).startswith('%1 = "cuvil.exp"(%0) : ')


def test_the_text_in_the_documentation_parses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ir.md").read_text()
    blocks = [part.split("```")[0] for part in page.split("```mlir\n")[1:]]
    (block,) = [text for text in blocks if text.startswith('"builtin.module"')]
    module = parse_module(block)
    check_graph(module)
    assert [str(c) for c in module.main.constraints] == ["n % 2 == 0"]


def _large(count: int) -> Module:
    e = Emitter({"n": (1, None)})
    value = e.input("x", TensorType((N, 768), F32))
    for i in range(count // 4):
        value = e.op("exp" if i % 2 else "tanh", value)
        value = e.reshape(value, (N, 12, 64))
        value = e.op("transpose", value, perm=(0, 2, 1))
        value = e.reshape(value, (N, 768))
    return e.finish([value], ["y"])


def test_large_modules_are_fast() -> None:
    """5,000 ops take some 20 ms to print and 100 ms to parse; the bound only catches a change
    of order, on any machine. Processor time: others' load does not count."""
    module = _large(5000)
    start = time.process_time()
    text = print_module(module)
    middle = time.process_time()
    parse_module(text)
    assert middle - start < 0.5
    assert time.process_time() - middle < 2.0
