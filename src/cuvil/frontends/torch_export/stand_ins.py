"""Functions of torch that fix a symbolic size while tracing, replaced by ones that don't.

Torch derives the shapes of aten.lstm, gru and rnn by running their loops over time, which fixes
the length of the sequence: stand-ins with a shape rule of their own keep it symbolic. max_pool1d
is traced as the max_pool2d that it is. Functions that torch traces by looking at values (cov only
to warn, combinations to select) are kept whole, and a part is picked where its start is data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.frontends.alone import replaced
from cuvil.frontends.torch_export.by_data import one_hot, tensor_split
from cuvil.frontends.torch_export.ctc_loss import CTC, ctc_loss, ctc_losses, ctc_shape
from cuvil.frontends.torch_export.gaussian_loss import gaussian_nll_loss
from cuvil.frontends.torch_export.least_squares import least_squares
from cuvil.frontends.torch_export.places import user_line
from cuvil.frontends.torch_export.size_arguments import (
    INNER,
    LARGEST,
    MEAN,
    largest_shape,
    largest_to,
    mean_shape,
    mean_to,
    routes,
)

NAMESPACE = "cuvil_capture"
_TAIL = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first"
)
_SCHEMAS = {
    "lstm": f"(Tensor input, Tensor[] hx, {_TAIL}) -> (Tensor, Tensor, Tensor)",
    "gru": f"(Tensor input, Tensor hx, {_TAIL}) -> (Tensor, Tensor)",
    "rnn_tanh": f"(Tensor input, Tensor hx, {_TAIL}) -> (Tensor, Tensor)",
    "rnn_relu": f"(Tensor input, Tensor hx, {_TAIL}) -> (Tensor, Tensor)",
}

_WHOLE = {
    "cov": "(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)"
    " -> Tensor",
    "corrcoef": "(Tensor self) -> Tensor",
    "combinations": "(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
}
_PACKED = ("_pack_padded_sequence", "_pad_packed_sequence")
_PART = "narrow_at(Tensor self, int dim, Tensor start, SymInt length) -> Tensor"


def _real(name: str) -> Callable[..., Any]:
    function = getattr(torch._C._VariableFunctions, name)

    def run(*args: Any) -> Any:
        return tuple(function(*args))

    return run


def _shapes(input: torch.Tensor, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """The types of the results: the sequence with all directions' states side by side, and the
    final states, which are shaped like the first ones."""
    states: Sequence[torch.Tensor] = hx if isinstance(hx, (list, tuple)) else [hx]
    directions = 2 if rest[5] else 1
    size = directions * states[0].shape[-1]
    sequence = input.new_empty((*input.shape[:-1], size))
    return (sequence, *(s.new_empty(s.shape) for s in states))


def _covariance_shape(self: torch.Tensor, **options: Any) -> torch.Tensor:
    """The types of cov and corrcoef: a matrix over the rows, a scalar for one variable."""
    dtype = self.dtype if self.dtype.is_floating_point else torch.get_default_dtype()
    weights = options.get("aweights")
    if weights is not None:
        dtype = torch.promote_types(dtype, weights.dtype)
    matrix = self.dim() == 2 and self.shape[0] != 1
    shape = (self.shape[0],) * 2 if matrix else ()
    return self.new_empty(shape, dtype=dtype)


def _combinations_shape(
    self: torch.Tensor, r: int = 2, with_replacement: bool = False
) -> torch.Tensor:
    size = int(self.shape[0])
    count = math.comb(size + r - 1, r) if with_replacement and size else math.comb(size, r)
    return self.new_empty((count, r) if r else (0,))


def _part_shape(self: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    shape = list(self.shape)
    shape[dim] = length
    return self.new_empty(shape)


def _part(self: torch.Tensor, dim: int, start: torch.Tensor, length: int) -> torch.Tensor:
    """A copy, where torch has a view: a write to it is refused."""
    return self.narrow(dim, start, length).clone()


def _register() -> Any:
    make: Any = torch.library.Library
    library = make(NAMESPACE, "DEF")
    for name, schema in _SCHEMAS.items():
        library.define(f"{name}{schema}")
        library.impl(name, _real(name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", _shapes, lib=library)
    for name, schema in _WHOLE.items():
        library.define(f"{name}{schema}")
        library.impl(name, getattr(torch, name), "CompositeExplicitAutograd")
        shape = _combinations_shape if name == "combinations" else _covariance_shape
        torch.library.register_fake(f"{NAMESPACE}::{name}", shape, lib=library)
    library.define(_PART)
    library.impl("narrow_at", _part, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::narrow_at", _part_shape, lib=library)
    library.define(MEAN)
    library.impl("adaptive_mean", mean_to, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::adaptive_mean", mean_shape, lib=library)
    library.define(LARGEST)
    library.impl("adaptive_largest", largest_to, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::adaptive_largest", largest_shape, lib=library)
    library.define(CTC)
    library.impl("ctc_losses", ctc_losses, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::ctc_losses", ctc_shape, lib=library)
    return library


_LIBRARY = _register()


class _KeptWhole(TorchFunctionMode):
    """Calls of torch.cov and the like, as functions or methods, go to their stand-ins."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[Any, Callable[..., Any]] = {
            getattr(place, name): getattr(getattr(torch.ops, NAMESPACE), name)
            for name in _WHOLE
            for place in (torch, torch.Tensor)
            if hasattr(place, name)
        }
        self.routes.update(routes())
        for narrow in (torch.narrow, torch.Tensor.narrow):
            self.routes[narrow] = functools.partial(_narrow, narrow)
        for runs in (torch.functional.unique_consecutive, torch.Tensor.unique_consecutive):
            self.routes[runs] = functools.partial(_from_front, runs)
        self.routes[torch.linalg.lstsq] = least_squares
        self.routes[torch.nn.functional.gaussian_nll_loss] = gaussian_nll_loss
        for loss in (torch.nn.functional.ctc_loss, torch.ctc_loss):
            self.routes[loss] = ctc_loss
        one_hot_of = torch.nn.functional.one_hot
        self.routes[one_hot_of] = functools.partial(one_hot, one_hot_of)
        for split in (torch.tensor_split, torch.Tensor.tensor_split):
            self.routes[split] = functools.partial(tensor_split, split)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.routes.get(func, func)(*args, **(kwargs or {}))


@contextmanager
def symbolic_functions() -> Iterator[None]:
    """Inside, and in this thread, torch.nn's recurrent layers and max_pool1d keep their sizes
    symbolic, and its transformers take masks as they come. Packed sequences are refused."""
    kept = routes()
    recurrent = {name: _routed(name) for name in _SCHEMAS}
    with (
        replaced(torch.nn.functional, {name: kept[function] for name, function in INNER.items()}),
        replaced(torch._VF, recurrent | dict.fromkeys(_PACKED, _refuse_packed)),
        replaced(torch, {"max_pool1d": _max_pool1d}),
        replaced(torch.nn.modules.transformer, {"_detect_is_causal_mask": _causal_as_said}),
        _KeptWhole(),
    ):
        yield


def _causal_as_said(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether a mask is called causal. Torch looks at its values where nobody says so, only to
    choose a faster kernel: the mask itself does the same."""
    return is_causal is True


def _from_front(function: Callable[..., Any], input: torch.Tensor, **options: Any) -> Any:
    """A dim counted from the back, for which torch's own shape rule gives a wrong rank."""
    dim = options.get("dim")
    if dim is not None and dim < 0:
        options["dim"] = dim + max(input.dim(), 1)
    return function(input, **options)


def _narrow(
    function: Callable[..., Any], input: torch.Tensor, dim: int, start: Any, length: int
) -> torch.Tensor:
    """A part whose start is in a tensor is picked by index; torch would read the start."""
    if not isinstance(start, torch.Tensor):
        found: torch.Tensor = function(input, dim, start, length)
        return found
    place = start.reshape(())
    part: torch.Tensor = torch.ops.cuvil_capture.narrow_at(input, dim, place, length)
    return part


def _max_pool1d(
    input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> torch.Tensor:  # fmt: skip
    kernel, step, pad, spread = (
        int(v[0]) if isinstance(v, (list, tuple)) and v else v
        for v in (kernel_size, stride or kernel_size, padding, dilation)
    )
    wide = torch.max_pool2d(
        input.unsqueeze(-2), (1, kernel), (1, step), (0, pad), (1, spread), ceil_mode
    )
    return wide.squeeze(-2)


def packed_sequences(where: str) -> UnsupportedOpError:
    """The refusal of sequences that are packed by their lengths."""
    reason = "the number of rows in each step would be data, which no shape of a program tells"
    hint = "give the layer the padded sequences, and pick or mask the steps by the lengths"
    return UnsupportedOpError([UnsupportedNode("packed sequences", "", where, reason, hint)])


def _refuse_packed(*args: Any) -> Any:
    raise packed_sequences(user_line())


def _routed(name: str) -> Callable[..., Any]:
    stand_in = getattr(getattr(torch.ops, NAMESPACE), name)

    def call(*args: Any) -> Any:
        if not isinstance(args[2], (list, tuple)):
            return _refuse_packed()
        hx = list(args[1]) if isinstance(args[1], (list, tuple)) else args[1]
        return stand_in(args[0], hx, list(args[2]), *args[3:])

    return call
