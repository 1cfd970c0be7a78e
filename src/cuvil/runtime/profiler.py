"""Times each kernel of a model whose library was built to be profiled."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cuvil.errors import ArtifactError, CuvilError, InputError
from cuvil.errors.arguments import NUMBER
from cuvil.errors.words import counted, were_given
from cuvil.ir.signature import size_at
from cuvil.options import Options
from cuvil.runtime.ceilings import ceilings_of
from cuvil.runtime.native import declared
from cuvil.runtime.profile import KernelInfo, KernelTime, Profile, ProfileSlice, limit_of

if TYPE_CHECKING:
    from cuvil.runtime.artifact import Artifact

Array = np.ndarray[Any, Any]
_SLICE = np.dtype(
    [("begin", np.uint64), ("end", np.uint64), ("kernel", np.int32), ("thread", np.int32)]
)
_MOST_SLICES = 1 << 21
_FEWEST_RUNS = 3
_MOST_RUNS = 2000
_WHOLE = -1
_POINTER, _I64, _U64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
# name: (result, arguments); as native/profile.hpp has them
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cuvil_profile_into": (None, (_POINTER, _I64)),
    "cuvil_profile_count": (_I64, ()),
    "cuvil_profile_ticks": (_U64, ()),
    "cuvil_profile_multiply": (_I64, (_I64,)),
    "cuvil_profile_multiply_pairs": (_I64, (_I64,)),
    "cuvil_profile_read": (_I64, (_POINTER, _I64, _I64)),
}


def is_profiled(artifact: Artifact) -> bool:
    """Whether an artifact's library was built to be profiled."""
    return "profile" in artifact.manifest.extra


def take_profile(artifact: Artifact, inputs: Any, seconds: float) -> Profile:
    """Run an artifact that is_profiled on ``inputs`` for about ``seconds``, at least three times.

    Raises InputError for inputs that it does not take, ArtifactError for a package whose
    description of its kernels can't be read.
    """
    NUMBER("seconds", seconds)
    if not 0 < seconds < math.inf:
        raise InputError(f"seconds is {seconds!r}", hint="give a number above 0")
    given = artifact.library_inputs(named(artifact, inputs))
    native = artifact.native
    model = native.library_model()
    functions = declared(model.library.functions, _FUNCTIONS, "profiled")
    extra = _entry(artifact.manifest.extra)
    with model.library.profile_lock:
        outputs = native.run(given)
        runs, rate = _record(functions, native, given, seconds)
    table = _symbols(native, given, outputs)
    infos = [_info(i, record, table) for i, record in enumerate(extra["calls"])]
    caches = (int(extra["caches"][0]), int(extra["caches"][1]))
    cache_dir = Options.from_environment().cache_dir
    ceilings = ceilings_of(functions, artifact.manifest.cpu, caches, native.threads, cache_dir)
    touched = artifact.manifest.weights_bytes + native.workspace_bytes(given)
    best = min(runs, key=_whole_ticks)
    kernels = []
    for info in infos:
        ticks, calls = _least(runs, info.number)
        if calls:
            bound, least = limit_of(info, ceilings, touched)
            least = None if least is None else least * calls
            kernels.append(KernelTime(info, calls, ticks * rate, bound, least))
    return Profile(
        artifact.manifest.name,
        ", ".join(f"{n}{list(np.shape(x))}" for n, x in given.items()),
        native.threads,
        len(runs),
        _whole_ticks(best) * rate,
        min(_whole_ticks(run) - _kernel_ticks(run) for run in runs) * rate,
        tuple(kernels),
        _slices(best, rate),
        ceilings,
    )


def call_seconds(artifact: Artifact, inputs: Mapping[str, Any], seconds: float) -> Array:
    """Run an artifact that is_profiled on inputs by name for about ``seconds``, at least five
    times: the seconds of each call of a kernel in each run, [runs, calls], in order of the calls
    in its code."""
    native = artifact.native
    functions = declared(native.library_model().library.functions, _FUNCTIONS, "profiled")
    with native.library_model().library.profile_lock:
        native.run(inputs)
        runs, rate = _record(functions, native, inputs, seconds, 5)
    found = np.zeros((len(runs), len(_entry(artifact.manifest.extra)["calls"])))
    for row, run in zip(found, runs):
        own = run[(run["kernel"] != _WHOLE) & (run["thread"] == 0)]
        np.add.at(row, own["kernel"], (own["end"] - own["begin"]) * rate)
    return found


def named(artifact: Artifact, inputs: Any) -> dict[str, Any]:
    """Inputs by name, from a dict, a tuple in order, or a single one."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    names = [spec.name for spec in artifact.inputs]
    values = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    if len(values) != len(names):
        raise InputError(
            f"the model has {counted(len(names), 'input')}; {were_given(len(values))}",
            hint=f"give them by name or in order: {', '.join(names)}",
        )
    return dict(zip(names, values))



def _record(
    functions: Any,
    native: Artifact,
    inputs: Mapping[str, Any],
    seconds: float,
    fewest: int = _FEWEST_RUNS,
) -> tuple[list[Array], float]:
    """The slices of each run, and the seconds of one tick."""
    run = _Recorder(functions, native, inputs)
    room = run.count()
    if room > _MOST_SLICES:
        raise InputError(
            f"one call runs more than {_MOST_SLICES} kernels", hint="profile a smaller input"
        )
    run.buffer = np.zeros(2 * room + 1024, _SLICE)  # workers may join in more often next time
    found: list[Array] = []
    start, first = time.perf_counter(), int(functions.cuvil_profile_ticks())
    end = start + seconds
    while len(found) < fewest or (time.perf_counter() < end and len(found) < _MOST_RUNS):
        found.append(run.slices())
    taken = time.perf_counter() - start
    while taken < 0.02:  # a shorter time does not tell the rate
        taken = time.perf_counter() - start
    ticks = int(functions.cuvil_profile_ticks()) - first
    return found, taken / max(ticks, 1)


class _Recorder:
    def __init__(self, functions: Any, native: Artifact, inputs: Mapping[str, Any]) -> None:
        self.functions = functions
        self.native = native
        self.inputs = inputs
        self.buffer = np.zeros(1, _SLICE)

    def count(self) -> int:
        """Run once; how many slices there were."""
        address = self.buffer.ctypes.data_as(ctypes.c_void_p)
        self.functions.cuvil_profile_into(address, len(self.buffer))
        try:
            self.native.run(self.inputs)
            return int(self.functions.cuvil_profile_count())
        finally:
            self.functions.cuvil_profile_into(None, 0)

    def slices(self) -> Array:
        """Run once; the slices, the whole call's among them."""
        while True:
            count = self.count()
            if count <= len(self.buffer):
                return self.buffer[:count].copy()
            self.buffer = np.zeros(2 * count, _SLICE)


def _whole_ticks(run: Array) -> int:
    whole = run[run["kernel"] == _WHOLE]
    return int((whole["end"] - whole["begin"]).sum())


def _kernel_ticks(run: Array) -> int:
    own = run[(run["kernel"] != _WHOLE) & (run["thread"] == 0)]
    return int((own["end"] - own["begin"]).sum())


def _least(runs: Sequence[Array], number: int) -> tuple[int, int]:
    """The fewest ticks that a kernel took in a run, and how often it ran then."""
    best, calls = 0, 0
    for run in runs:
        own = run[(run["kernel"] == number) & (run["thread"] == 0)]
        if len(own):
            ticks = int((own["end"] - own["begin"]).sum())
            if not calls or ticks < best:
                best, calls = ticks, len(own)
    return best, calls


def _slices(run: Array, rate: float) -> tuple[ProfileSlice, ...]:
    start = int(run["begin"].min()) if len(run) else 0
    return tuple(
        ProfileSlice(
            int(s["kernel"]),
            int(s["thread"]),
            (int(s["begin"]) - start) * rate,
            (int(s["end"]) - start) * rate,
        )
        for s in run
    )


def _symbols(
    native: Artifact, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, int]:
    """Every symbol's size that inputs and outputs tell."""
    table = dict(native.symbols_for(inputs))
    for spec in native.outputs:
        for dim, size in zip(spec.shape, np.shape(outputs[spec.name])):
            if isinstance(dim, str) and dim.isidentifier():
                table.setdefault(dim, int(size))
    return table


def _entry(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the package says of its kernels. Raises ArtifactError where it is malformed."""
    found = extra.get("profile")
    if (
        not isinstance(found, Mapping)
        or not isinstance(found.get("calls"), list)
        or not all(isinstance(c, Mapping) for c in found["calls"])
        or not isinstance(found.get("caches"), list)
        or [type(c) for c in found["caches"]] != [int, int]
    ):
        raise ArtifactError("the package's description of its kernels can't be read")
    return found


def _info(number: int, record: Mapping[str, Any], table: Mapping[str, int]) -> KernelInfo:
    try:
        reads, weights, writes, flops, work = (
            _size(record[key], table) for key in ("reads", "weights", "writes", "flops", "work")
        )
        return KernelInfo(
            number,
            str(record["name"]),
            str(record["kind"]),
            tuple(map(str, record["ops"])),
            str(record["places"]),
            tuple(_tensor(t, table) for t in record["inputs"]),
            tuple(_tensor(t, table) for t in record["outputs"]),
            str(record["dtype"]),
            flops,
            work,
            None if reads is None or writes is None else reads + writes,
            weights,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"the package's description of kernel {number} can't be read: {error!r}"
        ) from None


def _size(text: Any, table: Mapping[str, int]) -> int | None:
    try:
        return size_at(text, table)
    except CuvilError:
        return None  # a name that is no identifier: its size can't be told


def _tensor(tree: Mapping[str, Any], table: Mapping[str, int]) -> str:
    dims = [_size(dim, table) for dim in tree["shape"]]
    known = [str(text if d is None else d) for d, text in zip(dims, tree["shape"])]
    return f"{tree['dtype']}[{', '.join(known)}]"
