"""cuvil run: an artifact on inputs from files."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cuvil.cli.models import artifact_path, read_inputs
from cuvil.cli.parameters import ArtifactArgument, InputOption, SizesOption
from cuvil.cli.text import milliseconds, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import InputError
from cuvil.errors.words import counted
from cuvil.runners.built import load_or_run


@verb
def run(
    artifact: ArtifactArgument,
    inputs: InputOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to: .npz, or .npy for one."),
    ] = None,
    at: SizesOption = "",
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
) -> Outcome:
    """Run an artifact; without -o its outputs are only described.

    What is for another machine is run by an emulator or another program, if that is there.

    Examples:

      cuvil run net.cuvilpkg --input x=@x.npy -o out.npz

      cuvil run encoder.cuvilpkg --input ids=@ids.npy --input mask=random

      cuvil run net.cuvilpkg --input random --at batch=8
    """
    if out is not None and out.suffix not in (".npz", ".npy"):
        raise InputError(f"cannot write {out}", hint="give the output a name with .npz or .npy")
    loaded = load_or_run(artifact_path(artifact), threads)
    if out is not None and out.suffix == ".npy" and len(loaded.outputs) != 1:
        count = counted(len(loaded.outputs), "output")
        raise InputError(f"the model has {count}", hint="write an .npz file")
    apart = [spec.name for spec in loaded.inputs if spec.dtype in ("str", "map")]
    numeric = tuple(spec for spec in loaded.inputs if spec.name not in apart)
    signature = replace(loaded.manifest.signature, inputs=numeric)
    given = read_inputs(inputs or (), at, signature, strings=apart)
    start = time.perf_counter()
    outputs = {name: _plain(value) for name, value in loaded.run(given).items()}
    seconds = time.perf_counter() - start
    if out is not None:
        _write(out, outputs)
    rows = [_row(name, value) for name, value in outputs.items()]
    document = {
        "outputs": [dict(zip(("name", "dtype", "shape", "min", "mean", "max"), r)) for r in rows],
        "file": None if out is None else str(out),
        "seconds": seconds,
    }
    headers = ["output", "dtype", "shape", ">min", ">mean", ">max"]
    shown = table(headers, [[_short(cell) for cell in row] for row in rows])
    return Outcome(document, (shown, f"{milliseconds(seconds)}{f', {out}' if out else ''}"))


def _write(path: Path, outputs: dict[str, Any]) -> None:
    try:
        if path.suffix == ".npy":
            np.save(path, next(iter(outputs.values())))
        else:
            np.savez(path, **outputs)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _plain(value: Any) -> Any:
    """Types that .npy files can hold: strings at a fixed width, maps as JSON, and float32 for those
    that NumPy has only from ml_dtypes (bfloat16 and the narrow types)."""
    if isinstance(value, list):
        return np.array([json.dumps(entry) for entry in value])
    array = np.asarray(value)
    if array.dtype == object:
        return array.astype("U")
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _row(name: str, array: Any) -> list[Any]:
    row: list[Any] = [name, str(array.dtype), list(array.shape)]
    if not array.size or array.dtype.kind == "U":
        return [*row, None, None, None]
    values = array.astype(np.float64)
    found = [float(values.min()), float(values.mean()), float(values.max())]
    return row + [x if np.isfinite(x) else str(x) for x in found]


def _short(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else "" if cell is None else str(cell)
