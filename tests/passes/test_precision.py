"""Products on bf16 operands: what the pass writes into the graph, and what is computed then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuvil.analysis.contraction_views import is_pair_product
from cuvil.analysis.wellformed import check_graph
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Op, Value
from cuvil.ir.types import BF16, F32, F64, I64, DType, TensorType
from cuvil.passes import precision
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter, Trace
from cuvil.sym.expr import Dim, symbol
from tests.codegen.compile_graph import run_compiled

Array = np.ndarray[Any, Any]
Left = Callable[[Emitter, Value], Value]
M = symbol("m")
CONV: dict[str, Any] = {
    "strides": (1, 1), "dilations": (1, 1), "pads_lo": (1, 1), "pads_hi": (1, 1), "groups": 1,
    "has_bias": False, "channels_last": True,
}  # fmt: skip


def options() -> PassOptions:
    return PassOptions(precision="bf16")


def numbers(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape).astype(np.float32)


def rounded(array: Array) -> Array:
    """To the nearest bf16, ties to even, by the bits of an f32; as float64."""
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def product(
    shape: tuple[Dim, ...], weight: Array, left: Left = lambda e, x: x, dtype: DType = F32,
    name: str = "matmul", **attrs: Any,
) -> Module:  # fmt: skip
    """The absolute value of a product with a constant."""
    e = Emitter({"m": (0, None)})
    x = e.input("x", TensorType(shape, dtype))
    made = e.op(name, left(e, x), e.weight(weight.astype(dtype.numpy)), **attrs)
    return e.finish([e.op("abs", made)], ["y"])


def fused(module: Module) -> Module:
    return lower(clone_module(module), "fused", options())


def pair_products(module: Module) -> list[Op]:
    return [op for op in fused(module).main.walk() if op.short in ("matmul", "conv")]


def check(module: Module, x: Array, want: Array, terms: int) -> None:
    """Compiled and by the reference: near the product in f64 of what bf16 holds."""
    (meant,) = run_module(fused(module), {"x": x})
    (got,) = run_compiled(module, {"x": x}, options())
    assert got.dtype == np.float32
    scale = np.abs(want).max(initial=1e-30)
    np.testing.assert_allclose(meant, want, rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=(terms + 2) * 2.0**-24 * 4 * scale)
    (op,) = pair_products(module)
    assert is_pair_product(op)


@pytest.mark.parametrize("k", [2, 7, 40])
def test_products_round_both_operands(k: int) -> None:
    w = numbers(k, 45, seed=1)
    for rows in (0, 1, 5, 40):
        x = numbers(rows, k)
        check(product((M, k), w), x, np.abs(rounded(x) @ rounded(w)), k)


def test_batches_and_left_operands_in_other_orders() -> None:
    w = numbers(6, 9, seed=1)
    x = numbers(2, 5, 6)
    check(product((2, M, 6), w), x, np.abs(rounded(x) @ rounded(w)), 6)
    several = numbers(2, 6, 9, seed=2)
    check(product((2, M, 6), several), x, np.abs(rounded(x) @ rounded(several)), 6)
    turned = numbers(6, 5)
    want = np.abs(rounded(turned).T @ rounded(w))
    check(product((6, M), w, lambda e, x: e.transpose(x, (1, 0))), turned, want, 6)
    check(product((6, M), w, trans_a=True), turned, want, 6)
    cut = numbers(5, 11)
    want = np.abs(rounded(cut[:, 3:9]) @ rounded(w))
    check(product((M, 11), w, lambda e, x: e.slice(x, 1, 3, 9)), cut, want, 6)
    odd = numbers(4, 3, 5)
    third = numbers(5, 9, seed=3)
    want = np.abs(rounded(odd).transpose(1, 0, 2) @ rounded(third))
    check(product((4, 3, 5), third, lambda e, x: e.transpose(x, (1, 0, 2))), odd, want, 5)


@pytest.mark.parametrize(("channels", "groups"), [(4, 1), (3, 1), (20, 1), (12, 3)])
def test_convolutions_round_both_operands(channels: int, groups: int) -> None:
    w = numbers(2 * groups, channels // groups, 3, 3, seed=1)
    x = numbers(2, 6, 7, channels)
    module = product((M, 6, 7, channels), w, name="conv", **{**CONV, "groups": groups})
    padded = np.pad(rounded(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = np.zeros((2, 6, 7, 2 * groups))
    each = channels // groups
    for i, j in np.ndindex(3, 3):
        window = padded[:, i : i + 6, j : j + 7].reshape(2, 6, 7, groups, each)
        taps = rounded(w)[:, :, i, j].reshape(groups, 2, each)
        want += np.einsum("nhwgc,goc->nhwgo", window, taps).reshape(want.shape)
    check(module, x, np.abs(want), 9 * each)


def test_nan_and_infinity_pass() -> None:
    x = np.array([[1, np.nan], [np.inf, 1], [3.4e38, 0], [1, 1]], np.float32)
    w = np.array([[1], [2]], np.float32)
    (got,) = run_compiled(product((4, 2), w), {"x": x}, options())
    np.testing.assert_array_equal(got[:, 0], [np.nan, np.inf, np.inf, 3])  # 3.4e38 rounds up


def test_what_only_products_read_is_stored_as_bf16() -> None:
    e = Emitter()
    x = e.input("x", TensorType((4, 8), F32))
    first = e.op("exp", e.op("matmul", x, e.weight(numbers(8, 6))))
    second = e.op("matmul", first, e.weight(numbers(6, 4)))
    module = fused(e.finish([second], ["y"]))
    kernels = [op for op in module.main.body.ops if op.short == "fused"]
    assert [[r.type.dtype for r in op.results] for op in kernels] == [[BF16], [BF16], [F32]]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("parts", ["", "bias", "bias relu", "bias residual relu", "bias sign"])
def test_results_that_the_kernel_rounds(parts: str, kept: bool) -> None:
    """Whole numbers: sums are exact, and half of what bf16 can't hold is rounded."""
    rng = np.random.default_rng(4)
    x, r = (rng.integers(-15, 16, (21, 64)).astype(np.float32) for _ in range(2))
    w = rng.integers(-15, 16, (64, 64)).astype(np.float32)
    e = Emitter()
    a = e.input("x", TensorType(x.shape, F32))
    inner = e.op("matmul", a, e.weight(w))
    want = x.astype(np.float64) @ w
    if "bias" in parts:
        inner, want = e.op("add", inner, e.broadcast(e.weight(w[0]), inner.type.shape)), want + w[0]
    if "residual" in parts:
        inner, want = e.op("add", inner, e.input("r", inner.type)), want + r
    if "relu" in parts:
        inner, want = e.with_scalar("max", inner, 0), np.maximum(want, 0)
    if "sign" in parts:
        inner, want = e.op("sign", inner), np.sign(want)
    out = e.op("matmul", inner, e.weight(w[:, :9]))
    module = e.finish([out, *([inner] if kept else [])], ["y", "inner"][: 1 + kept])
    inputs = {"x": x, "r": r} if "residual" in parts else {"x": x}
    found = run_compiled(module, inputs, options())
    np.testing.assert_array_equal(found[0], rounded(want) @ w[:, :9])
    if kept:
        np.testing.assert_array_equal(found[1], want)


@pytest.mark.parametrize("tail", ["", "bias", "relu", "sign"])
@pytest.mark.parametrize("columns", [64, 42])
def test_residuals_are_added_as_they_are_stored(columns: int, tail: str) -> None:
    """Whole numbers, of which bf16 can't hold all that the first product makes."""
    rng = np.random.default_rng(columns)
    x = rng.integers(-7, 8, (37, 64)).astype(np.float32)
    w = rng.integers(-7, 8, (64, columns)).astype(np.float32)
    square = rng.integers(-7, 8, (columns, columns)).astype(np.float32)
    e = Emitter()
    first = e.op("matmul", e.input("x", TensorType(x.shape, F32)), e.weight(w))
    second, stored = e.op("matmul", first, e.weight(square)), rounded(x.astype(np.float64) @ w)
    want = stored @ square
    if tail == "bias":
        second = e.op("add", second, e.broadcast(e.weight(w[0]), second.type.shape))
        want = want + w[0]
    second, want = e.op("add", first, second), want + stored
    if tail == "relu":
        second, want = e.with_scalar("max", second, 0), np.maximum(want, 0)
    if tail == "sign":
        second, want = e.op("sign", second), np.sign(want)
    module = e.finish([second], ["y"])
    kernels = [op for op in fused(module).main.body.ops if op.short == "fused"]
    assert [[r.type.dtype for r in op.results] for op in kernels] == [[BF16], [BF16], [F32]]
    (got,) = run_compiled(module, {"x": x}, options())
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("readers", ["scan", "exp scan", "exp", "exp output", "matmul"])
def test_what_is_widened_is_there_for_every_reader(readers: str) -> None:
    x = np.arange(-24, 24).reshape(6, 8).astype(BF16.numpy)  # sums are exact
    e = Emitter()
    wide = e.cast(e.op("neg", e.input("x", TensorType(x.shape, BF16))), F32)
    value, outputs, wants = -x.astype(np.float32), [], []
    if "scan" in readers:
        outputs.append(e.op("cumsum", wide, axis=1))
        wants.append(np.cumsum(value, axis=1))
    if "exp" in readers:
        outputs.append(e.op("abs", wide))
        wants.append(np.abs(value))
    if "output" in readers:
        outputs.append(wide)
        wants.append(value)
    if "matmul" in readers:
        outputs.append(e.op("matmul", wide, e.weight(np.eye(8, dtype=np.float32))))
        wants.append(value)
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    for got, want in zip(run_compiled(module, {"x": x}), wants, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("none", "nothing reads it as bf16"),
        ("exp", "something else reads it in f32"),
        ("output", "something else reads it in f32"),
        ("row", "it is no result that is stored"),
        ("input", "it is no result that is stored"),
    ],
)
def test_residuals_that_stay_f32(reader: str, reason: str) -> None:
    e = Emitter()
    x = e.input("x", TensorType((8, 8), F32))
    r = e.op("abs", e.input("r", TensorType((1, 8) if reader == "row" else (8, 8), F32)))
    if reader == "input":
        r = e.input("q", x.type)
    outputs = [e.op("add", e.op("abs", x), e.broadcast(r, x.type.shape))]
    if reader != "none":
        outputs.append(e.op("matmul", r, e.weight(numbers(8, 6))))
    outputs += [e.op("exp", r)] if reader == "exp" else [r] if reader == "output" else []
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    rewriter = Rewriter(module.main, trace=Trace(detailed=True))
    apply_rules(rewriter, precision.RULES)
    apply_rules(rewriter, precision.STORE_RULES)
    check_graph(module)
    assert "bf16-residual" not in rewriter.trace.fired
    assert any(reason in text for text in rewriter.trace.refused["bf16-residual"])


def test_readers_share_one_cast() -> None:
    e = Emitter()
    x = e.input("x", TensorType((4, 8), F32))
    products = [e.op("matmul", e.op("abs", x), e.weight(numbers(8, n))) for n in (6, 60)]
    module = fused(e.finish(products, ["y", "z"]))
    assert sum(op.short == "cast" for op in module.main.walk()) == 1


def test_models_of_bf16_are_multiplied_as_they_are() -> None:
    module = product((3, 8), numbers(8, 5), dtype=BF16)
    (op,) = pair_products(module)
    assert op.operands[0].op is None and op.operands[0].type.dtype == BF16
    x = numbers(3, 8).astype(BF16.numpy)
    want = np.abs(x.astype(np.float64) @ rounded(numbers(8, 5)))
    (got,) = run_compiled(module, {"x": x}, options())
    np.testing.assert_array_equal(got, want.astype(np.float32).astype(BF16.numpy))


def table_module(rows: int) -> Module:
    e = Emitter()
    at = e.input("at", TensorType((3,), F32))
    table = e.weight(numbers(rows, 64))
    return e.finish([e.op("gather", table, e.cast(at, I64), axis=0)], ["y"])


def test_large_tables_are_stored_as_bf16() -> None:
    at = np.array([1, 7, 16383], np.float32)
    module = table_module(16384)
    (got,) = run_compiled(module, {"at": at}, options())
    table = next(op for op in module.main.walk() if op.short == "constant").attrs["value"].array
    np.testing.assert_array_equal(got, rounded(table[at.astype(int)]))
    constants = [op for op in fused(module).main.walk() if op.short == "constant"]
    assert [op.type.dtype for op in constants if op.type.rank == 2] == [BF16]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (lambda: product((4, 6), numbers(6, 3), dtype=F64), "it is not in f32"),
        (lambda: product((3, 6), numbers(2, 6), trans_b=True), "the weights are transposed"),
        (lambda: dynamic(), "its right operand is not constant"),
        (lambda: image(4, 4, 1, groups=4), "one channel (of a group) makes no pairs"),
        (lambda: image(6, 4, 3, groups=2), "a group has an odd number of channels"),
        (lambda: image(6, 4, 6, channels_last=False), "the channels are not last"),
        (lambda: recurrent(F32), "its weights are not constant"),
        (lambda: recurrent(F64), "it is not in f32"),
        (lambda: table_module(10), "the table is small"),
    ],
)
def test_refusals(module: Callable[[], Module], reason: str) -> None:
    trace = Trace(detailed=True)
    made = module()
    apply_rules(Rewriter(made.main, trace=trace), precision.RULES)
    check_graph(made)
    said = [text for refusals in trace.refused.values() for text in refusals]
    assert any(reason in text for text in said), said
    assert not any(name.startswith("bf16") for name in trace.fired)


def image(channels: int, out: int, each: int, **attrs: Any) -> Module:
    weight = numbers(out, each, 3, 3)
    return product((1, 6, 6, channels), weight, name="conv", **{**CONV, **attrs})


def recurrent(dtype: DType) -> Module:
    e = Emitter()
    shapes = ((3, 2, 4), (1, 5, 4), (1, 5, 5))
    operands = [e.input(f"x{i}", TensorType(s, dtype)) for i, s in enumerate(shapes)]
    return e.finish(e.results("rnn", *operands, hidden=5, direction="forward"), ["y", "h"])


def dynamic() -> Module:
    e = Emitter()
    x, y = (e.input(name, TensorType((6, 6), F32)) for name in "xy")
    return e.finish([e.op("matmul", x, y)], ["z"])
