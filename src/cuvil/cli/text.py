"""How sizes, signatures and tables are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from cuvil.ir.signature import Signature
from cuvil.package.manifest import Manifest
from cuvil.runtime.host import HostPlan

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(count: int) -> str:
    """1536 to "1.5 KiB"."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{count} B"


def milliseconds(seconds: float) -> str:
    """Three significant digits or whole milliseconds: "0.0123 ms", "1230 ms"."""
    value = seconds * 1e3
    return f"{value:.3g} ms" if value < 999.5 else f"{value:.0f} ms"


def signature_text(signature: Signature) -> str:
    """``forall batch, seq. (ids: i64[batch, seq]) -> out: f32[batch, 384]``; sizes that the call
    finds stand before the outputs: ``(x: f32[4]) -> exists kept. out: f32[kept]``"""
    names = ", ".join(symbol.name for symbol in signature.early)
    late = ", ".join(sorted(signature.late))
    inputs = ", ".join(map(str, signature.inputs))
    outputs = ", ".join(map(str, signature.outputs))
    outputs = outputs if len(signature.outputs) == 1 else f"({outputs})"
    outputs = f"exists {late}. {outputs}" if late else outputs
    return f"{f'forall {names}. ' if names else ''}({inputs}) -> {outputs}"


def public_signature(manifest: Manifest) -> Signature:
    """The signature with the inputs and outputs that only Python has: strings. To be shown."""
    host = manifest.extra.get("host")
    if host is None:
        return manifest.signature
    plan = HostPlan.read(host, manifest.signature)
    return replace(manifest.signature, inputs=plan.inputs, outputs=plan.outputs)


def facts(signature: Signature) -> list[str]:
    """Bounds and constraints, each with its origin."""
    bounds = [
        f"{symbol.rule}  ({symbol.source or symbol.origin or 'bounds'})"
        for symbol in signature.symbols
    ]
    return bounds + [f"{c.text}  ({c.origin})" for c in signature.constraints]


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A plain table; columns whose header starts with ">" are aligned to the right."""
    made = Table(
        title=title or None,
        box=None,
        pad_edge=False,
        header_style="bold",
        show_header=any(headers),
    )
    for header in headers:
        right = header.startswith(">")
        made.add_column(header.removeprefix(">"), justify="right" if right else "left")
    for row in rows:
        made.add_row(*[Text(str(cell)) for cell in row])
    return made


def short_cpu(cpu: str) -> str:
    """A CPU's name without the list of features that it may carry."""
    name, more, _ = cpu.partition("+")
    return f"{name}+..." if more else name
