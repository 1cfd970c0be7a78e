"""The Python runtime and the C interface judge the same shapes alike."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cuvil.errors import ShapeConstraintError
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from tests.runtime import sample as samples
from tests.runtime.dltensor import CModel, tensor

SIGNATURE = Signature(
    (
        TensorSpec("a", "u8", ("n * m", "3 * k - 2", 2)),
        TensorSpec("b", "u8", ("n", "10 - m")),
        TensorSpec("c", "u8", ("(k + n) // 2", "max(k, n) % 3")),
    ),
    (
        TensorSpec("p", "u8", ("k - 1", "n // k")),
        TensorSpec("q", "u8", ("n * m * k * 1000003 * 1000003 * 1000003",)),
    ),
    (SymbolSpec("n", 1, 6), SymbolSpec("m", 0, None), SymbolSpec("k", 0, 5)),
    (ConstraintSpec("n % k != 1"), ConstraintSpec("m * k < 12"), ConstraintSpec("n >= min(m, k)")),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CModel:
    made = samples.sample("judge", SIGNATURE, "  (void)rc;")
    model = CModel(samples.library(made), tmp_path_factory.mktemp("judge"))
    assert model.create() == 0
    return model


def verdict(call: object) -> object:
    try:
        return call()  # type: ignore[operator]
    except ShapeConstraintError:
        return None


def test_bindings() -> None:
    places = {b.symbol: (b.input, b.axis, b.slope, b.offset) for b in SIGNATURE.bindings}
    assert places == {"n": (1, 0, 1, 0), "m": (1, 1, -1, 10), "k": (0, 1, 3, -2)}


def test_both_sides_agree(model: CModel) -> None:
    order = random.Random(5)
    byte = np.zeros(1, np.uint8)
    seen = {"good": 0, "bad": 0, "no output": 0}
    for _ in range(6000):
        n, m, k = order.randint(0, 7), order.randint(-1, 11), order.randint(0, 6)
        shapes = [
            [n * m, 3 * k - 2, 2],
            [n, 10 - m],
            [(k + n) // 2, max(k, n) % 3],
        ]
        if order.random() < 0.3:
            shape = order.choice(shapes)
            shape[order.randrange(len(shape))] += order.choice([-1, 1, 3, 1 << 40])
        table = verdict(lambda shapes=shapes: SIGNATURE.bind(shapes))
        inputs = [tensor(byte, shape=shape) for shape in shapes]
        code, _ = model.workspace_size(inputs)
        assert (code == 0) == (table is not None), (shapes, model.status.text)
        if table is None:
            assert code in (5, 6)
            seen["bad"] += 1
            continue
        for index, spec in enumerate(SIGNATURE.outputs):
            one = Signature(SIGNATURE.inputs, (spec,), SIGNATURE.symbols)
            expected = verdict(lambda one=one, table=table: one.output_shapes(table))
            code, shape = model.output_shape(inputs, index)
            if expected is None:
                seen["no output"] += 1
                assert code == 5 or shape[0] > 1 << 47  # C leaves size limits to cuvil_run
            else:
                assert code == 0 and tuple(shape[: spec.rank]) == expected[0]
        seen["good"] += 1
    assert min(seen.values()) > 50, seen
