"""The user's named dimension."""

from __future__ import annotations

from dataclasses import dataclass

from cuvil.errors import InputError
from cuvil.errors.arguments import whole
from cuvil.errors.words import shown


@dataclass(frozen=True)
class Dim:
    """A named dimension with bounds, ``cuvil.Dim("seq", min=1, max=512)``; both ends included."""

    name: str
    min: int = 0
    max: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InputError(f"a dimension needs a name like 'batch', not {shown(self.name)}")
        whole()(f"min of Dim({self.name!r})", self.min)
        whole().optional(f"max of Dim({self.name!r})", self.max)
        if self.min < 0 or (self.max is not None and self.max < self.min):
            bounds = f"{self.min}..{self.max}"
            raise InputError(
                f"Dim({self.name!r}): need 0 <= min <= max, got {bounds}",
                hint="both ends are included; leave max out for no upper end",
            )

    def __str__(self) -> str:
        low = f", min={self.min}" if self.min else ""
        high = "" if self.max is None else f", max={self.max}"
        return f"Dim({self.name!r}{low}{high})"
