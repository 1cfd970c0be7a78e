"""What tuning found: plain data that ships with the artifact and can be replayed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cuvil.errors import ArtifactError, InputError
from cuvil.package.format import StrPath, open_package
from cuvil.passes.knobs import Choice, choice_fault

VERSION = 1
_HINT = "give `compiled.tuning`, or a file that holds it as JSON, or a package that was tuned"


@dataclass(frozen=True)
class Found:
    """One kernel: its key (passes/tuning.py), the choice (empty: nothing was better), and the
    least seconds of each way that was measured, by its text, at the sizes ``sizes``.

    ``name``, ``where`` and ``count`` say which kernels of the model these were.
    """

    kernel: str
    choice: Choice
    seconds: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    where: str = ""
    count: int = 1


@dataclass(frozen=True)
class TuningTable:
    """All kernels that were looked at, and where: ``cpu`` is the processor's name, ``target`` the
    compiler's name of it, ``threads`` how many a call used."""

    cpu: str
    target: str
    threads: int
    kernels: tuple[Found, ...] = ()

    @property
    def choices(self) -> dict[str, Choice]:
        """The choices by kernel, those that are not empty."""
        return {found.kernel: found.choice for found in self.kernels if found.choice}

    def of(self, keys: Collection[str]) -> TuningTable:
        """The same with the kernels of these keys alone."""
        kept = tuple(found for found in self.kernels if found.kernel in keys)
        return TuningTable(self.cpu, self.target, self.threads, kept)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it."""
        tree = {"version": VERSION, **asdict(self)}
        return dict(json.loads(json.dumps(tree)))


def read_table(tree: object) -> TuningTable:
    """A table from plain data, or from a compile's report, of which it is the part "tuning".
    Raises InputError where it is none."""
    if isinstance(tree, Mapping) and "kernels" not in tree and "tuning" in tree:
        tree = tree["tuning"]
    if not isinstance(tree, Mapping) or not isinstance(tree.get("kernels"), (list, tuple)):
        raise InputError("the tuning table has no kernels", hint=_HINT)
    if tree.get("version") != VERSION:
        raise InputError(
            f"the tuning table has version {tree.get('version')!r}; this cuvil reads {VERSION}",
            hint="tune again with this version",
        )
    facts = (tree.get("cpu"), tree.get("target"), tree.get("threads"))
    if [type(fact) for fact in facts] != [str, str, int]:
        raise InputError("the tuning table does not say where it was made", hint=_HINT)
    kernels = tuple(read_found(item) for item in tree["kernels"])
    twice = {f.kernel for f in kernels if sum(g.kernel == f.kernel for g in kernels) > 1}
    if twice:
        raise InputError(f"the tuning table has the kernel {min(twice)} twice", hint=_HINT)
    return TuningTable(tree["cpu"], tree["target"], tree["threads"], kernels)


def read_found(tree: object) -> Found:
    """One kernel's entry from plain data. Raises InputError where it is none."""
    if not isinstance(tree, Mapping) or not isinstance(tree.get("kernel"), str):
        raise InputError("a tuning table's entry names no kernel", hint=_HINT)
    key, choice = tree["kernel"], tree.get("choice")
    seconds, sizes = tree.get("seconds", {}), tree.get("sizes", {})
    fault = choice_fault(choice)
    if not fault and not _numbers(seconds, (int, float)):
        fault = "its measured times are no numbers"
    if not fault and not _numbers(sizes, (int,)):
        fault = "its sizes are no whole numbers"
    words = (tree.get("name", ""), tree.get("where", ""), tree.get("count", 1))
    if not fault and [type(word) for word in words] != [str, str, int]:
        fault = "its name, place or count can't be read"
    if fault:
        raise InputError(f"the tuning table, at kernel {key}: {fault}", hint=_HINT)
    assert isinstance(choice, Mapping)
    return Found(key, dict(choice), dict(seconds), dict(sizes), *words)


def _numbers(table: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(table, Mapping) and all(
        isinstance(name, str) and type(value) in kinds for name, value in table.items()
    )


def open_table(path: StrPath) -> TuningTable:
    """The table in a JSON file, or of a package. Raises InputError where there is none."""
    place = Path(path)
    if place.suffix == ".cuvilpkg":
        try:
            package = open_package(place)
        except ArtifactError as error:
            raise InputError(f"cannot read {place}: {error.message}") from None
        package.close()
        tree = package.manifest.extra.get("tuning")
        if tree is None:
            raise InputError(f"{place} was not tuned", hint=_HINT)
        return read_table(tree)
    try:
        tree = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}", hint=_HINT) from None
    except ValueError as error:
        raise InputError(f"{place} is no JSON: {error}", hint=_HINT) from None
    return read_table(tree)
