"""One node of the program as its rule sees it: arguments by name, and what torch says it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from cuvil.frontends.torch_export.emit import TorchEmitter
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable
from cuvil.frontends.torch_export.weights import dtype_from_torch
from cuvil.ir.core import Value
from cuvil.ir.types import BF16, F16, F32, DType, Shape
from cuvil.sym.expr import Dim, Expr


class Refused(Exception):
    """A rule can't translate this node; the message says why."""


class Final(Refused):
    """Neither can torch's decomposition of the node, whose results are others."""


@dataclass
class Call:
    """A call of an ATen operator.

    ``args`` holds each schema argument by name: a Value, a number, a dim, a list of those, None.
    ``metas`` are torch's fake results in order (None where there is none). A ``wide`` call has
    f32 for each 16-bit float, among the arguments and in what it says of dtypes.
    """

    e: TorchEmitter
    name: str
    overload: str
    args: Mapping[str, Any]
    arg_metas: Mapping[str, Any]
    metas: Sequence[Any]
    symbols: TorchSymbols
    tuple_result: bool = False
    wide: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or the default where the schema hasn't it or it is None."""
        value = self.args.get(name)
        return default if value is None else value

    @property
    def first(self) -> Value:
        """The first argument, a tensor."""
        return self.tensor(next(iter(self.args)))

    def tensor(self, name: str) -> Value:
        """A tensor argument."""
        value = self.args[name]
        if not isinstance(value, Value):
            raise Refused(f"{name} is not a tensor")
        return value

    def tensor_or_none(self, name: str) -> Value | None:
        """A tensor argument that may be missing."""
        value = self.args.get(name)
        return value if isinstance(value, Value) else None

    def number(self, name: str) -> Any:
        """A Python number known at compile time."""
        value = self.args[name]
        if isinstance(value, (Value, Expr)):
            raise Refused(f"{name} must be known at compile time")
        return value

    def unknown_numbers(self) -> str:
        """The names of the arguments that torch takes as numbers and that only a call will know."""
        return ", ".join(
            name for name, item in self.args.items()
            if isinstance(item, (Value, Expr))
            and not isinstance(self.arg_metas[name], torch.Tensor)
        )  # fmt: skip

    def as_value(self, item: Any, dtype: DType) -> Value:
        """A tensor, number or dim as a Value of this dtype."""
        if isinstance(item, Value):
            return self.e.cast(item, dtype)
        if isinstance(item, Expr):
            return self.e.cast(self.e.dims([item], scalar=True), dtype)
        return self.e.scalar(item, dtype)

    def dtype_of(self, index: int = 0) -> DType:
        """The element type torch gives to a result."""
        return self._widened(dtype_from_torch(self.metas[index].dtype))

    def _widened(self, dtype: DType) -> DType:
        return F32 if self.wide and dtype in (F16, BF16) else dtype

    @property
    def dtype(self) -> DType:
        return self.dtype_of(0)

    def shape_of(self, index: int = 0) -> Shape:
        """The shape torch gives to a result. Raises Refused where it can't be expressed."""
        try:
            return self.symbols.shape(self.metas[index].shape)
        except Untranslatable as error:
            raise Refused(f"the size of its result depends on data: {error}") from None

    @property
    def shape(self) -> Shape:
        return self.shape_of(0)

    def promoted(self, *names: str) -> DType:
        """The dtype torch computes these operands in (numbers don't widen a tensor's kind)."""
        operands = [self.arg_metas[n] for n in names]
        tensors = [o for o in operands if isinstance(o, torch.Tensor)]
        if not tensors:
            return self.dtype
        result = tensors[0].dtype
        if len(operands) == 2:
            joined = torch.result_type(*(_plain(o) for o in operands))
            return self._widened(dtype_from_torch(joined))
        for other in tensors[1:]:
            result = torch.promote_types(result, other.dtype)
        return self._widened(dtype_from_torch(result))

    def ints(self, name: str) -> list[int]:
        """A list of known integers; a single one is a list of one."""
        value = self.args[name]
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(i, int) for i in items):
            raise Refused(f"{name} must be known integers")
        return [int(i) for i in items]

    def dims(self, name: str) -> list[Dim]:
        """A list of dims."""
        value = self.args[name]
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(i, Value) for i in items):
            raise Refused(f"{name} depends on data")
        return items

    def axis(self, name: str = "dim", rank: int | None = None) -> int:
        """A dimension argument as 0..rank-1 of the first operand."""
        rank = self.first.type.rank if rank is None else rank
        return int(self.number(name)) % max(rank, 1)

    def axes(self, name: str = "dim") -> list[int]:
        """A list of dimensions as 0..rank-1; None or an empty list means all."""
        rank = self.first.type.rank
        value = self.args.get(name)
        if value is None or (isinstance(value, (list, tuple)) and not value):
            return list(range(rank))
        return sorted({i % max(rank, 1) for i in self.ints(name)}) if rank else []


def _plain(operand: Any) -> Any:
    """A fake tensor or number without symbols, as torch.result_type wants them."""
    if isinstance(operand, torch.Tensor):
        shape = (1,) * operand.dim()
        return torch.empty(shape, dtype=operand.dtype, device="meta")
    if isinstance(operand, torch.SymInt):
        return 1
    return 1.0 if isinstance(operand, torch.SymFloat) else operand


Result = Any  # a Value, or a list of Values (None for one that nobody may use)
Rule = Callable[[Call], Result]
