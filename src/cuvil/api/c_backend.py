"""The target c: what a model needs of a machine is measured, and held against its budget."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuvil.build.c_source import CORTEX_M4, code_bytes, compile_c
from cuvil.build.c_stack import STACK_FLAGS, frames_of, stack_bytes
from cuvil.codegen.c.module import HEADER, MEASURED, SOURCE, generate
from cuvil.codegen.module import Generated
from cuvil.errors import InputError, TargetError
from cuvil.errors.words import shown
from cuvil.ir.core import Module
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import PassOptions
from cuvil.target.base import Target

BUDGETS: Mapping[str, str] = {"ram": "ram_bytes", "flash": "flash_bytes"}
"""The options that give a target a budget, and the fields of it that they set."""
_UNITS: Mapping[str, int] = {"": 0, "k": 10, "m": 20, "g": 30}


def bytes_of(text: Any, name: str) -> int:
    """A size: a number, or text such as "64k" or "1.5M". Raises InputError for anything else."""
    plain = str(text).strip().lower().removesuffix("ib").removesuffix("b")
    number, unit = (plain[:-1], plain[-1]) if plain[-1:] in ("k", "m", "g") else (plain, "")
    hint = f"give a size: {name}='64k' or {name}=65536"
    try:
        size = float(number) * (1 << _UNITS[unit])
    except (ValueError, OverflowError):
        size = math.nan
    if not math.isfinite(size):
        raise InputError(f"{name} is {shown(text)}", hint=hint)
    if size <= 0:
        raise InputError(
            f"{name} is {shown(text)}, and no model fits into {size:g} bytes",
            hint=f"{hint}; without {name} there is no budget",
        )
    if size != int(size):
        raise InputError(f"{name} is {shown(text)}, which is {size:g} bytes", hint=hint)
    return int(size)


def takes_budgets(target: Target) -> bool:
    """Whether a target has a memory of its own."""
    return target.kind == "c"


def with_budgets(target: Target, options: Mapping[str, Any]) -> Target:
    """The target with the budgets that the options give. Raises InputError for a bad size, or for
    a target that has no memory of its own."""
    given: dict[str, Any] = {field: bytes_of(options[name], name) for name, field in BUDGETS.items()
             if options.get(name) is not None}  # fmt: skip
    if given and not takes_budgets(target):
        raise InputError(
            f"the target {target.name} has no budget of memory", hint="ram and flash are for 'c'"
        )
    return replace(target, **given) if given else target


_ADDRESSED = 2**31 - 1  # PTRDIFF_MAX of the machines that C is for


def adapt(options: PassOptions) -> PassOptions:
    """Convolutions one by one, and directly: that takes the least memory; bytes stay bytes."""
    return replace(options, winograd=False, chains=False, codes=True, panel=0)


def generate_c(module: Module, target: Target, profile: bool = False) -> Generated:
    """The C of a module, its size measured. Raises TargetError where a budget is not enough."""
    generated = generate(module, target, profile)
    memory = dict(generated.facts["memory"])
    _check_ram(memory, target)  # before a compiler sees arrays that it has no words for
    files = {HEADER: generated.sources[HEADER], MEASURED: generated.sources.pop(MEASURED)}
    with tempfile.TemporaryDirectory(prefix="cuvil-") as folder:
        unit = compile_c(files, MEASURED, (*CORTEX_M4, *STACK_FLAGS), Path(folder))
    memory["code"] = code_bytes(unit)
    memory["stack"] = stack_bytes(files[MEASURED], frames_of(unit), f"{memory['prefix']}_run")
    memory["flash"] = memory["weights"] + memory["code"]
    parts = f" ({memory['weights']} of weights, {memory['code']} of code on a Cortex-M4)"
    _check(memory, "flash", target.flash_bytes, "arrays", parts)
    return replace(generated, facts={**generated.facts, "memory": memory})


def _check_ram(memory: Mapping[str, Any], target: Target) -> None:
    budget = target.ram_bytes or _ADDRESSED
    whose = "" if budget < _ADDRESSED else ", what one object can have with addresses of 32 bits"
    _check(memory, "ram", min(budget, _ADDRESSED), "buffers", whose=whose)


def _check(
    memory: Mapping[str, Any], name: str, budget: int, what: str, parts: str = "", whose: str = ""
) -> None:
    need = memory[name]
    if budget and need > budget:
        largest = "\n".join(f"  {size:>10} bytes: {where}" for where, size in memory[what])
        raise TargetError(
            f"the model needs {need} bytes of {name}{parts}; the budget is {budget}{whose}. "
            f"The largest {what}:\n{largest}",
            hint="make these layers smaller, or smaller inputs; maxima of symbolic dims count",
            stage="codegen",
        )


def contents(generated: Generated, manifest: Manifest) -> tuple[bytes, dict[str, bytes]]:
    """What the package holds: the source, and the header beside it.

    Raises TargetError for a model of which some steps run in Python."""
    if "host" in manifest.extra or "host_functions" in manifest.extra:
        raise TargetError(
            f"{manifest.name} has steps that run in Python, which C has not",
            hint="leave out operators on text, and custom operators that are Python functions",
        )
    sources = generated.sources
    return sources[SOURCE].encode(), {HEADER: sources[HEADER].encode()}
