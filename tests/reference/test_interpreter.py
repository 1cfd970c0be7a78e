"""The interpreter binds symbols, checks what it is given, and runs every level."""

import numpy as np
import pytest

from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError, VerificationError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Block, Module, Op
from cuvil.ir.types import F32, I64, TensorType
from cuvil.reference.interpreter import run_module, run_op
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import add, mul, symbol
from cuvil.sym.parse import parse_constraint

N, S = symbol("n"), symbol("s")


def _model(constraints: list[Constraint] | None = None) -> Module:
    """relu(x + y) reshaped to rows, and the number of rows."""
    e = Emitter({"n": (1, 8), "s": (1, None)})
    x = e.input("x", TensorType((N, add(mul(S, 2), 1)), F32))
    y = e.input("y", TensorType((add(mul(S, 2), 1),), F32))
    total = e.map("add", x, y)
    relu = e.with_scalar("max", total, 0.0)
    flat = e.reshape(relu, (mul(N, add(mul(S, 2), 1)),))
    return e.finish([flat, e.dims([N, S])], ["flat", "sizes"], constraints or [])


def _inputs(n: int, s: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((n, 2 * s + 1)).astype(np.float32),
        "y": rng.standard_normal(2 * s + 1).astype(np.float32),
    }


def test_runs_with_symbols_bound_from_linear_dims() -> None:
    inputs = _inputs(3, 4)
    flat, sizes = run_module(_model(), inputs)
    np.testing.assert_array_equal(flat, np.maximum(inputs["x"] + inputs["y"], 0).reshape(-1))
    np.testing.assert_array_equal(sizes, [3, 4])


def test_watch_sees_every_value_in_order() -> None:
    seen: list[str] = []
    module = _model()
    run_module(
        module,
        _inputs(2, 1),
        watch=lambda v, a: seen.append(v.op.short if v.op is not None else v.name),
    )
    body = [op.short for op in module.main.body.ops if op.results]
    assert seen == ["x", "y", *body]


def test_constraint_is_named_with_values_and_origin() -> None:
    module = _model([parse_constraint("n * s <= 6", "user")])
    run_module(module, _inputs(2, 3))
    with pytest.raises(ShapeConstraintError, match=r"n \* s <= 6 .* n = 2, s = 4") as caught:
        run_module(module, _inputs(2, 4))
    assert caught.value.where == "user"


def test_bounds_are_checked() -> None:
    with pytest.raises(ShapeConstraintError, match="dimension n is 9, but may only be 1 to 8"):
        run_module(_model(), _inputs(9, 1))


def test_sizes_that_disagree_are_named() -> None:
    inputs = _inputs(2, 3)
    inputs["y"] = np.zeros(5, np.float32)
    with pytest.raises(ShapeConstraintError, match="dimension 0 of input 'y' is 5, but must be 7"):
        run_module(_model(), inputs)


def test_a_size_that_no_symbol_value_gives_is_refused() -> None:
    inputs = {"x": np.zeros((1, 4), np.float32), "y": np.zeros(4, np.float32)}
    with pytest.raises(ShapeConstraintError, match="is 4, but must be 3"):
        run_module(_model(), inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((1, 3))}, "has dtype float64, but needs f32"),
        ({"x": np.zeros(3, np.float32)}, "has rank 1, but needs rank 2"),
        ({"z": np.zeros(3, np.float32)}, "unknown input 'z'"),
    ],
)
def test_bad_inputs_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_module(_model(), _inputs(1, 1) | change)


def test_missing_input_is_refused() -> None:
    inputs = _inputs(1, 1)
    del inputs["y"]
    with pytest.raises(InputError, match="missing input 'y'"):
        run_module(_model(), inputs)


def test_zero_size_inputs_run() -> None:
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((N, 3), F32))
    module = e.finish([e.op("exp", x)], ["y"])
    assert run_module(module, {"x": np.zeros((0, 3), np.float32)})[0].shape == (0, 3)


def _fused() -> Op:
    """A region that computes exp(x) * y over its own arguments."""
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((N,), F32))
    y = e.input("y", TensorType((N,), F32))
    inner = Block([x.type, y.type])
    e2 = Emitter({"n": (0, None)})
    e2.block = inner
    e2.builder.block = inner
    product = e2.op("mul", e2.op("exp", inner.args[0]), inner.args[1])
    e2.builder.op("cuvil.yield", [product], result_types=())
    return e.builder.op("fused", [x, y], regions=[inner], result_types=[product.type])


def test_fused_region_runs_with_operands_as_arguments() -> None:
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    y = np.arange(5, dtype=np.float32)
    (out,) = run_op(_fused(), [x, y], {"n": 5})
    np.testing.assert_allclose(out, np.exp(x) * y, rtol=1e-6)


def test_region_without_terminator_is_refused() -> None:
    op = _fused()
    op.regions[0].terminator._drop()
    with pytest.raises(InvalidModelError, match="ends without"):
        run_op(op, [np.zeros(2, np.float32), np.zeros(2, np.float32)], {"n": 2})


def test_a_reference_that_breaks_its_type_rule_is_reported() -> None:
    e = Emitter()
    x = e.input("x", TensorType((2,), F32))
    op = e.builder.op("exp", [x], result_types=[TensorType((3,), F32)])
    with pytest.raises(VerificationError, match=r"\[2\] x float32, but its type says .*\[3\]"):
        run_op(op, [np.zeros(2, np.float32)])


def test_data_decides_a_symbol_that_no_input_has() -> None:
    """A result dimension with an unbound symbol takes the size that the reference gives."""
    e = Emitter()
    x = e.input("x", TensorType((4,), I64))
    op = e.builder.op("neg", [x], result_types=[TensorType((symbol("found"),), I64)])
    after = e.builder.op("neg", [op.result])
    module = e.finish([after.result, e.dims([symbol("found")])], ["y", "count"])
    y, count = run_module(module, {"x": np.arange(4)})
    np.testing.assert_array_equal(y, np.arange(4))
    np.testing.assert_array_equal(count, [4])
