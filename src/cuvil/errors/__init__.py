"""One family of errors: what went wrong, where in the source, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuvil.errors.words import counted


class CuvilError(Exception):
    """Base of every error Cuvil raises on purpose.

    ``message`` says what is wrong, ``where`` names the place in the user's model, ``hint`` says
    what to do, ``stage`` the step of the pipeline that found it.
    """

    def __init__(
        self, message: str, *, where: str = "", hint: str = "", stage: str = ""
    ) -> None:
        self.message = message
        self.where = where
        self.hint = hint
        self.stage = stage
        super().__init__(message)

    def __str__(self) -> str:
        lines = [self.message]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.stage:
            lines.append(f"  stage: {self.stage}")
        if self.hint:
            lines.append(f"  what to do: {self.hint}")
        return "\n".join(lines)


class InvalidModelError(CuvilError):
    """The model file or program is malformed, or contradicts itself."""


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that cannot be compiled: its op, dtype, place, why, and a way round."""

    op: str
    dtype: str = ""
    where: str = ""
    reason: str = ""
    hint: str = ""


class UnsupportedOpError(CuvilError):
    """Some operators have no implementation; ``nodes`` lists all of them."""

    def __init__(self, nodes: Iterable[UnsupportedNode], *, stage: str = "capture") -> None:
        self.nodes = tuple(nodes)
        lines = [f"{counted(len(self.nodes), 'operator')} of this model can't be compiled:"]
        for node in self.nodes:
            line = f"  - {node.op}"
            if node.dtype:
                line += f" ({node.dtype})"
            if node.where:
                line += f" at {node.where}"
            if node.reason:
                line += f": {node.reason}"
            if node.hint:
                line += f" [{node.hint}]"
            lines.append(line)
        super().__init__("\n".join(lines), stage=stage)


class ShapeConstraintError(CuvilError):
    """A shape breaks a constraint; says which one, the value, and where it comes from."""


class TargetError(CuvilError):
    """The target is unknown, or can't hold or run this model."""


class ArtifactError(CuvilError):
    """An artifact is truncated, altered, too new, or not for this machine."""


class VerificationError(CuvilError):
    """The built artifact disagrees with its source model; ``report`` says by how much."""

    def __init__(self, message: str, report: object = None, **places: str) -> None:
        self.report = report
        super().__init__(message, **places)


class InputError(CuvilError, ValueError):
    """A call was given a wrong dtype, rank, number or name of inputs."""


class NoMemoryError(CuvilError, MemoryError):
    """There is not the memory that a tensor or a call needs; says which, and how many bytes."""
