"""Corners of compiled functions: what is returned, what is empty, and indices that are outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cuvil.errors import InputError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64, TensorType
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from tests.codegen.noise import differences
from tests.ops.compiled import compile_module
from tests.ops.values import Array

Body = Callable[[Emitter], Sequence[Value]]
N = symbol("n")


def _run(body: Body, *inputs: dict[str, Array], fusion: bool = True) -> list[list[Array]]:
    """Outputs for each dict of inputs; they are compared with the interpreter's."""
    e = Emitter({"n": (0, None)})
    outputs = body(e)
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    artifact = compile_module(module, fusion=fusion, opt_level=0)
    results = []
    for given in inputs:
        found = artifact.run(given)
        got = [found[name] for name in module.main.output_names]
        want = run_module(module, given)
        assert not differences(got, want, [want])
        results.append(got)
    return results


def _x(n: int, *rest: int, seed: int = 0) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal((n, *rest)).astype(np.float32)}


@pytest.mark.parametrize("fusion", [True, False])
def test_outputs_may_be_inputs_constants_views_and_repeats(fusion: bool) -> None:
    def body(e: Emitter) -> list[Value]:
        x = e.input("x", TensorType((N, 6), F32))
        y = e.op("exp", x)
        flat = e.reshape(y, (N * 6,))
        weight = e.weight(np.arange(5, dtype=np.float32))
        number = e.scalar(2.5, F32)
        return [
            x, y, y, x, weight, weight, number, flat, e.transpose(x, (1, 0)),
            e.transpose(y, (1, 0)), e.reshape(x, (6, N)), e.broadcast(number, (N, 2)),
            e.op("neg", y), e.dims([N, N * 6]),
        ]  # fmt: skip

    _run(body, _x(3, 6), _x(0, 6), _x(1, 6), fusion=fusion)


@pytest.mark.parametrize("fusion", [True, False])
def test_reductions_of_what_is_empty_at_run_time(fusion: bool) -> None:
    names = ("reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min")

    def body(e: Emitter) -> list[Value]:
        x = e.input("x", TensorType((N, 5), F32))
        return [
            e.op(name, x, axes=axes, keepdims=keep)
            for name in names
            for axes in ((0,), (1,), (0, 1), ())
            for keep in (False, True)
        ]

    empty, _ = _run(body, _x(0, 5), _x(4, 5), fusion=fusion)
    over_first = dict(zip(names, empty[::8], strict=True))
    assert (over_first["reduce_sum"] == 0).all() and (over_first["reduce_prod"] == 1).all()
    assert np.isnan(over_first["reduce_mean"]).all()
    assert (over_first["reduce_max"] == -np.inf).all()
    assert (over_first["reduce_min"] == np.inf).all()


def test_normalisations_of_empty_and_single_rows() -> None:
    def body(e: Emitter) -> list[Value]:
        x = e.input("x", TensorType((3, N), F32))
        flags = {"has_weight": False, "has_bias": False}
        return [
            e.op("softmax", x, axis=1), e.op("softmax", x, axis=0), e.op("log_softmax", x, axis=1),
            e.op("layer_norm", x, axes_from=1, eps=1e-3, **flags),
            e.op("layer_norm", x, axes_from=0, eps=1e-3, **flags),
        ]  # fmt: skip

    e = Emitter({"n": (0, None)})
    outputs = body(e)
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    artifact = compile_module(module, opt_level=0)
    for n in (0, 1, 2, 63, 64, 65, 200):
        found = artifact.run(_x(3, n))
        for name, want in zip(module.main.output_names, run_module(module, _x(3, n)), strict=True):
            np.testing.assert_allclose(found[name], want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("bad", [-5, 4, 1 << 40, -(1 << 63)])
@pytest.mark.parametrize("kind", ["gather", "gather_elements", "gather_nd"])
def test_an_index_outside_fails_the_call(kind: str, bad: int) -> None:
    def body(e: Emitter) -> list[Value]:
        x = e.input("x", TensorType((4, 3), F32))
        if kind == "gather":
            i = e.input("i", TensorType((N,), I64))
            return [e.op("exp", e.op("gather", x, i, axis=0))]
        i = e.input("i", TensorType((N, 1), I64))
        if kind == "gather_nd":
            return [e.op("exp", e.op("gather_nd", x, i))]
        return [e.op("exp", e.op("gather_elements", x, i, axis=0))]

    e = Emitter({"n": (0, None)})
    module = e.finish(body(e), ["y"])
    artifact = compile_module(module, opt_level=0)
    shape = (-1,) if kind == "gather" else (-1, 1)
    good = {**_x(4, 3), "i": np.array([0, 3, -4, -1]).reshape(shape)}
    np.testing.assert_allclose(artifact.run(good)["y"], run_module(module, good)[0], rtol=1e-6)
    with pytest.raises(InputError, match="index"):
        artifact.run({**good, "i": np.array([0, bad, 1]).reshape(shape)})
    assert np.isfinite(artifact.run(good)["y"]).all()  # the next call is a clean one


@pytest.mark.parametrize("name", ["i0", "i1", "m", "n", "g1", "item", "lane", "batch", "threads"])
def test_symbols_may_be_called_like_the_variables_of_kernels(name: str) -> None:
    e = Emitter({name: (0, None)})
    x = e.input("x", TensorType((symbol(name), 3, 5), F32))
    product = e.op("neg", e.op("matmul", x, x, trans_b=True))
    total = e.op("reduce_sum", e.op("exp", x), axes=(0,), keepdims=True)
    picked = e.op("gather", x, e.weight(np.array([2, 0, 1, 1])), axis=1)
    outputs = [product, e.map("sub", x, total), e.op("transpose", picked, perm=(2, 1, 0))]
    module = e.finish(outputs, ["a", "b", "c"])
    artifact = compile_module(module, opt_level=0)
    given = _x(6, 3, 5)
    found = artifact.run(given)
    for label, want in zip("abc", run_module(module, given), strict=True):
        np.testing.assert_allclose(found[label], want, rtol=1e-5, atol=1e-5)


def test_a_difference_is_found() -> None:
    want = [np.array([1.0, 2.0], np.float32)]
    assert not differences(want, want, [want])
    assert differences([np.array([1.0, 2.001], np.float32)], want, [want])
    assert differences([np.array([1.0, np.nan], np.float32)], want, [want])
    assert differences([np.array([1, 2])], want, [want])
    assert differences([np.array([1, 3])], [np.array([1, 2])], [[np.array([1, 2])]])
