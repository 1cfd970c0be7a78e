"""One set of inputs: what the source gives, and whether the artifact's difference is its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.api.source import Source
from cuvil.errors import CuvilError, InvalidModelError
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.verify.either import compare_either
from cuvil.verify.report import OutputError, compare
from cuvil.verify.tolerance import movement

log = logging.getLogger("cuvil")

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], list[Array]]


@dataclass
class Notes:
    """What the report says of some cases: made-up inputs that the source refuses (``skipped``),
    where rounding excuses a difference (``ill``), and where the source is the one that is off."""

    skipped: list[str] = field(default_factory=list)
    ill: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)


def judged(
    artifact: Artifact | Built,
    source: Source,
    inputs: Mapping[str, Array],
    expected: Sequence[Array],
    tolerance: tuple[float, float],
    notes: Notes,
    strict: bool,
) -> list[OutputError]:
    """The artifact's errors on these inputs, with a note where they are excused: by the source's
    own result in float64, or, unless ``strict``, by what rounding does to it. Raises
    InvalidModelError where the source differs from itself."""
    names = [s.name for s in artifact.outputs]
    outputs = artifact.run(inputs)
    found = [outputs[n] for n in names]
    plain = compare(names, expected, found, *tolerance)
    if all(e.passed for e in plain):
        return plain
    _need_repeated(source, inputs, names, expected, tolerance)
    settled = settled_by(source, inputs)
    if settled is not None:
        kept = compare(names, settled, found, *tolerance)
        if all(e.passed for e in kept):
            return kept
    exact = _tried(source.exact, inputs, "the model can't be run in float64")
    if exact is not None:
        again = compare_either(names, expected, exact, found, *tolerance)
        if all(e.passed for e in again):
            notes.off.append(_off(inputs, plain, expected, found, exact))
            log.warning("the model itself is off: %s", notes.off[-1])
            return again
    if strict:
        return plain
    allowed = _allowed(artifact, source, inputs, found)
    again = compare(names, expected, found, *tolerance, allowed) if allowed else plain
    if not all(e.passed for e in again):
        return plain
    worst = max(e.scaled for e in plain)
    text = f"{case_text(inputs)}: off by {worst:.2e} of scale, within 4 times what one unit of"
    notes.ill.append(f"{text} rounding does")
    log.info("ill-conditioned inputs: %s", notes.ill[-1])
    return again


def case_text(inputs: Mapping[str, Array]) -> str:
    """A set of inputs in words: names and shapes."""
    return ", ".join(f"{n}{list(a.shape)}" for n, a in inputs.items())


def expected_of(
    source: Source, inputs: Mapping[str, Array], given: bool, notes: Notes
) -> list[Array] | None:
    """The source's outputs; None, with a note, where it refuses made-up inputs. Raises
    InvalidModelError where it refuses its own example, or what was ``given``."""
    try:
        return source.run(inputs)
    except Exception as error:  # whatever a model's own code raises
        own = given or (bool(source.examples) and all(
            name in source.examples and source.examples[name].shape == array.shape
            for name, array in inputs.items()
        ))  # fmt: skip
        words = next(iter(str(error).splitlines()), "")
        text = f"the model itself raises {type(error).__name__} on {case_text(inputs)}: {words}"
        if not own:
            log.info("verification skips a size: %s", text)
            notes.skipped.append(text)
            return None
        if isinstance(error, CuvilError):
            raise
        raise InvalidModelError(
            text, hint="give example inputs that the model takes", stage="verify"
        ) from error


def _need_repeated(
    source: Source,
    inputs: Mapping[str, Array],
    names: Sequence[str],
    expected: Sequence[Array],
    tolerance: tuple[float, float],
) -> None:
    """Raise InvalidModelError where the source, run once more, gives something else: no artifact
    can be told right or wrong by it."""
    again = source.run(inputs)
    for index, error in enumerate(compare(names, expected, again, *tolerance)):
        if error.passed:
            continue
        first, second = np.asarray(expected[index]), np.asarray(again[index])
        values = f"has the shape {list(first.shape)}, then {list(second.shape)}"
        if first.shape == second.shape:
            one, other = float(first[error.at]), float(second[error.at])
            values = f"at {list(error.at)} is {one:.6g}, then {other:.6g}"
        raise InvalidModelError(
            f"the model does not repeat itself: run twice on {case_text(inputs)}, {error.name} "
            f"{values}",
            hint="take random numbers, and what the model keeps from call to call, as inputs of "
            "forward; an artifact computes from its inputs alone",
            stage="verify",
        )


def _off(
    inputs: Mapping[str, Array],
    errors: Sequence[OutputError],
    expected: Sequence[Array],
    found: Sequence[Array],
    exact: Sequence[Array],
) -> str:
    """Where the source is off the most, what it gives there, and what it gives in float64."""
    at = max(range(len(errors)), key=lambda i: (not errors[i].passed, errors[i].absolute))
    error = errors[at]
    mine, own, true = (float(a[at][error.at]) for a in (found, expected, exact))
    return (
        f"{case_text(inputs)}: {error.name} at {list(error.at)} is {own:.6g} in the model, "
        f"{true:.6g} in the model in float64, and {mine:.6g} in the artifact"
    )


def settled_by(source: Source, inputs: Mapping[str, Array]) -> list[Array] | None:
    """The source's outputs where equal elements keep their order; None where it has no such."""
    ordered = any(op.short == "topk" for op in source.module.main.walk())
    why = "the model can't be run with equal elements in their order"
    return _tried(source.settled, inputs, why) if ordered else None


def _tried(run: Run | None, inputs: Mapping[str, Array], why: str) -> list[Array] | None:
    """What a further way to run the source gives; None where there is none, or it can't go it."""
    if run is None:
        return None
    try:
        return run(inputs)
    except Exception as error:  # whatever torch raises of a model that its modes can't follow
        log.info("%s: %s", why, error)
        return None


def _allowed(
    artifact: Artifact | Built, source: Source, inputs: Mapping[str, Array], found: Sequence[Array]
) -> list[Array] | None:
    """How far rounding alone moves the source here; None where that can't be told."""
    try:
        symbols = artifact.symbols_for(inputs)
        return movement(source.module, source.run, inputs, symbols, source.precision, found)
    except Exception as error:  # as in expected_of: a moved input may be one that it refuses
        log.info("how far rounding moves the model can't be told: %s", error)
        return None
