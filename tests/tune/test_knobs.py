"""What may be chosen for a kernel, that any choice gives right results, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cuvil.errors import InputError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module, clone_op
from cuvil.ir.core import Block, Function, Module, Op
from cuvil.ir.types import F32, TensorType
from cuvil.passes.knobs import DIRECT, TUNE, candidates, choice_fault, contraction_of
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.passes.tuning import fused_ops, kernel_key, known_kernels
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.rewriter import Rewriter
from cuvil.sym.expr import Dim, symbol
from cuvil.target.registry import find_target
from tests.codegen.compile_graph import run_compiled
from tests.passes.test_algorithms import conv_module

V4 = find_target("x86_64_v4")


def matmul_module(m: Dim = 40, k: int = 1024, n: int = 300) -> Module:
    e = Emitter({"m": (1, 100)})
    x = e.input("x", TensorType((m, k), F32))
    w = np.random.default_rng(0).standard_normal((k, n)).astype(np.float32)
    return e.finish([e.op("exp", e.op("matmul", x, e.weight(w * 0.02)))], ["y"])


def attention_module(keys: int = 700) -> Module:
    e = Emitter()
    q, k, v = (e.input(name, TensorType((1, 2, n, 16), F32))
               for name, n in (("q", 33), ("k", keys), ("v", keys)))  # fmt: skip
    y = e.op("attention", q, k, v, causal=False, scale=0.25, has_mask=False)
    return e.finish([y], ["y"])


def kernel(module: Module, **options: Any) -> Op:
    """The kernel with the contraction of a module, which is lowered in place."""
    lower(module, "fused", PassOptions(**options))
    return next(op for op in fused_ops(module) if contraction_of(op) is not None)


def test_a_convolution_has_algorithms_and_what_belongs_to_each() -> None:
    op = kernel(conv_module(56))
    found = candidates(op, V4, parallel=False)
    assert {"algorithm": DIRECT} in found and {"algorithm": "winograd_2"} in found
    assert {"group": 28} in found and {"algorithm": "winograd_2", "group": 14} in found
    assert {"algorithm": DIRECT, "row_limit": 7} in found
    assert not any("group" in c and c.get("algorithm") == DIRECT for c in found)
    assert not any("serial" in c for c in found)
    assert len({repr(c) for c in found}) == len(found)


def test_what_changes_nothing_is_no_candidate() -> None:
    small = kernel(matmul_module(k=16, n=64))
    assert not any("panel_bytes" in c for c in candidates(small, V4, parallel=False))
    assert {"panel_bytes": 64 << 10} in candidates(kernel(matmul_module()), V4, parallel=False)
    assert not any("row_limit" in c for c in candidates(kernel(matmul_module(1)), V4, False))
    strided = kernel(conv_module(56, strides=(2, 2)))
    assert not any("algorithm" in c for c in candidates(strided, V4, parallel=False))


def test_several_contractions_in_a_kernel_have_no_knobs() -> None:
    module = matmul_module()
    product = next(op for op in module.main.body.ops if op.short == "matmul")
    block = Block()
    rewriter = Rewriter(Function("f", block, [], []))
    rewriter.at_end(block)
    fused = Op("cuvil.fused", regions=[block])
    rewriter.insert(clone_op(product, {}))
    assert contraction_of(fused) is not None
    rewriter.insert(clone_op(product, {}))
    assert contraction_of(fused) is None


def test_threads_are_a_choice_where_there_are_several() -> None:
    assert {"serial": True} in candidates(kernel(matmul_module()), V4, parallel=True)


@pytest.mark.parametrize(
    "choice",
    [
        {"algorithm": "direct"}, {"algorithm": "winograd_2", "group": 5}, {"group": 1},
        {"algorithm": "direct", "row_limit": 3}, {"algorithm": "direct", "panel_bytes": 1},
        {"algorithm": "direct", "row_limit": 64, "serial": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_are_right_at_any_choice(choice: dict[str, Any], threads: int) -> None:
    module = conv_module(symbol("h"), 33, 70)
    check(module, choice, {"x": (2, 31, 31, 33)}, {"n": 2, "h": 31}, threads)


@pytest.mark.parametrize("choice", [{"row_limit": 1}, {"panel_bytes": 1, "row_limit": 64}], ids=str)
def test_products_are_right_at_any_choice(choice: dict[str, Any]) -> None:
    check(matmul_module(symbol("m")), choice, {"x": (37, 1024)}, {"m": 37})


@pytest.mark.parametrize("block", [32, 128, 768])
@pytest.mark.parametrize("keys", [20, 700])
def test_attention_is_right_at_any_block(block: int, keys: int) -> None:
    shapes = {"q": (1, 2, 33, 16), "k": (1, 2, keys, 16), "v": (1, 2, keys, 16)}
    check(attention_module(keys), {"key_block": block}, shapes, {})


def check(
    module: Module, choice: dict[str, Any], shapes: dict[str, tuple[int, ...]],
    sizes: dict[str, int], threads: int = 1,
) -> None:  # fmt: skip
    """The compiled module with the choice, against the reference."""
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    (want,) = run_module(module, inputs, sizes)
    key = key_of(module)
    options = PassOptions(tuning={key: choice})
    (got,) = run_compiled(module, inputs, options, threads)
    assert options.trace.fired["tuning"] == 1
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


def key_of(module: Module) -> str:
    copy = clone_module(module)
    return kernel_key(kernel(copy), copy.main.symbols)


def test_a_choice_stands_in_the_fused_module() -> None:
    key = key_of(conv_module(56))
    op = kernel(conv_module(56), tuning={key: {"algorithm": "winograd_2", "group": 14}})
    main = contraction_of(op)
    assert op.attrs[TUNE] == {"group": 14}
    assert main is not None and main.attrs["algorithm"] == "winograd_2"
    direct = contraction_of(kernel(conv_module(56), tuning={key: {"algorithm": DIRECT}}))
    assert direct is not None and "algorithm" not in direct.attrs


def test_equal_kernels_have_one_key_and_others_have_others() -> None:
    def key(scale: float, *args: Any) -> str:
        return key_of(conv_module(*args, scale=scale))

    assert key(0.05, 56) == key(0.01, 56)  # other weights
    assert len({key(0.05, 56), key(0.05, 28), key(0.05, 56, 32), key(0.05, symbol("h"))}) == 4
    module = conv_module(56)
    lower(module, "fused")
    assert key_of(conv_module(56)) in known_kernels(module)


def test_an_algorithm_that_the_operator_has_not_is_refused() -> None:
    module = conv_module(56, strides=(2, 2))
    options = PassOptions(tuning={key_of(module): {"algorithm": "winograd_4"}})
    with pytest.raises(InputError, match="algorithm=winograd_4: it has strides"):
        lower(module, "fused", options)
    product = matmul_module()
    options = PassOptions(tuning={key_of(product): {"algorithm": "direct"}})
    with pytest.raises(InputError, match="algorithm is for f32 kernels of conv"):
        lower(product, "fused", options)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("direct", "a choice is a table of knobs"),
        ({"speed": 1}, "there is no knob 'speed'"),
        ({"algorithm": "fft"}, "algorithm.*can't be 'fft'"),
        ({"row_limit": 0}, "row_limit.*can't be 0"),
        ({"row_limit": True}, "row_limit.*can't be True"),
        ({"key_block": 100}, "key_block.*can't be 100"),
        ({"panel_bytes": 2**40}, "panel_bytes.*can't be"),
        ({"serial": False}, "serial.*can't be False"),
    ],
)
def test_what_is_no_choice(choice: Any, words: str) -> None:
    assert re.search(words, choice_fault(choice))
    assert not choice_fault({"algorithm": "direct", "row_limit": 7, "serial": True})
