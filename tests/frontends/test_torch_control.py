"""torch.cond, while_loop, scan, map and associative_scan, compiled, against torch itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from functorch.experimental.control_flow import map as torch_map
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop, while_loop_stack_output_op

from cuvil.analysis.wellformed import check_graph
from cuvil.frontends.torch_export import capture_torch
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from tests.codegen.compile_graph import build, outputs_of

Args = tuple[torch.Tensor, ...]


def both(
    function: Any, calls: Sequence[Args], dynamic: Any = None, module: Any = None
) -> Module:
    """The reference and the library against torch on each call; the captured module."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args) if module is None else function(self.inner, *args)

    model = Model().eval()
    captured = capture_torch(model, calls[0], dynamic=dynamic)
    check_graph(captured)
    with build(captured) as artifact:
        for call in calls:
            with torch.no_grad():
                want = model(*[t.clone() for t in call])
            flat = [want] if isinstance(want, torch.Tensor) else list(want)
            inputs = dict(zip(captured.main.input_names, [t.numpy() for t in call], strict=True))
            for got in (run_module(captured, inputs), outputs_of(artifact, captured, inputs)):
                for a, b in zip(got, flat, strict=True):
                    np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-5)
    return captured


def names(module: Module) -> set[str]:
    return {op.name for op in module.main.walk()}


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_cond_with_weights_and_in_place_writes() -> None:
    def forward(linear: Any, x: torch.Tensor) -> Any:
        def yes(x: torch.Tensor) -> Any:
            y = x.clone()
            y.view(-1)[1:].mul_(2)  # seen through y
            return linear(y), y + 1

        return torch.cond(x.sum() > 0, yes, lambda x: (x.sin(), x * 2), (x,))

    x = rand(2, 3).abs()
    module = both(forward, [(x,), (-x,)], module=torch.nn.Linear(3, 3))
    assert "scf.if" in names(module)


def test_cond_on_sizes() -> None:
    def forward(x: torch.Tensor) -> Any:
        return torch.cond(x.shape[0] > 3, lambda x: (x + 1,), lambda x: (x - 1,), (x,))

    calls = [(rand(n, 2),) for n in (4, 2, 3, 7)]
    assert "scf.if" in names(both(forward, calls, [{0: "n"}]))


def test_what_each_trip_of_a_while_loop_gives() -> None:
    def run(k: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop_stack_output_op(
            lambda k, x: k > 0, lambda k, x: (k - 1, x.cos()), (k, x), ()
        )

    x = torch.randn(2, 3)
    both(run, [(torch.tensor(k), x) for k in (3, 1, 0)])


def test_while_loop_runs_as_the_data_says() -> None:
    def forward(steps: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(
            lambda i, x: (i > 0) & (x.abs().sum() < 100),
            lambda i, x: (i - 1, x * 2 + 1),
            (steps, x),
        )

    calls = [(torch.tensor(n), rand(3)) for n in (3, 0, 1, 50)]
    assert "scf.while" in names(both(forward, calls))


@pytest.mark.parametrize("dynamic", [None, [{}, {0: "n"}]])
def test_scan(dynamic: Any) -> None:
    def forward(init: torch.Tensor, xs: torch.Tensor) -> Any:
        return scan(lambda c, x: (c @ x + x, c.clone()), init, xs)

    sizes = (4,) if dynamic is None else (4, 2, 30)
    calls = [(rand(2, 2), rand(n, 2, 2, seed=n) * 0.3) for n in sizes]
    assert dynamic is None or "scf.for" in names(both(forward, calls, dynamic))


def test_nested_map() -> None:
    def forward(xs: torch.Tensor, y: torch.Tensor) -> Any:
        def row(x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch_map(lambda z, y: z.cos().add_(1.0) * y, x, y)

        return torch_map(row, xs, y)

    calls = [(rand(n, 3, 2), rand(2)) for n in (2, 5)]
    both(forward, calls, [{0: "n"}, {}])


def test_associative_scan_of_a_known_length() -> None:
    def forward(xs: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a + b, xs, 0, combine_mode="generic")

    both(forward, [(rand(5, 2),)])


def test_cond_of_different_sizes() -> None:
    def forward(x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x[:2] * 2, lambda x: x[1:] + 1, (x,))
        return y, y.sum(0)

    both(forward, [(sign * rand(5, 2).abs(),) for sign in (1, -1)])


def test_sizes_found_inside_branches_and_trips() -> None:
    def forward(x: torch.Tensor, k: torch.Tensor) -> Any:
        def positive(x: torch.Tensor) -> torch.Tensor:
            return x[x > 0].sum(0, keepdim=True) + x

        y = torch.cond(x.sum() > 0, positive, lambda x: x - 1, (x,))

        def body(k: torch.Tensor, y: torch.Tensor) -> Any:
            return k - 1, y - 0.3 + (y > 0.5).nonzero().sum() * 0.01

        return while_loop(lambda k, y: (k > 0) & (y[y > 0].sum() < 9), body, (k, y))

    both(forward, [(rand(5, seed=s), torch.tensor(k)) for s, k in ((0, 3), (1, 0), (3, 6))])
