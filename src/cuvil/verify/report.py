"""What a comparison found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.errors.words import counted
from cuvil.verify.path_report import PathReport

Array = np.ndarray[Any, Any]
_LEAST_SCALE = 1e-30
NOT_VERIFIED = "not verified: no inputs were found that the model takes"


@dataclass(frozen=True)
class OutputError:
    """The worst difference in one output.

    ``scaled`` is the largest absolute error over the output's scale (:func:`scale_of` the source's
    own); ``excess`` counts elements beyond the tolerance; ``at`` is the index
    of the worst.
    """

    name: str
    shape: tuple[int, ...]
    absolute: float
    scaled: float
    excess: int
    at: tuple[int, ...]
    message: str = ""

    @property
    def passed(self) -> bool:
        return self.excess == 0 and not self.message


@dataclass(frozen=True)
class LayerError:
    """One kernel on the inputs that it got: ``kernel`` numbers it in order of execution, ``ops``
    are the operators inside, ``place`` where they come from, ``error`` its worst output."""

    kernel: int
    name: str
    ops: tuple[str, ...]
    place: str
    error: OutputError

    @property
    def passed(self) -> bool:
        return self.error.passed

    def __str__(self) -> str:
        what = self.error.message or f"{self.error.excess} elements beyond tolerance"
        return (
            f"kernel {self.kernel} ({self.name}: {', '.join(self.ops)}) at {self.place}: {what}, "
            f"worst {self.error.absolute:.3g} at {list(self.error.at)}"
        )


@dataclass(frozen=True)
class Report:
    """All outputs on all inputs tried; ``passed`` if every one is within tolerance, and there were
    inputs to try.

    ``layers`` has every kernel of a layer by layer comparison, ``verdict`` what that comparison
    concludes. ``skipped`` are made-up inputs that the source itself refused, with its words;
    ``paths`` is what :mod:`cuvil.verify.paths` found, if asked for.
    ``ill_conditioned`` are cases where rounding alone moves the source beyond the tolerance,
    which were judged by how far it moves. ``source_off`` are cases where the source is off, and in
    float64 gives what the artifact does.
    """

    errors: tuple[OutputError, ...] = ()
    tolerance: dict[str, float] = field(default_factory=dict)
    cases: tuple[str, ...] = ()
    layers: tuple[LayerError, ...] = ()
    verdict: str = ""
    skipped: tuple[str, ...] = ()
    ill_conditioned: tuple[str, ...] = ()
    source_off: tuple[str, ...] = ()
    paths: PathReport | None = None

    @property
    def passed(self) -> bool:
        return self.compared and not self.wrong

    @property
    def compared(self) -> bool:
        """Whether the model took any of the inputs; without one nothing is known."""
        return bool(self.cases)

    @property
    def wrong(self) -> bool:
        """Whether something that was compared is beyond its tolerance."""
        gone = self.paths is None or self.paths.passed
        return not gone or any(not e.passed for e in self.errors) or self.first_layer is not None

    @property
    def first_layer(self) -> LayerError | None:
        """The first kernel, in order of execution, that is wrong."""
        return next((layer for layer in self.layers if not layer.passed), None)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON; infinities as text."""
        return {
            "passed": self.passed,
            "compared": self.compared,
            "max_scaled": _plain(self.max_scaled),
            "tolerance": dict(self.tolerance),
            "cases": list(self.cases),
            "skipped": list(self.skipped),
            "ill_conditioned": list(self.ill_conditioned),
            "source_off": list(self.source_off),
            "outputs": [_error_dict(e) for e in self.errors],
            "layers": [
                {"kernel": x.kernel, "name": x.name, "ops": list(x.ops), "place": x.place,
                 **_error_dict(x.error)}
                for x in self.layers
            ],
            "verdict": self.verdict,
            **({} if self.paths is None else {"paths": self.paths.as_dict()}),
        }  # fmt: skip

    @property
    def max_scaled(self) -> float:
        """The largest error over output scale."""
        return max((e.scaled for e in self.errors), default=0.0)

    def __str__(self) -> str:
        outcome = "FAILED" if self.wrong else "passed"
        worst = f"largest error {self.max_scaled:.2e} of output scale"
        lines = [f"{outcome}: {worst} over {counted(len(self.cases), 'case')}"]
        if not self.compared and not self.wrong:
            lines = [NOT_VERIFIED]
        lines += [
            f"  {e.name} of shape {list(e.shape)}: "
            f"{e.message or f'{e.excess} elements beyond tolerance'}, "
            f"worst {e.absolute:.3g} at {list(e.at)}"
            for e in self.errors
            if not e.passed
        ]
        lines += [f"  ill-conditioned inputs: {case}" for case in self.ill_conditioned]
        lines += [f"  the model itself is off: {case}" for case in self.source_off]
        lines += [f"  skipped: {case}" for case in self.skipped]
        if self.layers:
            wrong = sum(not layer.passed for layer in self.layers)
            lines.append(f"  {wrong} of {len(self.layers)} kernels are wrong on their own inputs")
        if self.first_layer is not None:
            lines.append(f"  first: {self.first_layer}")
        if self.verdict:
            lines.append(f"  {self.verdict}")
        if self.paths is not None:
            lines += [f"  {line}" for line in str(self.paths).splitlines()]
        return "\n".join(lines)


def _error_dict(error: OutputError) -> dict[str, Any]:
    return {
        "output": error.name,
        "shape": list(error.shape),
        "passed": error.passed,
        "absolute": _plain(error.absolute),
        "scaled": _plain(error.scaled),
        "excess": error.excess,
        "at": list(error.at),
        "message": error.message,
    }


def _plain(value: float) -> float | str:
    return float(value) if np.isfinite(value) else str(float(value))


def compare(
    names: Sequence[str], expected: Sequence[Array], given: Sequence[Array],
    atol: float, rtol: float, allowed: Sequence[Array] | None = None,
) -> list[OutputError]:  # fmt: skip
    """Compare outputs: |given - expected| <= atol * scale + rtol * |expected| + allowed.

    ``allowed`` are arrays of the outputs' shapes, by default zero. ``scale`` is
    :func:`scale_of` the expected output. NaN must meet NaN, an infinity the same
    infinity; integers and bools must be equal, but for what is allowed.
    """
    more = allowed if allowed is not None else [np.zeros(())] * len(names)
    items = zip(names, expected, given, more, strict=True)
    return [_compare(*item, atol, rtol) for item in items]


def _compare(
    name: str, expected: Array, given: Array, allowed: Array, atol: float, rtol: float
) -> OutputError:
    expected, given = np.asarray(expected), np.asarray(given)
    shape = tuple(expected.shape)
    if shape != tuple(given.shape):
        text = f"shape {list(given.shape)} instead of {list(shape)}"
        return OutputError(name, shape, np.inf, np.inf, 1, (), text)
    if expected.size == 0:
        return OutputError(name, shape, 0.0, 0.0, 0, ())
    scale = scale_of(expected)
    difference, wrong = differences(expected, given, Tolerance(atol, rtol, scale), allowed)
    bad, worst = int(np.count_nonzero(wrong)), float(difference.max())
    if expected.dtype.kind in "biu":
        at = tuple(int(i) for i in np.argwhere(wrong)[0]) if bad else ()
        return OutputError(name, shape, worst, float(bool(bad)), bad, at)
    index = np.unravel_index(int(np.argmax(difference)), shape)
    at = tuple(int(i) for i in index)
    return OutputError(name, shape, worst, worst / (scale or _LEAST_SCALE), bad, at)


@dataclass(frozen=True)
class Tolerance:
    """``atol`` of the output's scale, None for one without a finite number, and ``rtol`` of each
    element."""

    atol: float
    rtol: float
    scale: float | None


def scale_of(expected: Array) -> float | None:
    """The largest finite magnitude, at least 1e-30; None where there is no finite number.

    Numbers at the end of the type's range, by which models mark what is masked, are no scale for
    the others.
    """
    a = np.abs(expected.astype(np.float64))
    end = np.finfo(np.float64 if expected.dtype == np.float64 else np.float32).max / 2
    finite = a[a < end] if np.any(a < end) else a[np.isfinite(a)]
    return max(float(finite.max()), _LEAST_SCALE) if finite.size else None


def differences(
    expected: Array, given: Array, tolerance: Tolerance, allowed: Array | None = None
) -> tuple[Array, Array]:
    """How far each element is off, as float64, and which are beyond the tolerance and what else is
    ``allowed``; of one shape."""
    more = np.zeros(()) if allowed is None else allowed
    a, b = expected.astype(np.float64), given.astype(np.float64)
    if expected.dtype.kind in "biu":
        apart = np.abs(a - b)
        wrong = expected != given
        return apart, wrong & ~(apart <= more) if np.any(more) else wrong
    finite = np.isfinite(a)
    with np.errstate(invalid="ignore"):
        difference = np.where(finite, np.abs(a - b), 0.0)
        same = np.where(finite, np.isfinite(b), (a == b) | (np.isnan(a) & np.isnan(b)))
    difference = np.where(same, difference, np.inf)
    scaled = tolerance.atol * (tolerance.scale or _LEAST_SCALE)
    return difference, difference > scaled + tolerance.rtol * np.where(finite, abs(a), 0.0) + more
