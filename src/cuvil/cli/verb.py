"""What all verbs share: groups of options, one form of output, errors to exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import math
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer
import typer.core
from rich.console import Console, Group, RenderableType
from rich.text import Text

from cuvil.cli.parameters import Common
from cuvil.errors import CuvilError, InputError, UnsupportedOpError, VerificationError

_PIPED_WIDTH = 400
_SHAPE_HINT = "give every input's shape, as in --shape NAME:1x3x8x8 or --shape NAME:i64[batch,seq]"
DONE, FAILED, MISUSED, UNFIT = 0, 1, 2, 3


@dataclass(frozen=True)
class Outcome:
    """What a verb found: ``document`` for ``--json``, ``shown`` for people, the exit code."""

    document: dict[str, Any]
    shown: tuple[RenderableType, ...] = ()
    code: int = DONE
    common: Common = field(default_factory=Common)


Body = Callable[..., Outcome]


def verb(body: Body) -> Callable[..., None]:
    """A Typer command of a function that returns an Outcome.

    A parameter whose type is a dataclass of parameters.py becomes that dataclass's options;
    ``--json``, ``--verbose`` and ``--debug`` are added. A CuvilError is printed as message,
    place and next step; the exit code is 0 done, 1 the check failed, 2 wrong use, 3 the model or
    artifact can't be handled.
    """
    hints = typing.get_type_hints(body, include_extras=True)
    parameters = inspect.signature(body).parameters.values()
    groups = {p.name: hints[p.name] for p in parameters if dataclasses.is_dataclass(hints[p.name])}
    plain = [
        p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY)
        for p in parameters
        if p.name not in groups
    ]
    shared = [p for group in (*groups.values(), Common) for p in _fields(group)]

    @functools.wraps(body)
    def command(**given: Any) -> None:
        common = _take(Common, given)
        taken = {name: _take(group, given) for name, group in groups.items()}
        raise typer.Exit(_run(lambda: body(**given, **taken), common))

    signature = inspect.Signature([*plain, *shared])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return command


class Verbs(typer.core.TyperGroup):
    """The verbs. With ``--json``, words that can't be read are a document on stdout too."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run the verb that ``args`` name, and leave with its exit code."""
        words = list(sys.argv[1:] if args is None else args)
        if "--json" not in words or not extra.get("standalone_mode", True):
            return super().main(words, *more, **extra)
        try:
            code = super().main(words, *more, **{**extra, "standalone_mode": False})
        except Exception as error:
            message = getattr(error, "format_message", None)  # typer gives the base no name
            if message is None:
                raise
            _report(InputError(message()), Common(as_json=True))
            code = MISUSED
        sys.exit(code if isinstance(code, int) else DONE)


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    for f in dataclasses.fields(group):
        yield inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=f.default,
            annotation=hints[f.name],
        )


def _take(group: Any, given: dict[str, Any]) -> Any:
    return group(**{f.name: given.pop(f.name) for f in dataclasses.fields(group)})


def _run(work: Callable[[], Outcome], common: Common) -> int:
    _log_to_stderr(common.verbose)
    try:
        # Libraries print to stdout; with --json it holds the document alone.
        quiet = contextlib.redirect_stdout(sys.stderr) if common.as_json else _nothing()
        with quiet:
            outcome = work()
    except CuvilError as error:
        _report(error, common)
        return _code(error)
    except OSError as error:
        _report(InputError(str(error)), common)
        return MISUSED
    except Exception as error:
        _report(error, common)
        return UNFIT
    try:
        if common.as_json:
            _write_json(outcome.document)
        elif outcome.shown:
            _show(outcome.shown)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # a reader that has seen enough
    except OSError as error:
        fault = CuvilError(f"the result can't be written to stdout: {error.strerror}")
        _report(fault, dataclasses.replace(common, as_json=False))
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  what is left is not tried at the end
        return UNFIT
    return outcome.code


def _write_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(_plain(document), indent=1, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Infinities and NaN, which JSON has not, as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _show(shown: tuple[RenderableType, ...]) -> None:
    # Strings are not markup: dims in brackets would be taken for styles.
    parts = [Text(part) if isinstance(part, str) else part for part in shown]
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    Console(highlight=False, width=width).print(Group(*parts), soft_wrap=True)


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


def _code(error: CuvilError) -> int:
    if isinstance(error, VerificationError):
        return FAILED
    return MISUSED if isinstance(error, InputError) else UNFIT


def _log_to_stderr(verbose: bool) -> None:
    if verbose:
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("cuvil").setLevel(logging.DEBUG)


def _report(error: Exception, common: Common) -> None:
    if isinstance(error, CuvilError) and "example_inputs=" in error.hint:
        error.hint = _SHAPE_HINT  # an argument of the API has another name here
    own = isinstance(error, CuvilError)
    if common.debug:
        traceback.print_exception(error, file=sys.stderr)
    if common.as_json:
        _write_json({"error": _document(error)})
    text = str(error) if own else f"{type(error).__name__}: {error}"
    if not own:
        text += "\n  what to do: this is a fault of Cuvil: please report it, with --debug's output"
    line = Text("error: ", style="bold red").append(text, style="not bold default")
    Console(stderr=True, highlight=False, soft_wrap=True).print(line)


def _document(error: Exception) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, CuvilError):
        document.update(
            message=error.message, where=error.where, hint=error.hint, stage=error.stage
        )
    if isinstance(error, UnsupportedOpError):
        document["nodes"] = [dataclasses.asdict(node) for node in error.nodes]
    return document
