"""Whether one artifact is right at any of many random sizes, and keeps no memory for them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch

import cuvil
from bench.bars import Bar
from bench.dynamic_models import Case, Inputs, Sizes
from cuvil.runtime.artifact import Artifact
from cuvil.verify.report import compare

GROWTH_LIMIT = 2.0  # % of the resident memory
ATOL, RTOL = 1e-5, 1e-3  # what cuvil.verify takes for models that compute in f32
SETTLED = 5  # of so many parts of the calls, the first is before memory is looked at
Array = np.ndarray[Any, Any]
Run = Callable[[Inputs], Sequence[Array]]


def source_of(case: Case) -> Run:
    """The source model as PyTorch or ONNX Runtime runs it."""
    if case.onnx:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(case.model()), options)
        return lambda inputs: session.run(None, dict(inputs))
    model = case.model()

    def run(inputs: Inputs) -> list[Array]:
        with torch.no_grad():
            found = model(**{name: torch.from_numpy(a) for name, a in inputs.items()})
        return [value.numpy() for value in _tensors(found)]

    return run


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result, in order."""
    if isinstance(found, torch.Tensor):
        yield found
    elif found is not None:
        for item in found.values() if isinstance(found, Mapping) else found:
            yield from _tensors(item)


def sizes_of(case: Case, artifact: Artifact, count: int, seed: int = 0) -> Iterator[Sizes]:
    """So many random sizes that the artifact's constraints allow."""
    rng, made, refused = random.Random(seed), 0, 0
    while made < count:
        sizes = {symbol: rng.choice(list(span)) for symbol, span in case.ranges.items()}
        shapes = {name: np.shape(a) for name, a in case.inputs(sizes).items()}
        try:
            artifact.workspace_bytes(shapes)
        except cuvil.ShapeConstraintError:
            refused += 1
            if refused > count:
                raise
            continue
        made += 1
        yield sizes


def is_right(case: Case, artifact: Artifact, source: Run, inputs: Inputs) -> bool:
    """Within the tolerance of verification; which also allows what rounding does, so that it is
    asked where the plain comparison fails."""
    given = artifact.run(dict(inputs))
    names = list(given)
    wanted = list(source(inputs))[: len(names)]
    errors = compare(names, wanted, [given[n] for n in names], ATOL, RTOL)
    return all(e.passed for e in errors) or cuvil.verify(artifact, dict(inputs)).passed


def shape_bars(name: str, case: Case, artifact: Artifact, count: int) -> Iterator[Bar]:
    """How many of ``count`` random sizes are wrong; how memory grows over as many others."""
    source, wrong = source_of(case), 0
    for sizes in sizes_of(case, artifact, count):
        if not is_right(case, artifact, source, case.inputs(sizes)):
            print(f"  {name} at {dict(sizes)}: WRONG", flush=True)
            wrong += 1
    yield Bar(f"{name}: wrong ones of {count} random sizes", wrong, 1, "")
    settled = 0
    for at, sizes in enumerate(sizes_of(case, artifact, count, seed=1)):
        artifact.run(dict(case.inputs(sizes)))
        if at == count // SETTLED:
            settled = resident()
    growth = 100 * (resident() / settled - 1) if settled else 0.0
    yield Bar(f"{name}: growth of memory over them", growth, GROWTH_LIMIT, "%")


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
