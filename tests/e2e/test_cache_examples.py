"""A cached artifact is right on the example values that are given, not only on earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import cuvil
import cuvil.api.capture as capturing
from cuvil.api import compiler
from cuvil.api.example_check import values_digest
from cuvil.build.cache import Cache
from cuvil.errors import VerificationError
from tests.frontends.torch_helper import Fn


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path))
    return Cache(tmp_path)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each capture."""
    seen: list[str] = []
    for name in ("_capture_torch", "_capture_onnx"):
        real = getattr(capturing, name)

        def capture(request: Any, real: Any = real) -> Any:
            seen.append("capture")
            return real(request)

        monkeypatch.setattr(capturing, name, capture)
    return seen


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1


class WrongAboveTen:
    """Artifacts as a wrong kernel would make them: off by 1 where an input is above 10."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self._real = compiler.load
        monkeypatch.setattr(compiler, "load", self._load)

    def _load(self, *args: Any, **more: Any) -> Any:
        artifact = self._real(*args, **more)
        run = artifact.run

        def wrong(inputs: Any, *rest: Any) -> Any:
            self.calls += 1
            top = max(float(x.max()) for x in inputs.values())
            return {n: y + np.float32(top > 10) for n, y in run(inputs, *rest).items()}

        artifact.run = wrong
        return artifact


def _taken(seen: list[str]) -> list[str]:
    taken, seen[:] = list(seen), []
    return taken


_SMALL, _OTHER, _LARGE = (torch.tensor(v) for v in ([1.0, -2.0], [3.0, 4.0], [100.0, 7.0]))


@pytest.mark.parametrize("dynamic", [None, ["n"]])
@pytest.mark.parametrize("keyword", [False, True])
def test_new_values_are_tried_without_a_capture_and_a_wrong_artifact_is_refused(
    cache: Cache, counted: list[str], monkeypatch: pytest.MonkeyPatch, keyword: bool, dynamic: Any
) -> None:
    wrong = WrongAboveTen(monkeypatch)

    def compiled(x: torch.Tensor) -> None:
        cuvil.compile(Plus(), {"x": x} if keyword else (x,), dynamic_dims=dynamic)

    compiled(_SMALL)
    assert _taken(counted) == ["capture"]
    for x, calls in ((_SMALL.clone(), 0), (_OTHER, 1), (_OTHER, 0), (_SMALL, 0)):
        wrong.calls = 0
        compiled(x)
        assert (wrong.calls, _taken(counted)) == (calls, [])
    for _ in range(2):
        with pytest.raises(VerificationError, match="disagrees with its model"):
            compiled(_LARGE)
        assert _taken(counted) == ["capture"]
    wrong.calls = 0
    compiled(_OTHER)
    assert (wrong.calls, _taken(counted)) == (0, [])


def test_a_model_that_is_found_by_its_graph_is_tried_on_its_example_first(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    WrongAboveTen(monkeypatch)

    def compiled(x: torch.Tensor) -> Any:
        model = Plus()
        model.register_forward_hook(lambda module, args, out: out * 1)  # no quick key
        return cuvil.compile(model, (x,), dynamic_dims=["n"])

    compiled(_SMALL)
    with pytest.raises(VerificationError):
        compiled(torch.cat([_LARGE.new_ones(1000), _LARGE]))


def test_what_only_float64_settles_is_judged_in_full_and_then_known(
    cache: Cache, counted: list[str]
) -> None:
    x = torch.tensor([torch.inf, -1.0, 0.5, 2.0] * 8)
    cuvil.compile(torch.nn.GELU(), (torch.ones_like(x),))
    _taken(counted)
    cuvil.compile(torch.nn.GELU(), (x,))
    cuvil.compile(torch.nn.GELU(), (x,))
    assert len(_taken(counted)) <= 1


def test_values_of_an_onnx_model(cache: Cache, counted: list[str],
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    WrongAboveTen(monkeypatch)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    for x, captures in ((_SMALL, 1), (_SMALL, 0), (_OTHER, 1), (_OTHER, 0), (_SMALL, 0)):
        cuvil.compile(model, {"x": x.numpy()})
        assert len(_taken(counted)) == captures
    with pytest.raises(VerificationError):
        cuvil.compile(model, {"x": _LARGE.numpy()})


def test_complex_examples(cache: Cache, counted: list[str]) -> None:
    for x, captures in ((1 + 1j, 1), (1 + 1j, 0), (2 - 1j, 0)):
        cuvil.compile(Fn(torch.abs), (torch.tensor([x]),))
        assert len(_taken(counted)) == captures


def test_examples_stay_as_they_are_and_unverified_is_as_asked(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    for start in (1.0, 2.0):
        x = torch.full((3,), start)
        cuvil.compile(InPlace(), (x,))
        assert x.tolist() == [start] * 3
    wrong = WrongAboveTen(monkeypatch)
    for x in (_SMALL, _LARGE):
        cuvil.compile(Plus(), (x,), verify=False)
    assert wrong.calls == 0


def test_digests_of_values() -> None:
    a, b = np.ones(2, np.float32), np.zeros(2, np.float32)
    different: list[Any] = [
        None, a, b, (a,), (a, b), (b, a), ((a,), b), {"x": a}, {"y": a}, {"x": a, "y": b},
        {"x": (a, b)}, a.astype(np.float64), a[:1], a[None], (a, 1), (a, 1.0), (a, "1"), -b,
    ]  # fmt: skip
    assert len({values_digest(x) for x in different}) == len(different)
    ones = torch.from_numpy(a)
    assert values_digest((ones, [b])) == values_digest((ones.clone(), (b.copy(),)))
    for dtype in (torch.complex64, torch.bfloat16, torch.bool, torch.float8_e4m3fn):
        x = ones.to(dtype)
        assert values_digest(x) == values_digest(x.clone())
        assert values_digest(x) != values_digest(torch.zeros(2, dtype=dtype))
    assert values_digest(object()) != values_digest(object())


def test_the_oldest_values_are_forgotten(cache: Cache) -> None:
    cache.set_checked("abcd", [f"{i}" for i in range(100)])
    assert cache.checked("abcd") == [f"{i}" for i in range(36, 100)]
    cache.clear()
    assert cache.checked("abcd") == []
