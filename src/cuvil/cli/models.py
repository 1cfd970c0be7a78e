"""From the command line's words to a compile request, an artifact, or inputs."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from cuvil.api.parsing import Spec, parse_dynamic, parse_shape, parse_sizes, parse_variants
from cuvil.api.request import CompileRequest
from cuvil.api.several import ALL
from cuvil.api.source import Source
from cuvil.cli.parameters import ModelOptions
from cuvil.errors import InputError, InvalidModelError
from cuvil.ir.signature import Signature
from cuvil.package.format import open_package
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.sym.parse import asked_constraint
from cuvil.target.registry import target_names
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.ranges import integer_limits

Array = np.ndarray[Any, Any]
_IMPORT = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)")
_INPUT_HINT = "write X=@x.npy, X=random, @all.npz or random"


def is_artifact(text: str) -> bool:
    """Whether these words name an artifact rather than a model."""
    return text.endswith(".cuvilpkg")


@dataclass(frozen=True)
class Opened:
    """A model as the API takes it, with example inputs if it came with some."""

    model: Any
    examples: Any = None


def need_no_folder(text: str) -> None:
    """Raise InputError for a folder in place of a model's file."""
    if os.path.isdir(text):
        raise InputError(f"cannot read {text}: it is a folder", hint="give the model's file")


def open_model(text: str) -> Opened:
    """A path as it is; MODULE:NAME imported, and called if it is a class or a function.

    Raises InputError for a file, module or name that isn't there, InvalidModelError if importing
    or calling fails.
    """
    match = _IMPORT.fullmatch(text)
    need_no_folder(text)
    if os.path.exists(text):
        return Opened(text)
    if match is None:
        raise InputError(
            f"cannot read {text}: there is no such file", hint="give a file, or PACKAGE.MODULE:NAME"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = _named(match["module"], match["name"])
        if isinstance(found, (type, FunctionType)):
            found = found()
    except InputError:
        raise
    except Exception as error:
        raise InvalidModelError(
            f"{text} gives no model: {type(error).__name__}: {error}",
            hint="NAME is an nn.Module, or a class or function that gives one without arguments",
        ) from error
    if isinstance(found, tuple) and len(found) == 2:
        return Opened(*found)
    return Opened(found)


def _named(module: str, name: str) -> Any:
    """What a module has under a name. Raises InputError where there is none."""
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # another module, which that one imports
        raise InputError(
            f"there is no module {error.name!r}",
            hint="run it where the module's file is, or install its package",
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{module}:{name} is not there: {found!r} has no attribute {part!r}")
        found = getattr(found, part)
    return found


def request_of(
    text: str,
    options: ModelOptions,
    threads: int | None = None,
    verify: bool = True,
    like: str | None = None,
) -> CompileRequest:
    """The request for a model. A module that comes without examples, and for which no shapes are
    given, gets those that ``like`` was compiled for, if that is an artifact; its precision is that
    one's. Raises InputError for options that can't be read."""
    if is_artifact(text):
        raise InputError(f"{text} is an artifact", hint="give the model that it was compiled from")
    specs = [parse_shape(item) for item in options.shape or ()]
    dynamic = parse_dynamic(options.dynamic or ())
    _check_words(options)
    opened = open_model(text)
    facts, precision = list(options.constraint or ()), options.precision
    if like is not None and is_artifact(like):
        made = open_package(artifact_path(like)).manifest
        precision = str(made.extra.get("precision", precision))
        if not specs and opened.examples is None and opened.model != text:
            specs, bounds = _compiled_for(made.signature)
            facts += bounds
    return CompileRequest(
        model=opened.model,
        example_inputs=None if specs else opened.examples,
        input_spec=specs or None,
        dynamic_dims=dynamic,
        constraints=tuple(facts),
        target=options.target,
        precision=precision,
        enable_fusion=not options.no_fusion,
        verify=verify,
        threads=threads,
        cache=not options.no_cache,
        options=_options(options),
    )


def _compiled_for(signature: Signature) -> tuple[list[Spec], list[str]]:
    """The inputs of an artifact as parse_shape gives them, and its symbols' bounds as facts."""
    bounds = [
        text
        for s in signature.symbols
        for text in (f"{s.name} >= {s.min}", f"{s.name} <= {s.max}" if s.max else "")
        if text and not s.source
    ]
    return [(s.name, s.dtype, tuple(s.shape)) for s in signature.inputs], bounds


def _options(options: ModelOptions) -> dict[str, Any]:
    found: dict[str, Any] = {} if options.fuel is None else {"fuel": options.fuel}
    if options.tune is not None:
        try:
            found["tune"] = float(options.tune)
        except ValueError:
            found["tune"] = options.tune  # a file
    if options.variants:
        found["variants"] = parse_variants(options.variants)
    return found | ({"retune": True} if options.retune else {})


def _check_words(options: ModelOptions) -> None:
    """Raise InputError for a target or constraint that can't be meant."""
    _check_target(options.target)
    for text in options.constraint or ():
        asked_constraint(text)


def _check_target(name: str) -> None:
    if name not in target_names():
        names = ", ".join(target_names())
        raise InputError(f"there is no target {name!r}", hint=f"choose one of {names}")


def targets_of(text: str) -> str | list[str]:
    """The target that is named, or a list of several. Raises InputError where there is none."""
    names = text.split(",")
    for name in names:
        if name != ALL:
            _check_target(name)
    return names if len(names) > 1 else text


def runnable(found: Artifact | Built) -> Artifact:
    """What can be called here. Raises InputError for what was built for another machine."""
    if isinstance(found, Built):
        raise InputError(
            f"what was built for this target can't run here: {found.reason}",
            hint="leave out --target",
        )
    return found


def artifact_path(text: str) -> str:
    """The path as it is. Raises InputError where there is no such file."""
    if not os.path.exists(text):
        raise InputError(f"cannot read {text}: there is no such file", hint="check the path")
    return text


def read_inputs(
    texts: Sequence[str],
    sizes: str,
    signature: Signature,
    source: Source | None = None,
    strings: Sequence[str] = (),
) -> dict[str, Array]:
    """Inputs by name from ``--input`` and ``--at``; what is made up follows the examples and the
    uses in the source, if there is one. ``strings`` are inputs beside the signature's, which are
    never made up. Raises InputError where one is missing."""
    given: dict[str, Array] = {}
    made: set[str] = set()
    names = [spec.name for spec in signature.inputs]
    for text in texts:
        name, equals, value = text.rpartition("=")
        if text == "random":
            made.update(names)
        elif text.startswith("@") and text.endswith(".npz"):
            given.update(_load(text[1:]))
        elif equals and value == "random":
            made.add(name)
        elif equals and value.startswith("@"):
            given[name] = _only(value[1:])
        else:
            raise InputError(f"cannot read the input {text!r}", hint=_INPUT_HINT)
    given.update(_typed(given, signature))
    made_up = [name for name in sorted(made) if name in strings]
    if made_up:
        raise InputError(f"the strings of {made_up[0]!r} can't be made up", hint=_INPUT_HINT)
    every = [*names, *strings]
    unknown = [name for name in (*given, *sorted(made)) if name not in every]
    if unknown:
        raise InputError(
            f"there is no input {unknown[0]!r}", hint=f"the inputs are {', '.join(every)}"
        )
    missing = [name for name in every if name not in given and name not in made]
    if missing:
        raise InputError(f"no value for the input {missing[0]!r}", hint=_INPUT_HINT)
    if len(given) == len(every):
        return given
    examples = source.examples if source is not None else {}
    limits = integer_limits(source.module) if source is not None else {}
    table = _sizes(signature, given, parse_sizes(sizes), examples)
    try:
        random = make_inputs(signature, table, examples, np.random.default_rng(0), limits)
    except (MemoryError, ValueError) as error:
        asked = ", ".join(f"{name}={size}" for name, size in table.items())
        raise InputError(f"cannot make inputs of {asked}: {error}", hint="ask for less") from None
    return {name: given[name] if name in given else random[name] for name in every}


def _typed(given: Mapping[str, Array], signature: Signature) -> dict[str, Array]:
    """Arrays of the types that NumPy writes to files as bytes without a name (those of ml_dtypes),
    by the types of the inputs they are for."""
    found = {}
    for spec in signature.inputs:
        array, dtype = given.get(spec.name), spec.element.numpy
        if isinstance(array, np.ndarray) and array.dtype == np.dtype(f"V{dtype.itemsize}"):
            if dtype.isbuiltin != 1:
                found[spec.name] = array.view(dtype)
    return found


def made_up_inputs(
    signature: Signature, sizes: str, source: Source | None = None
) -> dict[str, Array]:
    """Inputs of these sizes, every one made up."""
    return read_inputs(["random"], sizes, signature, source)


def sizes_note(signature: Signature, sizes: str, inputs: Mapping[str, Array]) -> list[str]:
    """A line that names the sizes of ``inputs`` that ``--at`` left open, if it did."""
    asked = parse_sizes(sizes)
    table = _sizes(signature, inputs, asked, {})
    chosen = [symbol.name for symbol in signature.early if symbol.name not in asked]
    if not chosen:
        return []
    found = ", ".join(f"{name}={table[name]}" for name in chosen)
    given = ",".join([*(f"{n}={s}" for n, s in asked.items()), *(f"{n}=..." for n in chosen)])
    return [f"sizes that were not asked for: {found}; give yours as --at {given}"]


def asked_sizes(signature: Signature, text: str) -> dict[str, int]:
    """Each symbol's size: as ``--at`` asks, else a usual one."""
    return _sizes(signature, {}, parse_sizes(text), {})


def _sizes(
    signature: Signature,
    given: Mapping[str, Array],
    asked: Mapping[str, int],
    examples: Mapping[str, Array],
) -> dict[str, int]:
    """Each symbol's size: as asked, else as the given inputs have it, else a usual one."""
    known = {symbol.name for symbol in signature.early}
    for name in asked:
        if name not in known:
            raise InputError(
                f"there is no symbolic dim {name!r}",
                hint=f"those of this model are {', '.join(sorted(known)) or 'none'}",
            )
    table = dict(spread_of_sizes(signature, examples)[0]) if known else {}
    for binding in signature.bindings:
        array = given.get(signature.inputs[binding.input].name)
        if array is not None and binding.axis < array.ndim:
            table[binding.symbol] = (array.shape[binding.axis] - binding.offset) // binding.slope
    return {**table, **asked}


def _load(path: str) -> dict[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError) as error:
        # NumPy takes what it doesn't know for a pickle, and advises to load that.
        why = "it holds no arrays of numbers" if "pickle" in str(error) else error
        raise InputError(f"cannot read {path}: {why}", hint="give a .npy or .npz file") from None


def _only(path: str) -> Any:
    if path.endswith(".json"):
        return _map(path)
    arrays = _load(path)
    if len(arrays) != 1:
        raise InputError(f"{path} holds {len(arrays)} arrays", hint="give it as @FILE.npz alone")
    return next(iter(arrays.values()))


def _map(path: str) -> dict[Any, Any]:
    """A map from a JSON object, whose keys are numbers where all of them look so."""
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object")
    whole = all(key.removeprefix("-").isdecimal() for key in found)
    return {int(key): value for key, value in found.items()} if whole else found
