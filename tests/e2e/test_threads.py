"""One artifact or several, called from one thread or many, before and after a fork."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cuvil
from tests.e2e.models import transformer_inputs

Array = np.ndarray[Any, Any]
SIZES = [(1, 1), (1, 24), (2, 7), (5, 24), (3, 16)]


def _texts() -> list[tuple[Array, Array]]:
    return [tuple(t.numpy() for t in transformer_inputs(*size)) for size in SIZES]


def _images(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 3, 16, 16), dtype=np.float32)


def test_threads_do_not_change_the_result(packages: dict[str, Path]) -> None:
    one, two = (cuvil.load(packages["transformer"], n) for n in (1, 2))
    for ids, mask in _texts():
        a, b = one(ids, mask), two(ids, mask)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    one, two = (cuvil.load(packages["convnet"], n) for n in (1, 2))
    for count in (1, 2, 3, 9):
        np.testing.assert_array_equal(one(_images(count)), two(_images(count)))


def _all_at_once(works: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            barrier.wait(30)
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(w,)) for w in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(t.is_alive() for t in threads), failures


@pytest.mark.parametrize("threads", [1, 2])
def test_several_callers_at_once(packages: dict[str, Path], threads: int) -> None:
    encoder = cuvil.load(packages["transformer"], threads)
    net = cuvil.load(packages["convnet"], threads)
    texts = _texts()
    wanted = [encoder(*t) for t in texts]
    images = [_images(n) for n in (1, 4, 7)]
    wanted_images = [net(x) for x in images]

    def encode(start: int) -> None:
        for step in range(150):
            at = (start + step) % len(texts)
            found = encoder(*texts[at])
            for name, value in wanted[at].items():
                np.testing.assert_array_equal(found[name], value)

    def look(start: int) -> None:
        for step in range(150):
            at = (start + step) % len(images)
            np.testing.assert_array_equal(net(images[at]), wanted_images[at])

    works: list[Callable[[], None]] = [lambda i=i: encode(i) for i in range(3)]
    works += [lambda i=i: look(i) for i in range(2)]
    _all_at_once(works)


def test_loading_while_others_call(packages: dict[str, Path]) -> None:
    net = cuvil.load(packages["convnet"], 2)
    x = _images(4)
    expected = net(x)

    def call() -> None:
        for _ in range(200):
            np.testing.assert_array_equal(net(x), expected)

    def load() -> None:
        for _ in range(15):
            with cuvil.load(packages["convnet"], 2) as other:
                np.testing.assert_array_equal(other(x), expected)

    _all_at_once([call, call, load])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_goes_on(packages: dict[str, Path], threads: int) -> None:
    encoder = cuvil.load(packages["transformer"], threads)
    texts = _texts()
    wanted = [encoder(*t) for t in texts]

    def child(queue: Any) -> None:
        same = [
            all(np.array_equal(encoder(*t)[k], v) for k, v in w.items())
            for t, w in zip(texts, wanted)
        ]
        queue.put(same)

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
    for process in children:
        process.start()
    found = [queue.get(timeout=60) for _ in children]
    for process in children:
        process.join(60)
    assert found == [[True] * len(texts)] * 2
    assert [p.exitcode for p in children] == [0, 0]
    for text, expected in zip(texts, wanted):
        np.testing.assert_array_equal(encoder(*text)["pooled"], expected["pooled"])
