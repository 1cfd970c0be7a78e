"""Sample calls from torch's operator database (``op_db``), as functions of flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tools.opinfo.forms import FORMS, Function

DTYPES = (torch.float32, torch.int64, torch.bool)
# Draw random numbers: only what they give in shape and dtype could be compared.
RANDOM = (
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu", "svd_lowrank", "pca_lowrank", "torch.ops.aten._efficient_attention",
    "torch.ops.aten._flash_attention",
)  # fmt: skip
# What they leave in memory is anything: shape and dtype are compared, no values.
UNFILLED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
            "new_empty_strided", "resize_", "resize_as_")  # fmt: skip
# Decompositions that are not unique: the database's own function of the results is compared.
NOT_UNIQUE = ("svd", "linalg.svd", "linalg.eigh", "linalg.eig")
_OUTSIDE = {
    "sparse": "sparse tensors",
    "to_sparse": "sparse tensors",
    "jiterator": "CUDA only",
    "torch.ops.aten._flash_attention": "CUDA only",
    "torch.ops.aten._efficient_attention": "CUDA only",
}


@dataclass(frozen=True)
class Sample:
    """One call: ``run(tensors)`` gives its output tensors, complex ones as real pairs."""

    operator: str
    dtype: str
    index: int
    function: Callable[..., Any]
    tensors: Sequence[torch.Tensor]
    leaves: Sequence[Any]
    spec: Any

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The output tensors of the call with these tensors in place of its own."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        value, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        found = pytree.tree_leaves(self.function(value, *args, **kwargs))
        return [_real(x) for x in found if isinstance(x, torch.Tensor)]

    def arguments(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """(input, further arguments, keyword arguments) of the call."""
        value, args, kwargs = pytree.tree_unflatten(list(self.leaves), self.spec)
        return value, args, kwargs

    def __str__(self) -> str:
        shown = [_short(x) for x in self.leaves]
        return f"{self.operator}[{self.dtype}, {self.index}]({', '.join(shown)})"


def _short(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    return repr(leaf)[:40]


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def full_name(info: Any) -> str:
    """The operator's name with its variant: ``div.floor_rounding``."""
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else str(info.name)


def operators() -> dict[str, Any]:
    """Every entry of the database by full name, in its order."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {full_name(info): info for info in op_db}


def outside(name: str) -> str:
    """Why an operator is none of inference over dense tensors, or ""."""
    plain = name.removeprefix("torch.ops.aten.")
    if plain in RANDOM or name in RANDOM or name.split(".")[0] in RANDOM:
        return "draws random numbers"
    for prefix, reason in _OUTSIDE.items():
        if name == prefix or name.startswith((f"{prefix}.", f"{prefix}_")):
            return reason
    return "a gradient" if "_backward" in name else ""


def samples(
    info: Any, most: int | None = None, form: str = "function", more: bool = False
) -> Iterator[Sample]:
    """The calls of an operator in each of DTYPES that it takes; at most ``most`` a dtype, spread
    over all of them. ``form`` is one of FORMS; ``more`` takes torch's longer list of samples."""
    function = FORMS[form](info)
    if function is None:
        return
    make = info.reference_inputs if more else info.sample_inputs
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        made = list(make("cpu", dtype, requires_grad=False))
        step = 1 if most is None or len(made) <= most else len(made) / most
        picks = sorted({int(i * step) for i in range(int(len(made) / step))})
        for index in picks:
            yield _sample(info, function, dtype, index, made[index])


def _sample(
    info: Any, function: Function, dtype: torch.dtype, index: int, made: Any
) -> Sample:
    leaves, spec = pytree.tree_flatten((made.input, tuple(made.args), dict(made.kwargs)))
    leaves = [x.detach() if isinstance(x, torch.Tensor) else x for x in leaves]
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    name = str(dtype).removeprefix("torch.")
    if info.name in NOT_UNIQUE and made.output_process_fn_grad is not None:
        function = _then(function, made.output_process_fn_grad)
    return Sample(full_name(info), name, index, function, tensors, leaves, spec)


def _then(function: Callable[..., Any], last: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: last(function(*args, **kwargs))


def why_skipped(sample: Sample) -> str:
    """Why a call is not tried: inputs of a kind that no artifact takes."""
    for tensor in sample.tensors:
        if tensor.is_complex():
            return "complex inputs"
        if tensor.layout != torch.strided or tensor.is_quantized:
            return f"inputs of layout {tensor.layout}"
    return ""
