"""What was found when a model's kernels were timed: plain data, and three ways to look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuvil.errors.words import counted
from cuvil.runtime.ceilings import Ceilings
from cuvil.runtime.chrome_trace import Slice, chrome_trace

HEADERS = (
    ">#", "kernel", ">calls", ">time", ">share", ">GFLOP/s", ">GB/s", ">flop/byte", "bound",
    ">of ceiling", "result", "from",
)  # fmt: skip
_PLACE = 48
_SHORTEST = 50e-9  # of one execution: counters step by up to 10 ns, so less gives no rate


@dataclass(frozen=True)
class KernelInfo:
    """One call in the entry's code, its sizes as the profiled inputs have them.

    Of one execution: ``flops``, ``work`` (those that its algorithm really makes),
    ``activation_bytes`` (read and written) and ``weight_bytes``; None where a size was not to be
    known.
    """

    number: int
    name: str
    kind: str
    ops: tuple[str, ...]
    places: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str
    flops: int | None
    work: int | None
    activation_bytes: int | None
    weight_bytes: int | None


@dataclass(frozen=True)
class KernelTime:
    """A kernel's ``seconds`` in one call of the model, in which it ran ``calls`` times.

    ``bound`` is what limits it by this machine's ceilings, "compute", "L2", "L3" or "DRAM", and
    ``least`` the seconds it would take there; "" and None where that can't be told.
    """

    info: KernelInfo
    calls: int
    seconds: float
    bound: str = ""
    least: float | None = None

    @property
    def flops(self) -> int | None:
        """Operations in one call of the model."""
        return None if self.info.flops is None else self.info.flops * self.calls

    @property
    def bytes(self) -> int | None:
        """Bytes read and written in one call of the model."""
        if self.info.activation_bytes is None or self.info.weight_bytes is None:
            return None
        return (self.info.activation_bytes + self.info.weight_bytes) * self.calls

    @property
    def flop_rate(self) -> float | None:
        """Operations a second; None, as the other rates, for what is too short to be timed."""
        return _over(self.flops, self._told)

    @property
    def byte_rate(self) -> float | None:
        """Bytes a second."""
        return _over(self.bytes, self._told)

    @property
    def intensity(self) -> float | None:
        """Operations a byte."""
        return _over(self.flops, self.bytes)

    @property
    def of_ceiling(self) -> float | None:
        """The share of what this machine could do; 1 is its ceiling."""
        return _over(self.least, self._told)

    @property
    def _told(self) -> float | None:
        return self.seconds if self.seconds >= _SHORTEST * self.calls else None


@dataclass(frozen=True)
class ProfileSlice:
    """A kernel's time on a thread, in seconds from the start of the call."""

    number: int
    thread: int
    begin: float
    end: float


@dataclass(frozen=True)
class Profile:
    """The kernels of one model at one set of shapes.

    ``seconds`` is a whole call in the library, without Python, and ``rest`` what of one was spent
    outside kernels; they and each kernel's are the least of ``runs`` calls. ``slices`` are of the
    fastest of them.
    """

    model: str
    inputs: str
    threads: int
    runs: int
    seconds: float
    rest: float
    kernels: tuple[KernelTime, ...]
    slices: tuple[ProfileSlice, ...]
    ceilings: Ceilings

    @property
    def kernel_seconds(self) -> float:
        """All kernels together."""
        return sum(k.seconds for k in self.kernels)

    def share(self, kernel: KernelTime) -> float:
        """A kernel's part of all kernels' time."""
        return kernel.seconds / self.kernel_seconds if self.kernel_seconds else 0.0

    def rows(self, limit: int | None = None) -> list[list[str]]:
        """Cells under HEADERS, the slowest kernels first."""
        ordered = sorted(self.kernels, key=lambda k: -k.seconds)
        return [self._row(k) for k in ordered[:limit]]

    def _row(self, k: KernelTime) -> list[str]:
        places = k.info.places
        return [
            str(k.info.number),
            k.info.name.removeprefix("k_"),
            str(k.calls),
            time_text(k.seconds),
            f"{self.share(k):.1%}",
            _number(k.flop_rate, 1e9),
            _number(k.byte_rate, 1e9),
            _number(k.intensity, 1),
            k.bound,
            "" if k.of_ceiling is None else f"{k.of_ceiling:.0%}",
            ", ".join(k.info.outputs),
            places if len(places) <= _PLACE else places[: _PLACE - 3] + "...",
        ]

    def summary(self) -> list[str]:
        """Lines that say what the figures are of."""
        c = self.ceilings
        reads = ", ".join(f"{level} {rate / 1e9:.0f}" for level, rate in c.read.items())
        least = f"{time_text(self.seconds)} a call, the least of {self.runs}"
        kernels = f"kernels {time_text(self.kernel_seconds)}, outside them {time_text(self.rest)}"
        peak = f"{c.flops / 1e9:.0f} GFLOP/s f32, {c.pair_flops / 1e9:.0f} bf16"
        at = f"{self.model} at {self.inputs or 'no inputs'}"
        return [
            f"{at}, {counted(self.threads, 'thread')}: {least}; {kernels}",
            f"this machine with {counted(c.threads, 'thread')}: {peak}; reads in GB/s: {reads}",
        ]

    def table(self, limit: int | None = None) -> str:
        """The slowest kernels first (all, or ``limit`` of them), as plain text."""
        headers = [h.removeprefix(">") for h in HEADERS]
        rows = [headers, *self.rows(limit)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(headers))]
        lines = [
            "  ".join(
                cell.rjust(width) if title.startswith(">") else cell.ljust(width)
                for cell, width, title in zip(row, widths, HEADERS)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*self.summary(), "", *lines])

    def as_dict(self) -> dict[str, Any]:
        """Plain data: seconds, operations and bytes."""
        return {
            "model": self.model,
            "inputs": self.inputs,
            "threads": self.threads,
            "runs": self.runs,
            "seconds": self.seconds,
            "kernel_seconds": self.kernel_seconds,
            "rest_seconds": self.rest,
            "ceilings": self.ceilings.as_dict(),
            "kernels": [self._kernel(k) for k in self.kernels],
        }

    def _kernel(self, k: KernelTime) -> dict[str, Any]:
        return {
            "number": k.info.number,
            "name": k.info.name,
            "kind": k.info.kind,
            "ops": list(k.info.ops),
            "places": k.info.places,
            "inputs": list(k.info.inputs),
            "outputs": list(k.info.outputs),
            "calls": k.calls,
            "seconds": k.seconds,
            "share": self.share(k),
            "flops": k.flops,
            "work": None if k.info.work is None else k.info.work * k.calls,
            "bytes": k.bytes,
            "gflops": _scaled(k.flop_rate),
            "gbs": _scaled(k.byte_rate),
            "intensity": k.intensity,
            "bound": k.bound,
            "of_ceiling": k.of_ceiling,
        }

    def trace(self) -> dict[str, Any]:
        """The fastest call as Chrome's trace JSON: a slice a kernel, a track a thread."""
        known = {k.info.number: k for k in self.kernels}
        slices = [
            Slice(
                known[s.number].info.name.removeprefix("k_") if s.number in known else self.model,
                "kernel" if s.number in known else "call",
                s.begin,
                s.end,
                s.thread,
                self._trace_args(known.get(s.number), s),
            )
            for s in self.slices
        ]
        used = sorted({s.thread for s in self.slices} | {0})
        tracks = {t: f"thread {t}" if t else "calling thread" for t in used}
        return chrome_trace(f"{self.model} at {self.inputs}", tracks, slices)

    def _trace_args(self, k: KernelTime | None, s: ProfileSlice) -> dict[str, Any]:
        if k is None:
            return {"inputs": self.inputs, "threads": self.threads}
        if s.thread:
            return {"kernel": k.info.number}  # its part of what the calling thread's slice counts
        info = k.info
        size = None if k.bytes is None else k.bytes // k.calls
        return {
            "kernel": info.number,
            "ops": " ".join(info.ops),
            "source": info.places,
            "inputs": ", ".join(info.inputs),
            "outputs": ", ".join(info.outputs),
            "flops": info.flops,
            "bytes": size,
            "gflops": _scaled(k.flop_rate),
            "gbs": _scaled(k.byte_rate),
            "bound": k.bound,
        }


def limit_of(
    info: KernelInfo, ceilings: Ceilings, touched: int
) -> tuple[str, float | None]:
    """What bounds one execution of a kernel, and the seconds it takes at that ceiling.

    A roofline of two reads: activations come from where this kernel's own bytes fit, weights from
    where all that a call touches (``touched`` bytes) fits. Writes count as reads.
    """
    if info.activation_bytes is None or info.weight_bytes is None or info.work is None:
        return "", None
    near = ceilings.level(info.activation_bytes + info.weight_bytes)
    far = ceilings.level(touched)
    moves = [
        (info.activation_bytes / ceilings.read[near], near),
        (info.weight_bytes / ceilings.read[far], far),
    ]
    memory = sum(seconds for seconds, _ in moves)
    peak = ceilings.peak(info.dtype)
    compute = info.work / peak if peak else 0.0
    bound = "compute" if compute > memory else max(moves)[1]
    return bound, max(compute, memory)


def time_text(seconds: float) -> str:
    """Three digits: "1.23 ms", "45.6 us", "789 ns"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.0f} ns"


def _over(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def _scaled(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e9


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.3g}"
