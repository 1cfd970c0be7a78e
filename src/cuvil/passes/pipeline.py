"""The order of the passes: one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cuvil.ir.control import RegionView, is_control
from cuvil.ir.core import Function, Module
from cuvil.passes import (
    algebra,
    algorithms,
    attention,
    codes,
    contraction,
    control,
    decompose,
    equal_sizes,
    fallback,
    fold,
    layout,
    movement,
    pooling,
    precision,
    transposed,
    trip_count,
    tuning,
    variants,
)
from cuvil.passes.chains import CHAIN_ROWS
from cuvil.passes.cse import eliminate_common
from cuvil.passes.fusion import fuse
from cuvil.passes.knobs import Choice
from cuvil.passes.stages import check_stage
from cuvil.passes.variants import VariantPlan, add_variants
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Fuel, Rewriter, Trace
from cuvil.rewrite.rule import Rule

# Called with name, start and end (seconds of the monotonic clock), and facts.
Watch = Callable[[str, float, float, Mapping[str, Any]], None]

_CLEAN: list[Rule] = [
    *movement.RULES, *fold.RULES, *algebra.RULES, *control.RULES, *trip_count.RULES,
]  # fmt: skip


@dataclass(frozen=True)
class Pass:
    """A named step; ``run`` changes the function through the Rewriter."""

    name: str
    run: Callable[[Rewriter], object]
    rules: tuple[Rule, ...] = ()


def _rules(name: str, *rules: Rule) -> Pass:
    return Pass(name, lambda rewriter: apply_rules(rewriter, rules), rules)


@dataclass
class PassOptions:
    """What steers the pipeline: fusion on or off, fuel, whether refusals are recorded, whether
    convolutions may be done by minimal filtering, and row by row with their neighbours, what
    contractions with constants multiply, what tuning chose by kernel, and for which sizes kernels
    have versions. ``watch`` is told of each pass. ``composites`` are those that the target computes
    itself; without ``kernels`` nothing is brought into the form of the native ones. With ``codes``
    products of quantised tensors multiply bytes, whatever their sizes. ``pair_rate`` is how many
    products of bf16 the target makes in the time of one of f32, ``panel`` the columns that its
    products take at once (0: one by one)."""

    enable_fusion: bool = True
    fuel: int | None = None
    trace: Trace = field(default_factory=Trace)
    check: bool = False
    winograd: bool = True
    tuning: Mapping[str, Choice] = field(default_factory=dict)
    watch: Watch | None = None
    precision: str = "f32"
    chains: bool = True
    variants: VariantPlan | None = None
    composites: frozenset[str] = frozenset()
    kernels: bool = True
    codes: bool = False
    pair_rate: float = 1.0
    panel: int = 32


def _required(rule: Rule) -> Rule:
    return replace(rule, required=True)


def _decompositions(kept: frozenset[str]) -> list[Rule]:
    """The rules that take composites apart, but for those that are kept."""
    cut = (
        replace(r, roots=tuple(n for n in r.roots if n not in kept), required=True)
        for r in decompose.RULES
    )
    return [r for r in cut if r.roots]


def canonical_passes(options: PassOptions | None = None) -> list[Pass]:
    """captured -> canonical"""
    options = options or PassOptions()
    native = options.kernels and options.panel > 0
    supported = _rules("fallback", *map(_required, fallback.RULES), *_CLEAN)
    turned = _rules(
        "channels-last", *map(_required, layout.TURN_RULES), *layout.SINK_RULES, *_CLEAN
    )
    return [
        *([_rules("codes", *codes.RULES)] if options.codes else []),
        _rules("clean", *_CLEAN),
        Pass("common-subexpressions", eliminate_common),
        _rules("recognise", *_CLEAN, *attention.RULES),
        *([supported] if options.kernels else []),
        _rules("decompose", *_decompositions(options.composites), *_CLEAN),
        *([turned] if options.kernels else []),
        _rules("fold-weights", *contraction.FOLD_RULES, *layout.SINK_RULES, *_CLEAN),
        *([_rules("few-channels", *transposed.rules(options.panel), *_CLEAN)] if native else []),
        *([] if options.kernels else [_rules("biases", *contraction.BIAS_RULES)]),
        _rules("merge-products", *contraction.MERGE_RULES, *_CLEAN),
        _rules("place-attention", *attention.OUTPUT_RULES, *_CLEAN),
        *([_rules("separate-pools", *pooling.RULES, *_CLEAN)] if options.kernels else []),
        Pass("common-subexpressions", eliminate_common),
    ]


def _tune(choices: Mapping[str, Choice]) -> Callable[[Rewriter], object]:
    return lambda rewriter: tuning.apply_choices(rewriter, choices)


def _vary(plan: VariantPlan) -> Callable[[Rewriter], object]:
    return lambda rewriter: add_variants(rewriter, plan)


def fused_passes(options: PassOptions) -> list[Pass]:
    """canonical -> fused"""
    filtering = [_rules("narrow-filtering", precision.narrow_filtering(options.pair_rate))]
    depthwise = precision.DEPTHWISE_RULES if options.kernels else []
    narrow = [
        *(filtering if options.winograd else []),
        _rules("narrow-operands", *precision.RULES, *depthwise),
        Pass("common-subexpressions", eliminate_common),
        _rules("narrow-stores", *precision.STORE_RULES),
        *([_rules("narrow-activations", *precision.MAP_RULES)] if options.kernels else []),
        Pass("common-subexpressions", eliminate_common),
    ]
    return [
        *(narrow if options.precision == "bf16" else []),
        *([_rules("choose-algorithms", *algorithms.RULES)] if options.winograd else []),
        *([_rules("equal-sizes", *equal_sizes.RULES)] if options.enable_fusion else []),
        Pass("fuse", lambda rewriter: fuse(rewriter, options.enable_fusion, options.chains)),
        *([Pass(tuning.LABEL, _tune(options.tuning))] if options.tuning else []),
        *([Pass(variants.LABEL, _vary(options.variants))] if options.variants else []),
    ]


def everywhere(function: Function, step: Pass, fuel: Fuel, trace: Trace | None = None) -> None:
    """Run a pass on a function, and on each region of control flow as if it were one.

    Constraints that arise in a region hold in that region alone.
    """
    rewriter = Rewriter(function, fuel, trace)
    known = len(function.constraints)
    step.run(rewriter)
    if isinstance(function, RegionView):
        rewriter.require(function.body, function.constraints[known:])
    for op in list(function.body.ops):
        if is_control(op):
            for block in op.regions:
                everywhere(RegionView(function, op, block), step, fuel, trace)


def _timed(function: Function, step: Pass, fuel: Fuel, options: PassOptions) -> None:
    start, before = time.perf_counter(), sum(options.trace.fired.values())
    everywhere(function, step, fuel, options.trace)
    if options.watch is not None:
        end = time.perf_counter()
        count = sum(1 for _ in function.body.ops)
        facts = {"rewrites": sum(options.trace.fired.values()) - before, "ops after": count}
        options.watch(step.name, start, end, facts)


def change_names() -> set[str]:
    """The names of all rules, and of the passes that have none."""
    passes = [
        *canonical_passes(PassOptions(codes=True)), *canonical_passes(PassOptions(kernels=False)),
        *fused_passes(PassOptions(precision="bf16")),
    ]  # fmt: skip
    names = {item.name for step in passes for item in (step.rules or (step,))}
    return {CHAIN_ROWS, tuning.LABEL, variants.LABEL, *names}


def lower(module: Module, stage: str, options: PassOptions | None = None) -> Module:
    """Bring a captured module to ``stage`` in place; returns it."""
    options = options or PassOptions()
    fuel = Fuel(options.fuel)
    plan = [("canonical", canonical_passes(options)), ("fused", fused_passes(options))]
    for name, passes in plan:
        if module.stage == stage:
            break
        for step in passes:
            _timed(module.main, step, fuel, options)
        module.stage = name
        check_stage(module, options.composites)
    return module
