"""What a model looks like on its way: texts of stages, refusals of rules, operators."""

from __future__ import annotations

from typing import Any

from cuvil.api.capture import capture
from cuvil.api.compiler import Compiler
from cuvil.api.operators import operator_table, unsupported_table
from cuvil.build.llvm_text import llvm_text
from cuvil.errors import InputError, UnsupportedOpError
from cuvil.errors.arguments import TEXT
from cuvil.ir.clone import clone_module
from cuvil.ir.dot import print_dot
from cuvil.ir.printer import print_module
from cuvil.passes.memory import plan_text
from cuvil.passes.pipeline import change_names
from cuvil.rewrite.rewriter import Trace

STAGES = ("captured", "canonical", "fused", "planned", "cxx", "llvm", "mlir", "dot")
_TEXT_STAGES = ("captured", "canonical", "fused")

def stage_text(compiler: Compiler, stage: str) -> str:
    """The module's text at a stage.

    "mlir" is the captured module's generic text without places; "dot" the fused module as a
    graph, "dot:captured" and "dot:canonical" those.
    """
    TEXT("stage", stage)
    kind, _, at = stage.partition(":")
    if kind not in STAGES or (at and (kind != "dot" or at not in _TEXT_STAGES)):
        raise InputError(f"there is no stage {stage!r}", hint=f"stages are {', '.join(STAGES)}")
    if compiler.measures:
        raise InputError(
            "a stage is shown with a table of tuning, not with seconds to measure for",
            hint="give the table of a compiled model, or the package's path; sizes as variants",
        )
    module = capture(compiler.request).module
    if kind == "mlir":
        return print_module(module)
    if kind == "dot":
        return print_dot(compiler.lower(module, at or "fused"))
    if kind in _TEXT_STAGES:
        return print_module(compiler.lower(module, kind), locations=True)
    lowered = compiler.lower(module, "fused")
    if kind == "planned":
        return plan_text(lowered.main) + print_module(lowered)
    generated = compiler.generate(lowered)
    if kind == "llvm":
        return llvm_text(generated.sources, compiler.target, compiler.options)
    if not generated.sources:
        raise InputError(
            f"what is built for {compiler.target.name} is not written as C++",
            hint="show another stage, or choose another target",
        )
    return "\n".join(f"// {name}\n{text}" for name, text in generated.sources.items())


def refusals(compiler: Compiler, rule: str) -> dict[str, int] | None:
    """Why a rewrite rule did not fire: each place and reason, with how often it was given.

    None for a rule that was never tried on this model. Raises InputError if there is none of
    that name.
    """
    trace = Trace(detailed=True)
    compiler.lower(capture(compiler.request).module, "fused", trace)
    tried = {*trace.fired, *trace.refused}
    known = sorted(tried | change_names())
    if rule not in known:
        raise InputError(f"there is no rule {rule!r}", hint=f"rules are {', '.join(known)}")
    if rule not in tried:
        return None
    return dict(trace.refused.get(rule, {}))


def operators(compiler: Compiler) -> dict[str, Any]:
    """See :func:`cuvil.debug_trace`."""
    try:
        module = capture(compiler.request).module
        fused = compiler.lower(clone_module(module), "fused")
    except UnsupportedOpError as error:
        nodes = unsupported_table(error.nodes)
        return {"supported": False, "operators": [], "kernels": [], "unsupported": nodes}
    table = operator_table(module.main, fused, compiler.backend.missing(fused))
    return {"model": module.name, "supported": not table["unsupported"], **table}
