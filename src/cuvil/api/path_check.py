"""An artifact's paths against those of the reference: the body of ``cuvil.verify(paths=True)``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.api.source import Source
from cuvil.errors import CuvilError
from cuvil.ir.clone import clone_module
from cuvil.ir.control import FOR, IF, Loop
from cuvil.ir.signature import Signature
from cuvil.reference.interpreter import run_module
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.sym.expr import symbols_of
from cuvil.verify.branches import Search
from cuvil.verify.inputs import allowed_sizes, make_inputs
from cuvil.verify.path_report import PathReport
from cuvil.verify.paths import Counted, Site, compare_paths, counted
from cuvil.verify.ranges import integer_limits

Array = np.ndarray[Any, Any]
Trial = Mapping[str, Array]
_SECONDS = 5.0
_EDGES = (0, 1, 2, 5)


def check_paths(
    artifact: Artifact | Built, source: Source, trials: Sequence[Trial], search: bool
) -> PathReport:
    """Count where reference and artifact go on ``trials``; with ``search`` also on inputs that
    lead where none of them does, as far as a few seconds allow. For this the model is built once
    more, with the numbers as outputs."""
    copy = counted(source.module)
    if not copy.sites:
        return PathReport(cases=len(trials))
    runs = _Runs(copy)
    for trial in trials:
        runs.add(trial)
    if search:
        for trial in _more(artifact.native.manifest.signature, source, copy, runs, trials):
            runs.add(trial, only_new=True)
    built = source.build(source.lower(clone_module(copy.module)))
    names = copy.module.main.output_names
    pairs = []
    for trial, expected in runs.found:
        given = built.run(trial)
        pairs.append((expected, [np.asarray(given[name]) for name in names]))
    return compare_paths(copy.sites, names, pairs)


class _Runs:
    """Trials with what the reference returned; ``gone`` are the outputs that counted something."""

    def __init__(self, copy: Counted) -> None:
        self.module = copy.module
        self.found: list[tuple[Trial, list[Array]]] = []
        self.ways = {name for site in copy.sites for name in site.ways.values()}
        self.gone: set[str] = set()

    def add(self, trial: Trial, only_new: bool = False) -> None:
        """Run one; those that the reference refuses are left out."""
        try:
            outputs = run_module(self.module, trial)
        except CuvilError:
            return
        named = dict(zip(self.module.main.output_names, outputs, strict=True))
        gone = {name for name in self.ways if int(named[name])}
        if not only_new or gone - self.gone:
            self.found.append((trial, outputs))
        self.gone |= gone

    def open(self, site: Site) -> bool:
        """Whether some way of a site was never gone."""
        return any(name not in self.gone for name in site.ways.values())


def _more(
    signature: Signature, source: Source, copy: Counted, runs: _Runs, trials: Sequence[Trial]
) -> Iterator[Trial]:
    """Inputs that may go where none went: other conditions, and sizes for 0, 1 or many trips."""
    limits = integer_limits(source.module)
    search = Search(source.module, signature, source.examples, limits)
    search.cover([dict(trial) for trial in trials])
    yield from search.found.trials
    until = time.monotonic() + _SECONDS
    for site in copy.sites:
        if site.kind == FOR:
            for sizes in _edges(signature, site, trials):
                if runs.open(site) and time.monotonic() < until:
                    rng = np.random.default_rng(2)
                    yield make_inputs(signature, sizes, source.examples, rng, limits)
    for site in copy.sites:
        search.until = time.monotonic() + 1.0
        for _, trial in search.candidates(site.op, site.op.regions[0]):
            if site.kind in (IF, FOR) or not runs.open(site) or time.monotonic() > until:
                break
            yield trial


def _edges(signature: Signature, site: Site, trials: Sequence[Trial]) -> Iterator[dict[str, int]]:
    """The sizes of each trial with those that decide the number of trips at their ends."""
    for trial in trials:
        try:
            base = signature.bind([trial[s.name].shape for s in signature.inputs])
        except (CuvilError, KeyError):
            continue
        for name in sorted(symbols_of(Loop(site.op).trips)):
            for size in _EDGES:
                table = {**base, name: size}
                if name in base and allowed_sizes(signature, table):
                    yield table
