"""Tensors that record what is done to them: what a composition is written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, DTYPES, DType, Shape, dtype_of
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim

Operand = Union["Tensor", float, int, bool, np.ndarray]


class Tensor:
    """A tensor of the graph under construction, with NumPy's operators and some functions.

    Shapes may be symbolic. Operands broadcast; Python numbers take the tensor's dtype, and two
    tensors must have one dtype (``astype`` converts). ``op(name, *tensors, **attrs)`` reaches every
    operator of the table in docs/ops.md.
    """

    __array_priority__ = 1000  # numpy leaves ``array * tensor`` to __rmul__

    def __init__(self, emitter: Emitter, value: Value) -> None:
        self._e = emitter
        self.value = value

    @property
    def shape(self) -> Shape:
        """Integers, or expressions over symbols."""
        return self.value.type.shape

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    @property
    def ndim(self) -> int:
        return self.value.type.rank

    def op(self, name: str, *others: Operand, **attrs: Any) -> Tensor:
        """The only result of ``cuvil.<name>`` on this tensor and others, as they are."""
        values = [self.value, *(self._value(x) for x in others)]
        return Tensor(self._e, self._e.op(name, *values, **attrs))

    def map(self, name: str, *others: Operand) -> Tensor:
        """An elementwise operator, operands broadcast."""
        values = [self.value, *(self._value(x) for x in others)]
        return Tensor(self._e, self._e.map(name, *values))

    def constant(self, array: Any) -> Tensor:
        """A constant of the model."""
        return Tensor(self._e, self._e.weight(np.asarray(array)))

    def _value(self, item: Operand) -> Value:
        if isinstance(item, Tensor):
            return item.value
        if isinstance(item, np.ndarray):
            return self._e.weight(item)
        if isinstance(item, (bool, int, float, np.generic)):
            if not self.dtype.is_float and isinstance(item, float) and not item.is_integer():
                raise InvalidModelError(
                    f"{item} with a tensor of {self.dtype}", hint="convert it with astype first"
                )
            return self._e.scalar(item, self.dtype)
        raise InvalidModelError(f"{item!r} is no tensor and no number")

    def _swapped(self, name: str, other: Operand) -> Tensor:
        return Tensor(self._e, self._e.map(name, self._value(other), self.value))

    def __add__(self, other: Operand) -> Tensor:
        return self.map("add", other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Tensor:
        return self.map("sub", other)

    def __rsub__(self, other: Operand) -> Tensor:
        return self._swapped("sub", other)

    def __mul__(self, other: Operand) -> Tensor:
        return self.map("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        return self.map("div", other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._swapped("div", other)

    def __pow__(self, other: Operand) -> Tensor:
        return self.map("pow", other)

    def __neg__(self) -> Tensor:
        return self.map("neg")

    def __abs__(self) -> Tensor:
        return self.map("abs")

    def __lt__(self, other: Operand) -> Tensor:
        return self.map("lt", other)

    def __le__(self, other: Operand) -> Tensor:
        return self.map("le", other)

    def __gt__(self, other: Operand) -> Tensor:
        return self.map("gt", other)

    def __ge__(self, other: Operand) -> Tensor:
        return self.map("ge", other)

    def equal(self, other: Operand) -> Tensor:
        """Elementwise ==."""
        return self.map("eq", other)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.op("matmul", other)

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        """``exp()``, ``tanh()`` ...: the elementwise operators of one operand."""
        definition = registry().get(f"cuvil.{name}")
        if definition is None or definition.fusion != "map" or definition.operands != (1, 1):
            raise AttributeError(f"a tensor has no {name!r}; op(name, ...) reaches all operators")
        return lambda: self.map(name)

    def maximum(self, other: Operand) -> Tensor:
        return self.map("max", other)

    def minimum(self, other: Operand) -> Tensor:
        return self.map("min", other)

    def where(self, yes: Operand, no: Operand) -> Tensor:
        """``yes`` where this bool tensor is true, else ``no``; one of them is a tensor."""
        if self.dtype != BOOL:
            raise InvalidModelError(f"where needs a bool tensor, not {self.dtype}")
        like = yes if isinstance(yes, Tensor) else no
        if not isinstance(like, Tensor):
            raise InvalidModelError("where needs a tensor among its two values")
        values = [self.value, like._value(yes), like._value(no)]
        return Tensor(self._e, self._e.map("select", *values))

    def astype(self, dtype: Any) -> Tensor:
        """Cast: a NumPy dtype, or a name such as "f32"."""
        wanted = DTYPES[dtype] if isinstance(dtype, str) and dtype in DTYPES else dtype_of(dtype)
        return Tensor(self._e, self._e.cast(self.value, wanted))

    def reshape(self, *shape: Dim) -> Tensor:
        return Tensor(self._e, self._e.reshape(self.value, shape))

    def transpose(self, *perm: int) -> Tensor:
        return Tensor(self._e, self._e.transpose(self.value, perm or range(self.ndim)[::-1]))

    def broadcast_to(self, *shape: Dim) -> Tensor:
        return Tensor(self._e, self._e.broadcast(self.value, tuple(shape)))

    def _reduce(self, name: str, axis: int | Sequence[int] | None, keepdims: bool) -> Tensor:
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        attrs = {"axes": tuple(a % max(self.ndim, 1) for a in axes), "keepdims": keepdims}
        return Tensor(self._e, self._e.op(name, self.value, **attrs))

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("reduce_sum", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("reduce_mean", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("reduce_max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("reduce_min", axis, keepdims)

