"""An emitter that reads a broadcast as torch does when a symbolic dim may be 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.torch_export.symbols import plain_bound, tighten
from cuvil.frontends.torch_export.weights import saturates
from cuvil.ir.core import Value
from cuvil.ir.types import F8E8M0, NARROW_FLOATS, DType, Shape
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, evaluate


@dataclass(frozen=True)
class Codes:
    """An f32 value is ``(codes - zero) * scale``. ``scale`` is f32 and ``zero`` i32, None where it
    is 0; both are of rank 0, or have one element an index along ``axis``."""

    codes: Value
    scale: Value
    zero: Value | None
    axis: int | None = None


class TorchEmitter(Emitter):
    """``sizes`` are those of the trace. A dim such as ``min(1, n)`` (from ``x[:1]``) that was 1
    in the trace and meets a larger one is required to be 1; it may be empty otherwise."""

    def __init__(
        self, symbols: dict[str, tuple[int, int | None]], sizes: Mapping[str, int]
    ) -> None:
        super().__init__(symbols)
        self.sizes = sizes
        self.codes: dict[Value, Codes] = {}  # what values were dequantized from
        self.as_given: dict[Value, Value] = {}  # values of another type than torch says

    def traced_size(self, dim: Dim) -> int | None:
        """The size a dim had in the trace; None where it depends on data."""
        try:
            return evaluate(dim, self.sizes)
        except KeyError:
            return None

    def cast(self, value: Value, dtype: DType) -> Value:
        """As torch rounds to 8-bit floats: by table, not all of them saturate."""
        if dtype not in NARROW_FLOATS or value.type.dtype == dtype:
            return super().cast(value, dtype)
        if dtype == F8E8M0:
            raise InvalidModelError(f"casts to {dtype} are not supported", where=str(self.loc))
        return self.op("cast", value, dtype=dtype, saturate=saturates(dtype))

    def map(self, name: str, *operands: Value, **attrs: object) -> Value:
        rank = max((v.type.rank for v in operands), default=0)
        target = [
            max((self.traced_size(d) or 0 for d in self._column(operands, rank, axis)), default=0)
            for axis in range(rank)
        ]
        fitted = [self._fit(v, target) for v in operands]
        return super().map(name, *fitted, **attrs)

    def broadcast(self, value: Value, shape: Shape) -> Value:
        return super().broadcast(self._fit(value, [self.traced_size(d) or 0 for d in shape]), shape)

    @staticmethod
    def _column(operands: tuple[Value, ...], rank: int, axis: int) -> list[Dim]:
        places = ((v, axis - rank + v.type.rank) for v in operands)
        return [v.type.shape[at] for v, at in places if at >= 0]

    def _fit(self, value: Value, target: list[int]) -> Value:
        """The value with each symbolic dim that was 1 and must grow made a known 1."""
        shape = list(value.type.shape)
        for at, dim in enumerate(shape):
            wanted = target[at - len(shape) + len(target)]
            if isinstance(dim, Expr) and self.traced_size(dim) == 1 and wanted > 1:
                rule = plain_bound(Constraint(dim, "==", 1, f"a broadcast in {self.loc}"))
                self.context.require(rule.left, rule.relation, rule.right, rule.origin)
                tighten(self.context.symbols, rule)
                shape[at] = 1
        return self.reshape(value, shape)
