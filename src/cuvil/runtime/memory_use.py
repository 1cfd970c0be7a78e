"""How the plan of memory follows the shapes of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cuvil.errors import ArtifactError
from cuvil.ir.signature import size_at
from cuvil.package.manifest import Manifest

if TYPE_CHECKING:
    from cuvil.runtime.artifact import Artifact


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of one call at the sizes ``symbols``.

    ``peak`` is the arena: the ``places`` of all intermediates, and what kernels take for
    themselves; ``intermediates`` the sum of all intermediate results, those of a loop's body once;
    ``outputs`` what is allocated for the results. Whatever has a size that data decides is in none
    of them; ``late`` says that there is such. ``held`` is the arena that this thread keeps now.
    """

    symbols: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    places: int = 0
    intermediates: int = 0
    outputs: int = 0
    held: int = 0
    late: bool = False

    @property
    def reuse(self) -> float:
        """Bytes of intermediates a byte of the arena; above 1 where places are used again."""
        return self.intermediates / self.peak if self.peak else 1.0

    @property
    def saved(self) -> int:
        """Bytes that the places save by holding one intermediate after another; a place is rounded
        up to the alignment, so that it may be larger than the one that it holds."""
        return max(0, self.intermediates - self.places)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {**asdict(self), "saved": self.saved, "reuse": self.reuse}

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.symbols.items()) or "fixed shapes"
        late = "; sizes that data decides are not in it" if self.late else ""
        return (
            f"{sizes}: peak {self.peak:,} bytes for {self.intermediates:,} of intermediates "
            f"(reuse {self.reuse:.2f}), outputs {self.outputs:,}{late}"
        )


def memory_use(artifact: Artifact, inputs: Mapping[str, Any]) -> MemoryUse:
    """The body of :meth:`cuvil.runtime.artifact.Artifact.memory`."""
    native = artifact.native
    planned = planned_use(native.manifest, artifact.symbols_for(inputs), artifact.threads)
    return replace(
        planned, peak=artifact.workspace_bytes(inputs), held=native.scratch.arena.size
    )


def planned_use(manifest: Manifest, symbols: Mapping[str, int], threads: int) -> MemoryUse:
    """The same, of what the manifest says alone: nothing is loaded, and nothing held. Raises
    ArtifactError for a package of an earlier version, which does not say."""
    signature = manifest.signature
    text, space = manifest.extra.get("intermediates"), manifest.extra.get("workspace")
    if not isinstance(text, (str, int)) or not isinstance(space, Mapping):
        raise ArtifactError(
            "this artifact does not say how large its intermediates are",
            hint="compile the model again with this version",
        )
    # Late symbols count as 0, as the library has it: what needs them is not in the arena.
    known = {**dict.fromkeys(signature.late, 0), **symbols, space["threads"]: threads}
    outputs = sum(
        math.prod(size_at(d, known) or 0 for d in spec.shape) * spec.element.size
        for spec in signature.outputs
        if not signature.is_late(spec)
    )
    return MemoryUse(
        dict(symbols),
        peak=size_at(space["bytes"], known) or 0,
        places=size_at(space["places"], known) or 0,
        intermediates=size_at(text, known) or 0,
        outputs=outputs,
        late=bool(signature.late),
    )
