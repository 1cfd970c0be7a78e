"""cuvil_pool_from: a program's own threads run a model's loops."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from tests.runtime.dltensor import CModel, tensor

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
PARALLEL_FOR = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
Run = Callable[[int, int, int], None]  # begin, end, thread
Cut = Callable[[int, Run], None]
THREADS = 3
NET = torch.nn.Sequential(
    torch.nn.Linear(64, 96), torch.nn.LayerNorm(96), torch.nn.Linear(96, 33), torch.nn.Softmax(-1)
).eval()


def _at_once(count: int, run: Run) -> None:
    run(0, count, 0)


def _backwards(count: int, run: Run) -> None:
    for task in reversed(range(count)):
        run(task, task + 1, task % THREADS)
        run(task, task, 0)  # an empty part does nothing


def _threads(count: int, run: Run) -> None:
    cuts = [count * i // THREADS for i in range(THREADS + 1)]
    workers = [
        threading.Thread(target=run, args=(cuts[i], cuts[i + 1], i)) for i in range(THREADS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


CUTS: dict[str, Cut] = {"at once": _at_once, "backwards": _backwards, "threads": _threads}


class HostPool:
    """A pool that cuts loops by ``cut``, and what it was asked for."""

    def __init__(self, model: CModel, cut: Cut, threads: int = THREADS) -> None:
        self.counts: list[int] = []

        def parallel_for(_: int, count: int, task: int, context: int) -> None:
            self.counts.append(count)
            body = TASK(task)
            cut(count, lambda begin, end, thread: body(context, begin, end, thread))

        self.function = PARALLEL_FOR(parallel_for)
        self.c = model.c
        self.c.cuvil_pool_from.restype = ctypes.c_void_p
        self.address = self.c.cuvil_pool_from(self.function, None, threads)

    def close(self) -> None:
        self.c.cuvil_pool_destroy(ctypes.c_void_p(self.address))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CModel]:
    compiled = cuvil.compile(NET, (torch.zeros(4, 64),), dynamic_dims=["batch"], cache=False)
    folder = tmp_path_factory.mktemp("pool")
    compiled.save(folder / "net.so")
    weights = np.fromfile(folder / "net.weights", np.uint8)
    yield CModel((folder / "net.so").read_bytes(), folder, weights)


def _run(model: CModel, pool: HostPool, x: np.ndarray) -> np.ndarray:
    place, size = ctypes.c_void_p(), ctypes.c_uint64()
    assert model.weights is not None
    code = model.c.cuvil_create(
        ctypes.c_void_p(model.weights.ctypes.data), ctypes.c_uint64(model.weights.nbytes),
        ctypes.c_void_p(pool.address), ctypes.byref(place), ctypes.byref(model.status),
    )  # fmt: skip
    assert code == 0, model.status.text
    model.model = place
    y = np.zeros((len(x), 33), np.float32)
    code, size = model.workspace_size([tensor(x)])
    assert code == 0 and model.run([tensor(x)], [tensor(y)], size) == 0, model.status.text
    model.c.cuvil_destroy(place)
    return y


def _expected(x: np.ndarray) -> np.ndarray:
    w1, b1, scale, shift, w2, b2 = (p.detach().numpy().astype(np.float64) for p in NET.parameters())
    h = x.astype(np.float64) @ w1.T + b1
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5) * scale + shift
    e = np.exp(h @ w2.T + b2)
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("cut", CUTS)
def test_any_cut_of_a_loop_gives_the_result(model: CModel, cut: str) -> None:
    pool = HostPool(model, CUTS[cut])
    x = np.random.default_rng(0).standard_normal((700, 64), np.float32)
    np.testing.assert_allclose(_run(model, pool, x), _expected(x), rtol=1e-4, atol=1e-6)
    assert pool.counts and min(pool.counts) >= 2
    pool.close()


def test_small_loops_stay_on_the_caller(model: CModel) -> None:
    pool = HostPool(model, _at_once)
    x = np.ones((1, 64), np.float32)
    np.testing.assert_allclose(_run(model, pool, x), _expected(x), rtol=1e-4, atol=1e-6)
    assert not pool.counts
    pool.close()


def test_runs_at_once_share_a_pool(model: CModel) -> None:
    pool = HostPool(model, _backwards)
    models = [CModel(Path(model.c._name).read_bytes(), Path(model.c._name).parent) for _ in "123"]
    right: list[bool] = []

    def caller(which: int) -> None:
        models[which].weights = model.weights
        x = np.random.default_rng(which).standard_normal((600, 64), np.float32)
        found = [_run(models[which], pool, x) for _ in range(3)]
        right.extend(np.allclose(y, _expected(x), 1e-4, 1e-6) for y in found)

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=60)
    assert right == [True] * 9
    pool.close()


def test_what_makes_no_pool(model: CModel) -> None:
    assert HostPool(model, _at_once, 0).address is None
    assert model.c.cuvil_pool_from(None, None, 2) is None
