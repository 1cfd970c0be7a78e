"""What may be chosen about a kernel where measuring is allowed: one table of knobs.

A choice is a mapping from a knob's name to a value; a knob that it does not name is as computed.
"algorithm" becomes the convolution's own attribute, all others stand in the kernel's attribute
``tune``, which codegen reads. Every value gives right results on every target: natives clamp what
does not fit (native/gemm.hpp, winograd.hpp, attention.hpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from cuvil.analysis.contraction_views import (
    is_byte_product,
    is_filtered_bf16,
    is_pair_depthwise,
    is_pair_product,
)
from cuvil.ir.core import Op
from cuvil.passes.algorithms import WINOGRAD, unfit, winograd_group
from cuvil.sym.expr import product
from cuvil.target.base import Target

TUNE = "tune"
ALGORITHM = "algorithm"
DIRECT = "direct"
Setting = Union[str, int, bool]
Choice = Mapping[str, Setting]

_CONTRACTIONS = ("conv", "matmul", "attention")
_MOST_BYTES = 1 << 30
_MOST_TILES = 1 << 12
_KEY_MULTIPLE = 32  # of every target's tile columns


@dataclass(frozen=True)
class Knob:
    """``ops`` are the contractions that have it; without any, all kernels do. ``values`` are those
    to try for a contraction (None: the kernel has none) by an algorithm; ``accepts`` is what may be
    asked for at all, such as by a table from elsewhere."""

    name: str
    ops: tuple[str, ...]
    values: Callable[[Op | None, str, Target], Sequence[Setting]]
    accepts: Callable[[object], bool]
    what: str


def contraction_of(op: Op) -> Op | None:
    """The contraction inside a kernel, if it has just one and that one has knobs."""
    if op.short != "fused":
        return None
    found = [inner for inner in op.regions[0].ops if inner.short in _CONTRACTIONS]
    if len(found) != 1:
        return None
    main = found[0]
    narrow = is_pair_product(main) or is_filtered_bf16(main) or is_pair_depthwise(main)
    narrow = narrow or (main.short == "matmul" and is_byte_product(main))
    return None if narrow else main


def algorithm_of(main: Op | None) -> str:
    """The algorithm that a contraction has now."""
    return DIRECT if main is None else str(main.attrs.get(ALGORITHM, DIRECT))


def _matrix(main: Op) -> tuple[int, int, int] | None:
    """Columns, inner dimension and row stride of the product that a direct kernel makes, None
    where they are symbolic or it makes none."""
    if main.short == "matmul":
        columns = main.type.shape[-1]
        inner = main.operands[0].type.shape[-2 if main.attrs.get("trans_a") else -1]
        sizes = (columns, inner, inner)
    elif main.short == "conv" and main.attrs.get("channels_last"):
        out, each, *taps = main.operands[1].type.shape
        groups, channels = main.attrs["groups"], main.operands[0].type.shape[-1]
        if groups == channels == out and groups > 1:
            return None  # depthwise
        inner = each
        for tap in taps:
            inner = inner * tap if isinstance(inner, int) and isinstance(tap, int) else 0
        columns = out // groups if isinstance(out, int) else out
        stride = main.attrs["strides"][-1] * channels if isinstance(channels, int) else channels
        sizes = (columns, inner, stride)
    else:
        return None
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    return sizes[0], sizes[1], sizes[2]  # type: ignore[return-value]


def _algorithms(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    if main is None or main.short != "conv" or unfit(main):
        return ()
    return (DIRECT, *WINOGRAD.values())


def _panel_bytes(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    sizes = _matrix(main) if main is not None and algorithm == DIRECT else None
    if sizes is None:
        return ()
    columns, inner, _ = sizes
    each = inner * target.nr * 4
    panels = -(-columns // target.nr)
    usual = (512 if target.vec_bytes == 64 else 160) << 10

    def panels_of(room: int) -> int:
        return min(panels, max(1, room // each))

    known, found = {panels_of(usual)}, []
    for room in (usual // 8, usual // 3, target.l2_bytes, 4 * target.l2_bytes):
        if panels_of(room) not in known:
            known.add(panels_of(room))
            found.append(room)
    return found


def _row_limits(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    sizes = _matrix(main) if main is not None and algorithm == DIRECT else None
    if main is None or sizes is None or target.mr < 8 or product(main.type.shape[:-1]) == 1:
        return ()
    _, inner, stride = sizes
    return (target.mr,) if stride % 1024 == 0 and inner > 64 else (target.mr // 2,)


def _groups(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    outputs = {name: m for m, name in WINOGRAD.items()}.get(algorithm)
    if main is None or outputs is None:
        return ()
    channels, sizes = main.operands[0].type.shape[-1], main.type.shape[:3]
    if not isinstance(channels, int):
        return ()
    usual = winograd_group(outputs, channels, target)
    tiles = 0  # not known
    if all(isinstance(size, int) for size in sizes):
        n, h, w = (int(str(size)) for size in sizes)
        tiles = n * -(-h // outputs) * -(-w // outputs)
    known, found = {-(-tiles // usual) if tiles else usual}, []
    for group in (target.mr, 2 * target.mr, 4 * target.mr, 8 * target.mr):
        groups = -(-tiles // group) if tiles else group
        if groups not in known:
            known.add(groups)
            found.append(group)
    return found


def _key_blocks(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    if main is None or main.short != "attention":
        return ()
    keys = main.operands[1].type.shape[-2]
    if not isinstance(keys, int):
        return (128, 768)
    return tuple(n for n in (128, 192, 768) if (n * 3 // 2 < keys or keys > 576) and n < 2 * keys)


def _serial(main: Op | None, algorithm: str, target: Target) -> Sequence[Setting]:
    return (True,) if target.has_threads else ()


def _whole(low: int, high: int, multiple: int = 1) -> Callable[[object], bool]:
    return lambda v: type(v) is int and low <= v <= high and v % multiple == 0


KNOBS: tuple[Knob, ...] = (
    Knob(
        ALGORITHM, ("conv",), _algorithms, lambda v: v in (DIRECT, *WINOGRAD.values()),
        "a convolution's algorithm: direct, winograd_2, winograd_4",
    ),
    Knob(
        "panel_bytes", ("conv", "matmul"), _panel_bytes, _whole(1, _MOST_BYTES),
        "bytes of packed weights that a thread keeps in its second-level cache",
    ),
    Knob(
        "row_limit", ("conv", "matmul"), _row_limits, _whole(1, 64),
        "rows of a register tile",
    ),
    Knob(
        "group", ("conv",), _groups, _whole(1, _MOST_TILES),
        "tiles that minimal filtering multiplies at once",
    ),
    Knob(
        "key_block", ("attention",), _key_blocks, _whole(_KEY_MULTIPLE, 1 << 16, _KEY_MULTIPLE),
        "keys between two rescalings of attention",
    ),
    Knob("serial", (), _serial, lambda v: v is True, "on the calling thread alone"),
)  # fmt: skip
_BY_NAME = {knob.name: knob for knob in KNOBS}


def candidates(op: Op, target: Target, parallel: bool) -> list[Choice]:
    """What to try for a kernel besides leaving it as computed: each algorithm, each with one
    other knob turned. ``parallel``: calls may use several threads."""
    main = contraction_of(op)
    now = algorithm_of(main)
    found: list[Choice] = []
    for algorithm in (now, *(a for a in _algorithms(main, now, target) if a != now)):
        base: dict[str, Setting] = {} if algorithm == now else {ALGORITHM: str(algorithm)}
        if base:
            found.append(base)
        for knob in KNOBS[1:]:
            if knob.name != "serial" or (parallel and not base):
                values = knob.values(main, str(algorithm), target)
                found += [{**base, knob.name: value} for value in values]
    return found


def choice_fault(choice: object) -> str:
    """Why something is no choice; empty if it is one."""
    if not isinstance(choice, Mapping):
        return f"a choice is a table of knobs, not {choice!r}"
    for name, value in choice.items():
        knob = _BY_NAME.get(name)
        if knob is None:
            return f"there is no knob {name!r}; the knobs are {', '.join(_BY_NAME)}"
        if not knob.accepts(value):
            return f"the knob {name!r} ({knob.what}) can't be {value!r}"
    return ""


def misfit(op: Op, choice: Choice) -> str:
    """Why a kernel can't take a choice; empty if it can."""
    main = contraction_of(op)
    for name in choice:
        ops = _BY_NAME[name].ops
        if ops and (main is None or main.short not in ops):
            return f"{name} is for f32 kernels of {' and '.join(ops)}"
    if main is not None and choice.get(ALGORITHM, DIRECT) != DIRECT:
        return unfit(main)
    return ""


def choice_text(choice: Choice) -> str:
    """``algorithm=direct panel_bytes=65536``; "default" for none."""
    return " ".join(f"{name}={value}" for name, value in choice.items()) or "default"
