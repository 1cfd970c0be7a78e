"""torch's own samples of operators that hold graphs (hop_db): right, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.hop_db import hop_db
from torch.utils import _pytree as pytree

from cuvil.errors import CuvilError
from cuvil.frontends.torch_export import capture_torch
from cuvil.reference.interpreter import run_module

RIGHT = {
    ("cond", "simple"), ("while_loop", "simple"), ("scan", "simple"), ("map", "simple"),
    ("map", "nested"), ("map", "triple_nested"), ("invoke_subgraph", "simple"),
    ("invoke_quant_packed", "simple"), ("while_loop_stack_output", "simple"),
}  # fmt: skip
# Run in training or on other devices, or for operators that write to what they are given.
REFUSED = {
    ("invoke_quant", "simple"), ("register_hook", "simple"), ("auto_functionalize", "simple"),
}  # fmt: skip
ENTRIES = [op for op in hop_db if torch.float32 in op.supported_dtypes("cpu")]


class _Sample(torch.nn.Module):
    """An operator with the sample's tensors as inputs, everything else as it is."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(self.leaves[i].detach() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.form)
        return self.op(first, *args, **kwargs)


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda op: f"{op.name}-{op.variant_test_name}"
)
def test_samples_are_right_or_refused(entry: Any) -> None:
    key = (entry.name, entry.variant_test_name)
    assert (key in RIGHT) != (key in REFUSED), key
    for sample in entry.sample_inputs("cpu", torch.float32, requires_grad=False):
        model = _Sample(entry.op, sample)
        inputs = model.tensors
        if key in REFUSED:
            with pytest.raises(CuvilError):
                capture_torch(model, inputs)
            continue
        want = [t for t in pytree.tree_leaves(model(*inputs)) if isinstance(t, torch.Tensor)]
        module = capture_torch(model, inputs)
        arrays = dict(zip(module.main.input_names, [t.numpy() for t in inputs], strict=True))
        for got, expected in zip(run_module(module, arrays), want, strict=True):
            np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
