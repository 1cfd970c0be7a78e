"""Tensors that record what is done to them: what a composition is written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.formula import Operand, Term
from cuvil.ir.types import BOOL, DTYPES, Shape, dtype_of
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim

Same = TypeVar("Same", bound="Tensor")


@dataclass(frozen=True, eq=False)
class Tensor(Term):
    """A tensor of the graph under construction, with NumPy's operators and some functions.

    Shapes may be symbolic. Operands broadcast; numbers and arrays become constants, numbers of
    the tensor's dtype, and two tensors must have one dtype (``astype`` converts).
    ``op(name, *tensors, **attrs)`` reaches every operator of the table in docs/ops.md.
    """

    __array_priority__ = 1000  # numpy leaves ``array * tensor`` to __rmul__

    @property
    def shape(self) -> Shape:
        """Integers, or expressions over symbols."""
        return self.value.type.shape

    @property
    def ndim(self) -> int:
        return self.value.type.rank

    def op(self: Same, name: str, *others: Operand, **attrs: Any) -> Same:
        """The only result of ``cuvil.<name>`` on this tensor and others, as they are."""
        values = [self.value, *(self.lift(x).value for x in others)]
        return self.of(self.e.op(name, *values, **attrs))

    def constant(self: Same, array: Any) -> Same:
        """A constant of the model."""
        return self.of(self.e.weight(np.asarray(array)))

    def lift(self: Same, other: Any) -> Same:
        """Raises InvalidModelError for what is no tensor, array or number of this dtype."""
        if isinstance(other, np.ndarray):
            return self.constant(other)
        if isinstance(other, float) and not self.dtype.is_float and not other.is_integer():
            raise InvalidModelError(
                f"{other} with a tensor of {self.dtype}", hint="convert it with astype first"
            )
        if not isinstance(other, (Term, bool, int, float, np.generic)):
            raise InvalidModelError(f"{other!r} is no tensor and no number")
        return super().lift(other)  # type: ignore[arg-type]

    def where(self: Same, yes: Operand, no: Operand) -> Same:
        """``yes`` where this bool tensor is true, else ``no``; one of them is a tensor."""
        if self.dtype != BOOL:
            raise InvalidModelError(f"where needs a bool tensor, not {self.dtype}")
        if not isinstance(yes, Term) and not isinstance(no, Term):
            raise InvalidModelError("where needs a tensor among its two values")
        return super().where(yes, no)

    def __pow__(self: Same, other: Operand) -> Same:
        return self.map("pow", other)

    def __matmul__(self: Same, other: Tensor) -> Same:
        return self.op("matmul", other)

    def __getattr__(self: Same, name: str) -> Callable[..., Same]:
        """``exp()``, ``tanh()`` ...: the elementwise operators of one operand."""
        definition = registry().get(f"cuvil.{name}")
        if definition is None or definition.fusion != "map" or definition.operands != (1, 1):
            raise AttributeError(f"a tensor has no {name!r}; op(name, ...) reaches all operators")
        return lambda: self.map(name)

    def maximum(self: Same, other: Operand) -> Same:
        return self.map("max", other)

    def minimum(self: Same, other: Operand) -> Same:
        return self.map("min", other)

    def astype(self: Same, dtype: Any) -> Same:
        """Cast: a NumPy dtype, or a name such as "f32"."""
        named = isinstance(dtype, str) and dtype in DTYPES
        return self.cast(DTYPES[dtype] if named else dtype_of(dtype))

    def reshape(self: Same, *shape: Dim) -> Same:
        return self.of(self.e.reshape(self.value, shape))

    def transpose(self: Same, *perm: int) -> Same:
        return self.of(self.e.transpose(self.value, perm or range(self.ndim)[::-1]))

    def broadcast_to(self: Same, *shape: Dim) -> Same:
        return self.of(self.e.broadcast(self.value, tuple(shape)))

    def _reduce(self: Same, name: str, axis: int | Sequence[int] | None, keepdims: bool) -> Same:
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        attrs = {"axes": tuple(a % max(self.ndim, 1) for a in axes), "keepdims": keepdims}
        return self.of(self.e.op(name, self.value, **attrs))

    def sum(self: Same, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Same:
        return self._reduce("reduce_sum", axis, keepdims)

    def mean(self: Same, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Same:
        return self._reduce("reduce_mean", axis, keepdims)

    def max(self: Same, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Same:
        return self._reduce("reduce_max", axis, keepdims)

    def min(self: Same, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Same:
        return self._reduce("reduce_min", axis, keepdims)
