"""How the plan of memory follows the shapes of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cuvil.errors import ArtifactError
from cuvil.ir.signature import size_at

if TYPE_CHECKING:
    from cuvil.runtime.artifact import Artifact


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of one call at the sizes ``symbols``.

    ``peak`` is the arena: all places of intermediates, and what kernels take for themselves;
    ``intermediates`` the sum of all intermediate results, those of a loop's body once; ``outputs``
    what is allocated for the results. Whatever has a size that data decides is in none of them;
    ``late`` says that there is such. ``held`` is the arena that this thread keeps now.
    """

    symbols: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    intermediates: int = 0
    outputs: int = 0
    held: int = 0
    late: bool = False

    @property
    def reuse(self) -> float:
        """Bytes of intermediates a byte of the arena; above 1 where places are used again."""
        return self.intermediates / self.peak if self.peak else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {**asdict(self), "reuse": self.reuse}

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.symbols.items()) or "fixed shapes"
        late = "; sizes that data decides are not in it" if self.late else ""
        return (
            f"{sizes}: peak {self.peak:,} bytes for {self.intermediates:,} of intermediates "
            f"(reuse {self.reuse:.2f}), outputs {self.outputs:,}{late}"
        )


def memory_use(artifact: Artifact, inputs: Mapping[str, Any]) -> MemoryUse:
    """The body of :meth:`cuvil.runtime.artifact.Artifact.memory`."""
    signature = artifact.native.manifest.signature
    text = artifact.native.manifest.extra.get("intermediates")
    if not isinstance(text, (str, int)):
        raise ArtifactError(
            "this artifact does not say how large its intermediates are",
            hint="compile the model again with this version",
        )
    symbols = artifact.symbols_for(inputs)
    outputs = sum(
        math.prod(size_at(d, symbols) or 0 for d in spec.shape) * spec.element.size
        for spec in signature.outputs
        if not signature.is_late(spec)
    )
    return MemoryUse(
        symbols,
        artifact.workspace_bytes(inputs),
        size_at(text, symbols) or 0,
        outputs,
        artifact.native.scratch.arena.size,
        any(symbol.late for symbol in signature.symbols),
    )
