"""Which algorithm a contraction's kernel uses, where there are several.

A 3x3 convolution of stride 1 may be done by minimal filtering (native/winograd.hpp): fewer
products, but transforms on both sides and weights that are 16/9 or 36/9 times as large. The choice
is by cost, in multiply-adds of a kernel at its peak: what a transform costs for each point and
channel, and what reading a byte of weights costs where they come from memory, as they do in a
model larger than the caches.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.ir.core import Block, Op, Value
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import Dim, evaluate, symbols_of
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

WINOGRAD = {2: "winograd_2", 4: "winograd_4"}
# Sizes that a symbol is taken to have for the estimate, within its bounds: a leading dimension is
# mostly a batch of one, the others are sides of an image.
BATCH, SIDE = 1, 256
_PER_POINT = 8.0  # multiply-adds' worth of a transform, for each point of each channel
_PER_BYTE = 3.0
_EFFICIENCY = 0.9  # of the products at each point, which are many short ones
DIRECT_IS_FINE = "the direct sum is as fast, or nearly so with smaller weights"
_GAIN_OF_FIRST, _GAIN_OF_LARGER = 1.2, 1.1  # what larger weights must bring at least
_RATE_OF_VECTORS = 2.0  # products of bf16 in the time of one of f32, without a matrix unit
_GAIN_OF_PAIRS = 1.1  # the same for weights of bf16, which are small still
# Pairs are multiplied so fast that what surrounds them counts: the end of each output, and reading
# the left operand where few columns share it.
_PER_OUTPUT = 13.0
_FEW_COLUMNS, _COLUMNS = 1.4, 16


def winograd_cost(
    outputs: int, sizes: Sequence[int], channels: int, out_channels: int, pair_rate: float = 0
) -> float:
    """The cost of minimal filtering with tiles of ``outputs`` x ``outputs`` (1: of the direct sum)
    for an output of ``sizes`` (n, h, w), in multiply-adds of f32. Unless it is 0, the products are
    of bf16, and the machine makes ``pair_rate`` times as many of them."""
    n, h, w = sizes
    tiles = n * -(-h // outputs) * -(-w // outputs)
    points = 9 if outputs == 1 else (outputs + 2) ** 2
    products = tiles * points * channels * out_channels / (pair_rate or 1.0)
    reads = points * channels * out_channels * (2 if pair_rate else 4) * _PER_BYTE
    if outputs == 1 and pair_rate:
        few = _FEW_COLUMNS if out_channels <= _COLUMNS else 1.0
        return few * products + tiles * out_channels * _PER_OUTPUT + reads
    if outputs == 1:
        return products + reads
    transforms = tiles * points * (channels + out_channels) * _PER_POINT
    return products / _EFFICIENCY + transforms + reads


def winograd_row(steps: int) -> int:
    """Words between transformed pixels of ``steps`` words (native gemm_scratch_stride)."""
    return 16 * ((steps + 15) // 16 | 1)


def winograd_group(outputs: int, steps: int, target: Target) -> int:
    """Tiles of ``outputs`` x ``outputs`` that are multiplied together (native winograd_group)."""
    room = (1100 << 10) if target.vec_bytes == 64 else (400 << 10)
    fit = room // ((outputs + 2) ** 2 * winograd_row(steps) * 4) // target.mr
    return min(max(fit, 1), 4) * target.mr


def best_tile(sizes: Sequence[int], channels: int, out_channels: int) -> int:
    """The tile with the least cost: 4 or 2, or 1 for the direct sum."""
    cost = {m: winograd_cost(m, sizes, channels, out_channels) for m in (1, 2, 4)}
    small = cost[1] >= _GAIN_OF_FIRST * cost[2]
    if cost[1] >= _GAIN_OF_FIRST * cost[4] and cost[2] >= _GAIN_OF_LARGER * cost[4]:
        return 4
    return 2 if small else 1


def best_tile_bf16(
    sizes: Sequence[int], channels: int, out_channels: int, pair_rate: float
) -> int:
    """The same where 4 multiplies f32, 2 and 1 multiply bf16 (native/winograd_bf16.hpp); a matrix
    unit is for the direct sum alone."""
    direct = winograd_cost(1, sizes, channels, out_channels, pair_rate)
    large = winograd_cost(4, sizes, channels, out_channels)
    small = winograd_cost(2, sizes, channels, out_channels, min(pair_rate, _RATE_OF_VECTORS))
    if direct >= _GAIN_OF_FIRST * large and small >= large:
        return 4
    return 2 if direct >= _GAIN_OF_PAIRS * small else 1


def usual_size(dim: Dim, facts: Facts, usual: int) -> int:
    """A dimension, its symbols at usual sizes."""
    table = {}
    for name in symbols_of(dim):
        low, high = facts.symbols.get(name, (1, None))
        table[name] = max(low, usual if high is None else min(usual, high))
    return max(1, evaluate(dim, table))


@rule("minimal-filtering", "conv")
def minimal_filtering(op: Op, context: Context) -> Outcome:
    """conv(x, w [o, c, 3, 3]) -> conv(x, w) {algorithm = "winograd_m"}"""
    reason = "its algorithm is chosen" if "algorithm" in op.attrs else unfit(op)
    if reason:
        return Refusal(reason)
    tile = best_tile(*usual_sizes(op, context.facts))
    if tile == 1:
        return Refusal(DIRECT_IS_FINE)

    def action(rw: Rewriter) -> list[Value]:
        return [rw.op("conv", op.operands, {**op.attrs, "algorithm": WINOGRAD[tile]}).result]

    return action


def usual_sizes(op: Op, facts: Facts) -> tuple[list[int], int, int]:
    """A convolution's output (n, h, w), and its channels: of the input and of the output."""
    out_channels, channels = (usual_size(d, facts, 1) for d in op.operands[1].type.shape[:2])
    n, *sides = op.type.shape[:3]
    sizes = [usual_size(n, facts, BATCH), *(usual_size(d, facts, SIDE) for d in sides)]
    return sizes, channels, out_channels


def unfit(op: Op) -> str:
    """Why a convolution, by itself or inside a kernel, can't be done by minimal filtering; empty
    if it can."""
    attrs, weight = op.attrs, op.operands[1]
    kernel = weight.owner.parent if isinstance(weight.owner, Block) else None
    source = kernel.operands[weight.index].op if isinstance(kernel, Op) else weight.op
    if not attrs.get("channels_last") or source is None or source.short != "constant":
        return "its channels are not last, or its weights are not constant"
    if weight.type.shape[2:] != (3, 3) or attrs["groups"] != 1:
        return "it is no 3x3 convolution over all channels"
    if {*attrs["strides"], *attrs["dilations"]} != {1}:
        return "it has strides or dilations"
    if op.operands[0].type.dtype.name != "f32" or op.type.dtype.name != "f32":
        return "it is not in f32"
    return ""


RULES: list[Rule] = [minimal_filtering]
