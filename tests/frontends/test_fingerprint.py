"""A model is known again by all that its capture depends on, and by nothing less."""

from __future__ import annotations

import collections
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.frontends.object_digest import Unknown
from cuvil.frontends.torch_export.fingerprint import fingerprint
from cuvil.sym.dim import Dim

ROOT = Path(__file__).resolve().parents[2]
X = torch.zeros(2, 4)

HELPER = """
import math
SCALE = 2.0
TABLE = {"shift": [1, 2, 3]}
class Inner:
    bias = 0.5
    def apply(self, x): return x + self.bias
def helper(x): return scaled(x) + TABLE["shift"][0]
def scaled(x, by=3): return x * SCALE * math.pi * by
def unused(x): return x
"""
MODEL = """
import torch
import user_helper
from user_helper import Inner
class Net(torch.nn.Module):
    depth = 2
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.inner = Inner()
    def forward(self, x):
        for _ in range(self.depth):
            x = self.linear(x)
        return user_helper.helper(self.inner.apply(x))
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A function that writes the user's two modules, loads them, and gives the digest."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*changes: tuple[str, str], after: Callable[[Any], object] = lambda net: None) -> str:
        for name, text in (("user_helper", HELPER), ("user_model", MODEL)):
            for old, new in changes:
                text = text.replace(old, new)
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        torch.manual_seed(0)
        net = importlib.import_module("user_model").Net()
        after(net)
        return fingerprint(net, (X,), {})

    yield run
    for name in ("user_helper", "user_model"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = self.linear(x)", "x = self.linear(x + 1)"),
        ("range(self.depth)", "range(3)"),
        ("depth = 2", "depth = 3"),
        ("SCALE = 2.0", "SCALE = 2.5"),
        ('"shift": [1,', '"shift": [4,'),
        ("bias = 0.5", "bias = 0.25"),
        ("return x + self.bias", "return x - self.bias"),
        ("by=3", "by=4"),
        ("math.pi", "math.e"),
        ("def unused(x): return x", "def unused(x): return -x"),
        ("Linear(4, 4)", "Linear(4, 4, bias=False)"),
    ],
)
def test_a_change_of_the_users_source_is_seen(
    user: Callable[..., str], old: str, new: str
) -> None:
    assert old in HELPER + MODEL
    first = user()
    assert user((old, new)) != first
    assert user() == first


def test_code_counts_as_it_was_loaded_not_as_the_file_is_now(
    user: Callable[..., str], tmp_path: Path
) -> None:
    def edit(net: object) -> None:
        path = tmp_path / "user_helper.py"
        path.write_text(path.read_text().replace("SCALE = 2.0", "SCALE = 2.5"))

    stale = user(after=edit)
    assert stale not in (user(), user(("SCALE = 2.0", "SCALE = 2.5")))


def test_a_global_changed_while_running_is_seen(user: Callable[..., str]) -> None:
    def change(net: object) -> None:
        sys.modules["user_helper"].TABLE["shift"][0] = 7  # type: ignore[attr-defined]

    assert user(after=change) != user()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))
        self.number = 3
        self.settings: Any = {"names": ("a", "b"), "rates": [0.1, 0.2], "dtype": torch.float32}

    def forward(self, x: torch.Tensor, flag: Any = None) -> torch.Tensor:
        return self.second(self.first(x)) * self.number


def of(net: torch.nn.Module, *args: Any, rest: tuple[Any, ...] = (), **kwargs: Any) -> str:
    return fingerprint(net, args or (X,), kwargs, *rest)


def _tie(net: Net) -> None:
    net.second.weight = net.first.weight


def _untied_copy(net: Net) -> None:
    net.second.weight = torch.nn.Parameter(net.first.weight.detach().clone())


CHANGES: dict[str, Callable[[Net], object]] = {
    "weight": lambda n: n.first.weight.data[0, 0].add_(1e-7),
    "dtype": lambda n: n.double(),
    "buffer": lambda n: n.table[0, 0].add_(1),
    "layout": lambda n: setattr(n, "table", n.table.t().contiguous().t()),
    "tied": _tie,
    "same values": _untied_copy,
    "int": lambda n: setattr(n, "number", 4),
    "int to float": lambda n: setattr(n, "number", 3.0),
    "int to bool": lambda n: setattr(n, "number", True),
    "zero sign": lambda n: setattr(n, "number", -0.0),
    "nested": lambda n: n.settings["rates"].append(0.3),
    "tuple to list": lambda n: n.settings.update(names=["a", "b"]),
    "torch dtype": lambda n: n.settings.update(dtype=torch.float16),
    "dict order": lambda n: setattr(n, "settings", dict(reversed(n.settings.items()))),
    "dict kind": lambda n: setattr(n, "settings", collections.OrderedDict(n.settings)),
    "array": lambda n: n.settings.update(rates=np.array([0.1, 0.2])),
    "function": lambda n: n.settings.update(rates=lambda x: x + 1),
    "child": lambda n: setattr(n, "second", torch.nn.Identity()),
    "child's number": lambda n: setattr(n.first, "out_features", 5),
    "new child": lambda n: setattr(n, "third", torch.nn.ReLU()),
    "requires_grad": lambda n: n.first.weight.requires_grad_(False),
    "hidden attribute of a weight": lambda n: setattr(n.first.weight, "scale", 2),
}


def test_changes_of_a_model_give_different_digests() -> None:
    found = {"": of(Net())}
    for name, change in CHANGES.items():
        net = Net()
        change(net)
        found[name] = of(net)
        assert of(net) == found[name], name
    found["zero"] = of(_with_number(0.0))
    found["lambda"] = of(_with_number(lambda x: x + 2))
    found["closure 1"] = of(_with_number(_closure(1)))
    found["closure 2"] = of(_with_number(_closure(2)))
    same = {v: [k for k, w in found.items() if w == v] for v in found.values()}
    assert [names for names in same.values() if len(names) > 1] == []


def _with_number(value: Any) -> Net:
    net = Net()
    net.number = value
    return net


def _closure(by: int) -> Callable[[float], float]:
    return lambda x: x * by


def test_the_same_model_again_gives_the_same_digest() -> None:
    net = Net()
    first = of(net)
    net(X)
    assert of(net) == first == of(Net()) == of(Net(), torch.ones(2, 4))


def test_examples_enter_with_everything_but_their_data() -> None:
    net = Net()
    cases = [
        of(net), of(net, torch.zeros(3, 4)), of(net, torch.zeros(2, 4, 1)),
        of(net, X.double()), of(net, torch.zeros(4, 2).t()), of(net, X.numpy()),
        of(net, torch.zeros(2, 4, requires_grad=True)), of(net, X, 1), of(net, X, True),
        of(net, X, 2), of(net, X, "2"), of(net, X, None), of(net, X, X),
        of(net, X, torch.zeros(2, 4)), of(net, (X,)), of(net, [X]), of(net, {"x": X}),
        of(net, {"y": X}), of(net, x=X), fingerprint(net, (), {"x": X}),
        fingerprint(net, (), {"y": X}),
    ]  # fmt: skip
    assert len(set(cases)) == len(cases)


def test_the_request_enters_whole() -> None:
    net = Net()
    rests: list[Any] = [
        None, ["batch"], ["n"], {"x": {0: "batch"}}, {"x": {1: "batch"}}, {"x": {0: Dim("batch")}},
        {"x": {0: Dim("batch", min=1)}}, {"x": {0: Dim("batch", min=1, max=8)}},
        {"x": {0: torch.export.Dim("batch", max=8)}}, {"x": {0: torch.export.Dim.AUTO}},
        ("batch % 8 == 0",), ("batch % 4 == 0",),
    ]  # fmt: skip
    cases = [of(net, rest=(rest,)) for rest in rests]
    assert len(set(cases)) == len(cases)


def _refused(text: str, net: Any, *args: Any) -> None:
    with pytest.raises(Unknown, match=text):
        fingerprint(net, args or (X,), {})


class Subclassed(torch.Tensor):
    pass


def test_what_cannot_be_told_is_refused() -> None:
    hooked = Net()
    hooked.first.register_forward_hook(lambda m, a, out: out * 2)
    _refused("first.*forward_hooks", hooked)
    replaced = Net()
    replaced.first.forward = lambda x: x * 2  # type: ignore[method-assign]
    _refused("forward was replaced", replaced)
    with open(os.devnull) as file:
        for value in (threading.Lock(), file, iter([1]), np.random.default_rng(0)):
            _refused("number: a .* has state of its own", _with_number(value))
    _refused("Subclassed", _with_number(torch.zeros(2).as_subclass(Subclassed)))
    _refused("sparse", _with_number(torch.zeros(2, 2).to_sparse()))
    _refused("a tensor on meta", _with_number(torch.zeros(2, device="meta")))
    _refused("holds a program of its own", torch.jit.trace(Net(), X))
    _refused("holds a program of its own", torch.fx.symbolic_trace(torch.nn.Sequential(Net())))
    with torch.device("meta"):
        _refused("a mode that changes", Net)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, a, out: None)
    try:
        _refused("hooks on all modules", Net())
    finally:
        handle.remove()
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    _refused("nested too deeply", _with_number(deep))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x = x + len(os.environ)", "uses environ"),
        ("x = x + len(os.getcwd())", "code uses os"),
        ("x = x + random.random()", "code uses random"),
        ("x = x + now()", "code uses time"),
        ("x = x + len(open('f').read())", "calls open"),
        ("import math; x = x + math.pi", "imports math when it runs"),
        ("x = x + eval('1')", "calls eval"),
        ("x = x + np.load('f')", "uses load"),
        ("x = x + draw()", "code uses random"),
    ],
)
def test_code_that_depends_on_the_world_is_refused(
    user: Callable[..., str], line: str, reason: str
) -> None:
    imports = "import os, random, numpy as np\nfrom time import time as now\ndraw = random.gauss\n"
    with pytest.raises(Unknown, match=reason):
        user(("import torch", f"{imports}import torch"), ("x = self.linear(x)", line))


def test_patches_of_installed_code_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
    found = {of(net)}
    for place, name, patch in (
        (torch.nn.Linear, "forward", lambda self, x: x),
        (torch.nn.Linear, "forward", lambda self, x: x + 1),
        (torch.nn.functional, "gelu", lambda x, approximate="none": x),
        (torch.Tensor, "view_as", lambda self, other: self),
        (torch.nn.GELU, "forward", torch.nn.SiLU.forward),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, patch)
            digest = of(net)
            assert digest not in found, name
            found.add(digest)
    assert of(net) in found


def test_settings_of_the_process_are_seen() -> None:
    net = Net()
    first = of(net)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert of(net) != first
    torch.set_default_dtype(torch.float64)
    try:
        assert of(net) != first
    finally:
        torch.set_default_dtype(torch.float32)
    assert of(net) == first


def test_a_registered_attention_function_is_seen() -> None:
    from transformers import BertConfig, BertModel
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    config = BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        vocab_size=16,
    )  # fmt: skip
    model = BertModel(config)
    first = of(model)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    ALL_ATTENTION_FUNCTIONS["sdpa"] = lambda *args, **kwargs: before(*args, **kwargs)
    try:
        assert of(model) != first
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before
    model.config.hidden_act = "relu"
    assert of(model) != first


def test_other_processes_give_the_same_digest(tmp_path: Path) -> None:
    (tmp_path / "user_helper.py").write_text(HELPER)
    (tmp_path / "user_model.py").write_text(MODEL)
    program = """
import torch, user_model
from cuvil.frontends.torch_export.fingerprint import fingerprint
torch.manual_seed(0)
print(fingerprint(user_model.Net(), (torch.zeros(2, 4),), {}, {"a": {"b", "c", "d"}}))
"""
    found = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"}
        command = [sys.executable, "-c", program]
        found.add(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    assert len(found) == 1 and len(found.pop()) == 65
