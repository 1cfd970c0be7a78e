"""Calling an artifact: right results, right refusals, whatever the arrays look like."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.ir.types import DTYPES
from cuvil.runtime import Artifact, load
from tests.runtime import sample as samples

torch = pytest.importorskip("torch")
W = samples.WEIGHTS[:8]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def scale(folder: Path) -> Iterator[Artifact]:
    with load(samples.package(samples.scale(), folder)) as artifact:
        yield artifact


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[Artifact]:
    with load(samples.package(samples.pair(), folder), threads=2) as artifact:
        yield artifact


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def pair_inputs(n: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    return values(n, 2 * s + 1), np.arange(s, dtype=np.int64)


def check_pair(artifact: Artifact, n: int, s: int) -> None:
    a, b = pair_inputs(n, s)
    rows, b2 = artifact(a, b)
    np.testing.assert_allclose(rows, a.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(b2, b * 10)


@pytest.mark.parametrize("batch", [0, 1, 2, 63, 64])
def test_symbolic_batch(scale: Artifact, batch: int) -> None:
    x = values(batch, 8)
    before = x.copy()
    y = scale(x)
    assert y.shape == (batch, 8) and y.dtype == np.float32
    np.testing.assert_array_equal(y, 2 * x + W)
    np.testing.assert_array_equal(x, before)


def test_two_outputs_and_linear_binding(pair: Artifact) -> None:
    for n, s in ((1, 0), (1, 1), (3, 2), (64, 1), (1, 64), (16, 4)):
        check_pair(pair, n, s)
    assert pair.symbols_for({"a": (3, 9), "b": (4,)}) == {"n": 3, "s": 4}
    assert pair.workspace_bytes({"a": values(3, 9), "b": np.zeros(4, np.int64)}) == 128


STRANGE = {
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "negative stride": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "byte-swapped": lambda x: x.astype(">f4"),
    "byte-swapped and strided": lambda x: np.asfortranarray(x.astype(">f4")),
    "misaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)
    .reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "subclass": lambda x: x.view(np.recarray),
    "torch": torch.from_numpy,
    "torch strided": lambda x: torch.from_numpy(np.repeat(x, 2, axis=1))[:, ::2],
    "torch gradient": lambda x: torch.from_numpy(x).requires_grad_(),
    "torch parameter": lambda x: torch.nn.Parameter(torch.from_numpy(x)),
    "torch negative bit": lambda x: torch._neg_view(torch.from_numpy(-x)),
    "torch misaligned": lambda x: torch.frombuffer(
        bytearray(b"\0" + x.tobytes()), dtype=torch.float32, offset=1
    ).reshape(x.shape),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRANGE)
def test_any_layout_gives_the_right_answer(scale: Artifact, kind: str) -> None:
    x = values(6, 8)
    given = STRANGE[kind](x.copy())
    plain = given.detach().resolve_neg().numpy() if isinstance(given, torch.Tensor) else given
    expected = 2 * np.asarray(plain, np.float32) + W
    result = scale(given)
    assert isinstance(result, torch.Tensor if isinstance(given, torch.Tensor) else np.ndarray)
    np.testing.assert_array_equal(np.asarray(result), expected)
    assert (np.asarray(plain) == x).all() or kind == "broadcast"


class OnlyDlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self.array.__dlpack_device__()


def test_dlpack_objects_come_in(scale: Artifact) -> None:
    x = values(4, 8)
    result = scale(OnlyDlpack(x))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, 2 * x + W)
    with pytest.raises(InputError, match="dtype float64; expected f32"):
        scale(OnlyDlpack(x.astype(np.float64)))


def test_an_index_outside_is_an_error_of_that_call_only(folder: Path) -> None:
    artifact = load(samples.package(samples.lookup(), folder))
    for make in (np.array, torch.tensor):
        np.testing.assert_array_equal(artifact(make([7, 0])), W[[7, 0]])
        with pytest.raises(InputError, match="looked up index 8 in a dimension of size 8"):
            artifact(make([1, 8, -1]))
        np.testing.assert_array_equal(artifact(make([1])), W[[1]])


def test_every_dtype(folder: Path) -> None:
    artifact = load(samples.package(samples.copies(), folder))
    bits = np.random.default_rng(1).integers(0, 2, (len(DTYPES), 64), dtype=np.uint8)
    given = []
    for dtype, row in zip(DTYPES.values(), bits):
        if dtype.name == "bf16":
            given.append(torch.from_numpy(row[: 8 * 2].copy()).view(torch.bfloat16))
        else:
            given.append(row[: 8 * dtype.size].view(dtype.numpy))
    results = artifact(*given)
    for dtype, x, y in zip(DTYPES.values(), given, results):
        known = dtype.bits >= 8  # torch has no types below, and gives NumPy's
        assert isinstance(y, torch.Tensor if known else np.ndarray)
        assert (y.element_size() if isinstance(y, torch.Tensor) else y.itemsize) == dtype.size
        np.testing.assert_array_equal(_bytes(y), _bytes(x))


def _bytes(array: Any) -> Any:
    torches = isinstance(array, torch.Tensor)
    return array.view(torch.uint8).numpy() if torches else array.view(np.uint8)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((2, 8)), InputError, "input 'x' has dtype float64; expected f32"),
        (torch.zeros(2, 8, dtype=torch.int32), InputError, "has dtype torch.int32; expected f32"),
        (np.zeros(8, np.float32), ShapeConstraintError, "rank 1, shape [8]; expected rank 2"),
        (np.zeros((2, 9), np.float32), ShapeConstraintError, "axis 1 is 9; expected 8"),
        (np.zeros((65, 8), np.float32), ShapeConstraintError, "is 65; allowed is 0 <= batch <= 64"),
        (1.0, InputError, "builtins.float, not an array"),
        ([[1.0] * 8], InputError, "builtins.list, not an array"),
        (None, InputError, "is None; it was an array when"),
        (np.ma.zeros((2, 8), np.float32), InputError, "is a masked array"),
        (np.zeros((2, 8), "O"), InputError, "dtype object"),
        (torch.zeros(2, 8).to_sparse(), InputError, "layout torch.sparse_coo"),
    ],
)
def test_refusals_name_what_is_wrong(
    scale: Artifact, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        scale(value)
    assert type(caught.value) is error
    assert message in str(caught.value)


def test_constraints_name_rule_origin_and_values(pair: Artifact) -> None:
    with pytest.raises(ShapeConstraintError) as caught:
        pair(*pair_inputs(13, 5))
    assert "the constraint n * s <= 64 (from the user) does not hold: n = 13, s = 5" in str(
        caught.value
    )
    with pytest.raises(ShapeConstraintError, match=r"s != 5 \(from slice at model.py:12\)"):
        pair(*pair_inputs(2, 5))
    with pytest.raises(ShapeConstraintError) as caught:
        pair(values(2, 5), np.zeros(3, np.int64))
    assert "input 'a', axis 1 is 5; expected 2 * s + 1 = 7" in str(caught.value)
    assert "s is 3 by axis 0 of 'b'" in str(caught.value)
    with pytest.raises(ShapeConstraintError, match="is 0; allowed is 1 <= n"):
        pair(values(0, 1), np.zeros(0, np.int64))


def test_arguments_are_matched_by_name_and_position(pair: Artifact) -> None:
    a, b = pair_inputs(2, 3)
    expected = pair(a, b)
    for result in (pair(a, b=b), pair(b=b, a=a), tuple(pair.run({"b": b, "a": a}).values())):
        np.testing.assert_array_equal(result[0], expected[0])
        np.testing.assert_array_equal(result[1], expected[1])
    for call, message in (
        (lambda: pair(a), "input 'b' is missing; the inputs are a, b"),
        (lambda: pair(a, b, b), "the model has 2 inputs; 3 were given"),
        (lambda: pair(a, b, a=a), "input 'a' was given twice"),
        (lambda: pair(a, b=b, c=b), "there is no input 'c'"),
        (lambda: pair.run({"a": a}), "input 'b' is missing"),
        (lambda: pair.run({"a": a, "b": b, "c": b}), "there is no input 'c'"),
        (lambda: pair.run([a, b]), "inputs are list; expected a dict"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)


def test_outputs_of_the_caller(pair: Artifact) -> None:
    a, b = pair_inputs(3, 2)
    rows, b2 = np.empty(3, np.float32), np.empty(2, np.int64)
    result = pair.run({"a": a, "b": b}, {"rows": rows, "b2": b2})
    assert result["rows"] is rows and result["b2"] is b2
    np.testing.assert_array_equal(b2, b * 10)
    tensor = torch.empty(3)
    mixed = pair.run({"a": a, "b": b}, out={"rows": tensor})
    assert mixed["rows"] is tensor
    np.testing.assert_array_equal(tensor.numpy(), rows)
    locked = np.empty(3, np.float32)
    locked.flags.writeable = False
    for out, message in (
        ({"row": rows}, "there is no output 'row'; the outputs are rows, b2"),
        ({"rows": rows.astype(np.float64)}, "dtype float64; expected f32"),
        ({"rows": np.empty(4, np.float32)}, "shape [4]; expected [3]"),
        ({"rows": np.empty(6, np.float32)[::2]}, "can't be written to"),
        ({"rows": locked}, "can't be written to"),
        ({"rows": [0, 0, 0]}, "is list, not an array"),
        ({"rows": torch.empty(3, requires_grad=True)}, "can't be written to"),
        ({"rows": a[0, :3]}, "shares memory with input 'a'"),
        ({"rows": rows, "b2": rows.view(np.uint8)[:0].view(np.int64)}, "shape [0]; expected [2]"),
    ):
        with pytest.raises(InputError) as caught:
            pair.run({"a": a, "b": b}, out)
        assert message in str(caught.value)


def test_closed_artifact(folder: Path) -> None:
    artifact = load(folder / "scale.cuvilpkg") if (folder / "scale.cuvilpkg").exists() else load(
        samples.package(samples.scale(), folder)
    )
    artifact.close()
    artifact.close()
    for call in (
        lambda: artifact(values(1, 8)), lambda: artifact.run({"x": values(1, 8)}),
        lambda: artifact.workspace_bytes({"x": (1, 8)}), artifact.__enter__,
    ):  # fmt: skip
        with pytest.raises(ArtifactError, match="was closed"):
            call()
    assert "closed" in repr(artifact)


def test_threads_at_once_and_close_meanwhile(folder: Path) -> None:
    artifact = load(samples.package(samples.pair(), folder, "busy"), threads=2)
    problems: list[BaseException] = []
    calls = [0] * 4
    stop = threading.Event()

    def work(number: int) -> None:
        order = random.Random(number)
        while not stop.is_set():
            n, s = order.randint(1, 16), order.randint(0, 4)
            try:
                check_pair(artifact, n, s)
            except ArtifactError:
                return
            except BaseException as error:
                problems.append(error)
                return
            calls[number] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    while min(calls) < 50 and not problems and any(w.is_alive() for w in workers):
        stop.wait(0.01)
    artifact.close()
    for worker in workers:
        worker.join(10)
    stop.set()
    assert not problems and min(calls) >= 50


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat_over_random_shapes(scale: Artifact, pair: Artifact) -> None:
    order = random.Random(7)
    x, a, b = values(64, 8), values(64, 129), np.arange(64, dtype=np.int64)

    def many(count: int) -> None:
        for _ in range(count):
            scale(x[: order.randint(0, 64)])
            n = order.randint(1, 64)
            s = order.randint(0, 64 // n)
            if s != 5:
                pair(np.ascontiguousarray(a[:n, : 2 * s + 1]), b[:s])

    many(5000)
    gc.collect()
    before = resident()
    many(50000)  # two calls each
    gc.collect()
    assert resident() - before < 2 << 20


def test_plans_are_bounded(folder: Path) -> None:
    artifact = load(samples.package(samples.copies(), folder, "many"))
    inputs = {f"in_{d.name}": np.zeros(2000, d.numpy) for d in DTYPES.values() if d.name != "bf16"}
    inputs["in_bf16"] = torch.zeros(2000, dtype=torch.bfloat16)
    for n in range(1, 1200):
        artifact.run({name: x[:n] for name, x in inputs.items()})
    assert artifact._model is not None
    assert 0 < len(artifact._model.plans) <= 512


def test_call_overhead_is_small(scale: Artifact) -> None:
    """The true figure is near 3 us; the bound allows for a busy machine."""
    x = values(1, 8)
    best, end = float("inf"), time.monotonic() + 10  # a busy machine takes a while to be quiet
    while best >= 10e-6 and time.monotonic() < end:
        best = min(best, timeit.timeit(lambda: scale(x), number=500) / 500)
    assert best < 10e-6
