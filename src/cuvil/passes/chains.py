"""Which convolutions are computed row by row in one kernel (native/chain.hpp).

A depthwise convolution may take in the 1x1 convolution that it reads (with the maps between), and
the one that reads it, so that what lies between never leaves the caches. That pays where it would
not stay in them anyway; what a thread keeps of it has to stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from cuvil.analysis.contraction_views import has_kernel, is_depthwise
from cuvil.ir.core import Op, Value
from cuvil.ir.types import F32
from cuvil.passes.algorithms import BATCH, SIDE, usual_size
from cuvil.passes.depth import fusion_class
from cuvil.passes.grouping import CONTRACTION, Group, Grouping
from cuvil.rewrite.rewriter import Rewriter
from cuvil.sym.facts import Facts

CHAIN_ROWS = "chain-rows"

_WINDOWS = ((3, 3), (5, 5))
_FEWEST_CHANNELS = 16  # a whole vector on every machine
# Bytes: a usual second cache, and what is written faster than it is computed.
_LEAST_EXPANDED = 1 << 20
_LEAST_CONVOLVED, _CONVOLVED_CHANNELS = 3 << 20, 40
_MOST_KEPT = 512 << 10

_NO_POINTWISE = "there is no 1x1 convolution in f32"
_OTHER_READER = "what lies between has another reader"
_TOO_LARGE = "rows and weights are too large to stay in the caches"


def chain_rows(rewriter: Rewriter, grouping: Grouping) -> None:
    """Join groups around depthwise convolutions.

    conv1x1 -> maps -> depthwise -> maps -> conv1x1 -> maps becomes one group, or one without the
    last or the first convolution. A 1x1 convolution between two depthwise ones goes to the second,
    for which it has more to write.
    """
    facts = rewriter.context.facts
    refused: list[tuple[Group, Op, _Sizes, str]] = []
    for group in list(grouping.groups):
        op = _main(group)
        if op is None or not is_depthwise(op):
            continue
        reason = _unfit(op)
        if reason:
            rewriter.trace.refuse(CHAIN_ROWS, op, reason)
            continue
        sizes = _Sizes.of(op, facts)
        expand, reason = _before(grouping, op, sizes)
        if expand is not None and rewriter.begin(CHAIN_ROWS, op):
            sizes = replace(sizes, kept=sizes.rows + _weights(expand))
            grouping.join(expand, group)
        refused.append((group, op, sizes, reason))
    for group, op, sizes, reason in refused:
        project, other = _after(grouping, group, sizes)
        if project is not None and rewriter.begin(CHAIN_ROWS, op):
            grouping.join(group, project)
        elif reason:
            rewriter.trace.refuse(CHAIN_ROWS, op, f"before it, {reason}; after it, {other}")


def _main(group: Group) -> Op | None:
    """The contraction of a group that has just one."""
    if group.kind != CONTRACTION:
        return None
    found = [op for op in group.ops if fusion_class(op) == "contraction"]
    return found[0] if len(found) == 1 else None


def _unfit(op: Op) -> str:
    """Why a depthwise convolution has no kernel of this kind; empty if it has."""
    if not has_kernel(op) or op.type.rank != 4 or not _multiplies_floats(op):
        return "it is no convolution of images in f32 with constant weights"
    strides = op.attrs["strides"]
    if op.operands[1].type.shape[2:] not in _WINDOWS or set(op.attrs["dilations"]) != {1}:
        return "its window is not 3x3 or 5x5"
    if strides[0] != strides[1] or strides[0] not in (1, 2):
        return "its strides are not 1 or 2"
    if op.attrs["groups"] < _FEWEST_CHANNELS:
        return f"it has fewer than {_FEWEST_CHANNELS} channels"
    return ""


def _multiplies_floats(op: Op) -> bool:
    return all(v.type.dtype == F32 for v in op.operands)


def _is_pointwise(op: Op) -> bool:
    """Whether it is a product of every pixel with one matrix."""
    attrs = op.attrs
    if op.short != "conv" or not has_kernel(op) or op.type.rank != 4 or attrs["groups"] != 1:
        return False
    if not _multiplies_floats(op):
        return False
    plain = {*attrs["strides"], *op.operands[1].type.shape[2:]} == {1}
    return plain and set(attrs["pads_lo"]) == {0} == set(attrs["pads_hi"])


def _before(grouping: Grouping, op: Op, sizes: _Sizes) -> tuple[Group | None, str]:
    """The group of the 1x1 convolution whose only result ``op`` alone reads, or why there is
    none to join."""
    value = op.operands[0]
    group = grouping.of.get(id(value.op)) if value.op is not None else None
    main = _main(group) if group is not None else None
    if group is None or main is None or not _is_pointwise(main):
        return None, _NO_POINTWISE
    if not _leaves_only(grouping, group, value, op):
        return None, _OTHER_READER
    reason = sizes.against_expanding(_weights(group))
    return (None, reason) if reason else (group, "")


def _after(grouping: Grouping, group: Group, sizes: _Sizes) -> tuple[Group | None, str]:
    """The group of the 1x1 convolution that alone reads the only result of ``group``, or why
    there is none to join."""
    members = {id(op) for op in group.ops}
    left = [
        r for op in group.ops for r in op.results
        if any(not grouping.inside(user, members) for user in r.users)
    ]  # fmt: skip
    reader = left[0].only_user if len(left) == 1 else None
    if reader is None:
        return None, _OTHER_READER
    after = grouping.of.get(id(reader))
    main = _main(after) if after is not None else None
    if after is None or main is not reader or not _is_pointwise(reader):
        return None, _NO_POINTWISE
    if reader.operands[0] is not left[0] or left[0].type.dtype != F32:
        return None, _NO_POINTWISE
    reason = sizes.against_projecting(_weights(after))
    return (None, reason) if reason else (after, "")


def _leaves_only(grouping: Grouping, group: Group, value: Value, reader: Op) -> bool:
    """Whether ``value`` is all that is read of a group, once and by ``reader``."""
    members = {id(op) for op in group.ops}
    results = [r for op in group.ops for r in op.results if r is not value]
    alone = all(grouping.inside(user, members) for r in results for user in r.users)
    return alone and value.only_user is reader and value.type.dtype == F32


def _weights(group: Group) -> int:
    """Bytes of the weights of a group's convolution."""
    main = _main(group)
    assert main is not None
    sizes = [d for d in main.operands[1].type.shape if isinstance(d, int)]
    return 4 * prod(sizes)


@dataclass(frozen=True)
class _Sizes:
    """Bytes of what a depthwise convolution reads and makes, of the rows under its window, and of
    what is kept in the caches if it takes in the convolution before it (0: it does not)."""

    read: int
    made: int
    rows: int
    channels: int
    kept: int = 0

    @staticmethod
    def of(op: Op, facts: Facts) -> _Sizes:
        channels, k = op.attrs["groups"], op.operands[1].type.shape[-1]
        assert isinstance(channels, int) and isinstance(k, int)
        n = usual_size(op.type.shape[0], facts, BATCH)
        h, w = (usual_size(d, facts, SIDE) for d in op.operands[0].type.shape[1:3])
        oh, ow = (usual_size(d, facts, SIDE) for d in op.type.shape[1:3])
        pixel = channels * 4
        return _Sizes(n * h * w * pixel, n * oh * ow * pixel, k * w * pixel, channels)

    def against_expanding(self, weights: int) -> str:
        """Why the expanded rows should be stored; empty if they should not."""
        if self.read < _LEAST_EXPANDED:
            return "what lies between stays in the caches"
        return _TOO_LARGE if self.rows + weights > _MOST_KEPT else ""

    def against_projecting(self, weights: int) -> str:
        """Why the convolved pixels should be stored; empty if they should not."""
        if self.kept + weights > _MOST_KEPT:
            return _TOO_LARGE
        if self.kept or (self.made >= _LEAST_CONVOLVED and self.channels >= _CONVOLVED_CHANNELS):
            return ""
        return "what lies between is written fast enough"
