"""Compiling from several threads, and what the process finds of torch meanwhile and after."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import cuvil
from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.size_arguments import INNER
from cuvil.frontends.torch_export.source import run_eager
from cuvil.frontends.torch_export.stand_ins import symbolic_functions
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module

WAIT = 120.0


def _state() -> dict[str, Any]:
    """What captures replace, and what is set for the process meanwhile."""
    return {
        "recurrent": dict(vars(torch._VF)), "pool": torch.max_pool1d,
        "inner": [getattr(torch.nn.functional, name) for name in INNER],
        "guard": vars(ShapeEnv)["_log_guard"], "fast": torch.backends.mha.get_fastpath_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled, "dtype": torch.get_default_dtype(),
        "filters": list(warnings.filters), "grad": torch.is_grad_enabled(),
        "loggers": {n: logging.getLogger(n).level for n in ("torch.export", "torch.fx")},
    }  # fmt: skip


def _at_once(jobs: list[Callable[[], Any]]) -> list[Any]:
    """What each gives, or the exception it raises, of a thread each, all begun together."""
    found: list[Any] = [None] * len(jobs)
    gate = threading.Barrier(len(jobs))

    def run(place: int) -> None:
        gate.wait(WAIT)
        try:
            found[place] = jobs[place]()
        except Exception as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    return found


class _Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def test_captures_at_once() -> None:
    before = _state()
    models = [_Recurrent().eval() for _ in range(4)]
    x = torch.randn(5, 2, 3)
    dims = [{0: "steps", 1: "batch"}]
    found = _at_once([lambda m=m: capture_torch(m, (x,), dynamic=dims) for m in models])
    assert _state() == before
    for model, module in zip(models, found, strict=True):
        assert not isinstance(module, Exception), module
        exact = model.double()(x.double()).detach().numpy()
        actual = run_module(module, {"x": x.numpy()})
        np.testing.assert_allclose(actual[0], exact, atol=1e-6)
        model.float()


def test_captures_of_one_model_leave_its_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5)).train()
    x = torch.ones(2, 3)
    jobs: list[Callable[[], Any]] = [lambda: capture_torch(model, (x,))] * 2
    found = _at_once(jobs + [lambda: run_eager(model, (x,), {})[0]] * 2)
    assert not [f for f in found if isinstance(f, Exception)]
    assert all(m.training for m in model.modules())
    exact = x.numpy() @ model[0].weight.detach().numpy().T + model[0].bias.detach().numpy()
    for eager in found[2:]:
        np.testing.assert_allclose(eager, exact, atol=1e-6)


def test_other_threads_keep_torchs_own_functions() -> None:
    """A layer that another thread trains meanwhile computes, and differentiates, as ever."""
    lstm, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
    expected = lstm(x)[0]

    def train() -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]))
        y = lstm(x)[0]
        y.sum().backward()
        return y, packed, torch.nn.functional.max_pool1d(x, 2)

    with symbolic_functions():
        (found,) = _at_once([train])
    assert not isinstance(found, Exception), found
    assert torch.equal(found[0], expected)
    assert torch.equal(found[2], torch.nn.functional.max_pool1d(x, 2))
    assert lstm.weight_ih_l0.grad is not None


def test_replacements_nest() -> None:
    before = _state()
    with symbolic_functions():
        outer = _state()
        with symbolic_functions():
            pass
        assert _state() == outer
    assert _state() == before


class _Compiles(torch.nn.Module):
    """Its forward compiles another model, once."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self.made.append(capture_torch(torch.nn.Tanh(), (torch.ones(2),)))
        except cuvil.CuvilError as error:
            self.made.append(error)
        return x.exp()


def test_a_capture_within_a_capture_ends() -> None:
    before = _state()
    found = _at_once([lambda: capture_torch(_Compiles(), (torch.ones(3),))])[0]
    assert isinstance(found, (cuvil.CuvilError, Module)), found
    assert _state() == before


def test_torch_compile_and_captures_at_once() -> None:
    """Each takes the other's lock: torch.compile calls Cuvil, a capture may call torch.compile."""

    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))

    def dynamo(run: Any, k: int) -> Any:
        with torch.no_grad():
            return run(torch.full((2, k + 3), 9.0))

    # Modules that torch loads when it first needs them can't be loaded by two threads at once.
    capture_torch(Branches(), (torch.ones(3),))
    jobs: list[Callable[[], Any]] = []
    for k in range(1, 4):
        run = torch.compile(torch.nn.Hardtanh(-k, k), backend="cuvil")
        jobs += [lambda: capture_torch(Branches(), (torch.ones(4),)), partial(dynamo, run, k)]
    found = _at_once(jobs)
    assert not [f for f in found if isinstance(f, Exception)]
    for k in range(1, 4):
        assert torch.equal(found[2 * k - 1], torch.full((2, k + 3), float(k)))


FORK = """
import os, threading, time, torch
from cuvil.frontends.alone import ALONE, replaced
holding, go = threading.Event(), threading.Event()
def hold():
    with replaced(torch, {"max_pool1d": print}):
        holding.set()
        go.wait(60)
thread = threading.Thread(target=hold); thread.start(); holding.wait(60)
original = torch.max_pool1d.__wrapped__
threading.Timer(0.3, go.set).start()
child = os.fork()
if child == 0:
    with ALONE.held():
        os._exit(0 if torch.max_pool1d is original else 3)
_, status = os.waitpid(child, 0)
with ALONE.held():
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_during_a_capture() -> None:
    """The child waits for it, finds torch as it was, and takes the lock."""
    assert _script(FORK) == "0"


OUTLASTED = """
import os, threading
import cuvil.frontends.alone as alone
alone._PATIENCE = 0.1
holding, go = threading.Event(), threading.Event()
def hold():
    with alone.ALONE.held():
        holding.set()
        go.wait(60)
thread = threading.Thread(target=hold); thread.start(); holding.wait(60)
child = os.fork()
if child == 0:
    with alone.ALONE.held():
        os._exit(0)
go.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
INSIDE = """
import os
from cuvil.frontends.alone import ALONE
with ALONE.held():
    child = os.fork()
if child == 0:
    with ALONE.held():
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("text", [OUTLASTED, INSIDE], ids=["too long", "inside"])
def test_a_child_never_hangs(text: str) -> None:
    assert _script(text) == "0"


def _script(text: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_compiles_at_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole compilations, verified: no thread meets another's replacements."""
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path))
    before = _state()
    models = [torch.nn.Linear(4, k + 1).eval() for k in range(3)]
    x = torch.randn(2, 4)
    found = _at_once([lambda m=m: cuvil.compile(m, (x,), dynamic_dims=["n"]) for m in models])
    assert _state() == before
    for model, artifact in zip(models, found, strict=True):
        assert not isinstance(artifact, Exception), artifact
        exact = model.double()(x.double()).detach().numpy()
        np.testing.assert_allclose(artifact(x).numpy(), exact, atol=1e-5)
