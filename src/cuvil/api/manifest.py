"""What a package says of its model: signature, call, origin."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.analysis.cost import kernel_cost
from cuvil.build.library import built_variants
from cuvil.errors import ShapeConstraintError
from cuvil.ir.control import inner_checks
from cuvil.ir.core import Function, Module, Op
from cuvil.ir.late import call_symbols, checked, late_symbols
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.ir.types import TensorType
from cuvil.ops.custom import CUSTOM
from cuvil.target.base import Target
from cuvil.tune.table import TuningTable
from cuvil.verify.layerwise import ops_inside, places

ORIGINS = "origins"  # of symbols, among a module's source facts
_NONE: Mapping[str, Any] = {"kind": "none"}


def plain(source: Mapping[str, Any]) -> dict[str, Any]:
    """Facts about the source as JSON has them; what it has not becomes text."""
    return dict(json.loads(json.dumps(source, default=str)))


def call_of(module: Module) -> dict[str, Any] | None:
    """How flat inputs and outputs lie in the user's call, as runtime/tree.py reads it.

    Arguments that were given by keyword may be given by position too, where the model takes them
    so; a parameter left out in the example stays left out, or is given its default.
    """
    call = {key: value for key, value in module.call.items() if key != "host"}
    if not call:
        return None
    found: dict[str, Any] = {"outputs": call["output_tree"]} if call.get("output_tree") else {}
    if call.get("input_tree") is None:
        return found
    args, kwargs = call["input_tree"]["items"]
    names = list(call.get("arg_names", ()))
    items = list(args["items"])
    rest = dict(zip(kwargs["keys"], kwargs["items"]))
    last = max((i for i, name in enumerate(names) if name in rest), default=-1)
    items += [rest.pop(name, _NONE) for name in names[len(items) : last + 1]]
    found["args"] = {"kind": "tuple", "items": items}
    found["parameters"] = names[: len(items)]
    if rest:
        found["kwargs"] = {"kind": "dict", "keys": list(rest), "items": list(rest.values())}
    given = {*found["parameters"], *rest}
    defaults = {k: v for k, v in call.get("defaults", {}).items() if k not in given}
    if defaults:
        nodes = [_NONE if v is None else {"kind": "const", "value": v} for v in defaults.values()]
        found["defaults"] = {"kind": "dict", "keys": list(defaults), "items": nodes}
        found["more"] = names[len(items) :]
    return found


def extra_of(
    module: Module,
    kernels: Sequence[str],
    profile: Mapping[str, Any] | None = None,
    tuning: TuningTable | None = None,
) -> dict[str, Any]:
    """The manifest's ``extra``: the kernels' names, the steps that run in Python, what a profile
    says of the kernels' calls, if the library is built for one, and what tuning found."""
    host = module.call.get("host")
    functions = sorted(python_functions(module))
    return (
        {"kernels": list(kernels)}
        | ({} if host is None else {"host": plain(host)})
        | ({"host_functions": functions} if functions else {})
        | ({} if profile is None else {"profile": profile})
        | ({} if tuning is None else {"tuning": tuning.as_dict()})
    )


def machine_of(target: Target, sources: Mapping[str, str]) -> dict[str, Any]:
    """The manifest's ``extra`` of what machines run it: the least kernel of the system, and the
    variants that a library with these generated sources has."""
    variants = [
        {"name": v.name, "cpu": v.mcpu, "cpu_features": v.features, "vector_bits": v.vector_bits}
        for v in built_variants(sources, target)
    ]
    return ({"min_kernel": target.min_kernel} if target.min_kernel else {}) | (
        {"variants": variants} if variants else {}
    )


def profile_of(calls: Sequence[tuple[str, Op]], target: Target) -> dict[str, Any]:
    """What runtime/profiler.py reads: the calls of kernels in order, with sizes as text over the
    symbols, and the caches that the code was made for."""
    return {
        "calls": [_call_record(name, op) for name, op in calls],
        "caches": [target.l2_bytes, target.l3_bytes],
    }


def _call_record(name: str, op: Op) -> dict[str, Any]:
    cost = kernel_cost(op)
    sizes = {"flops": cost.flops, "work": cost.work, "reads": cost.reads, "weights": cost.weights}
    return {
        "name": name,
        "kind": op.attrs["kind"] if op.short == "fused" else "alone",
        "ops": ops_inside(op),
        "places": places(op),
        "inputs": [_tensor(v.type) for v in op.operands],
        "outputs": [_tensor(v.type) for v in op.results],
        "dtype": cost.dtype,
        "writes": str(cost.writes),
        **{key: str(size) for key, size in sizes.items()},
    }


def _tensor(type: TensorType) -> dict[str, Any]:
    return {"dtype": type.dtype.name, "shape": [str(d) for d in type.shape]}


def python_functions(module: Module) -> dict[str, Callable[..., Any]]:
    """The registered operators of a module that are Python functions, by name."""
    registered = (CUSTOM.of(op.name) for op in module.main.walk())
    return {op.name: op.python for op in registered if op is not None and op.python is not None}


def signature_of(function: Function, origins: Mapping[str, str] | None = None) -> Signature:
    """The face of a function, for its manifest; ``origins`` says where symbols come from.

    Raises ShapeConstraintError for an output whose size nothing decides."""
    late = late_symbols(function)
    used = set(call_symbols(function))
    for name, value in zip(function.output_names, function.outputs, strict=True):
        free = value.type.symbols() - used
        if free:
            raise ShapeConstraintError(
                f"the size of output {name!r} depends on data ({', '.join(sorted(free))})",
                hint="make the size part of the input shapes",
            )
    symbols = tuple(
        SymbolSpec(
            name, low, high, _source(late[name]) if name in late else "",
            (origins or {}).get(name, ""),
        )
        for name, (low, high) in function.symbols.items()
        if name in used
    )  # fmt: skip
    constraints = tuple(ConstraintSpec(str(c), c.origin or "model") for c in checked(function))
    return Signature(
        tuple(_spec(n, v.type) for n, v in zip(function.input_names, function.inputs)),
        tuple(_spec(n, v.type) for n, v in zip(function.output_names, function.outputs)),
        symbols,
        constraints,
        tuple(ConstraintSpec(str(c), c.origin or "model") for c in inner_checks(function)),
    )


def _source(binder: Op) -> str:
    """Where a late size comes from, in words."""
    what = binder.attrs.get("what") or "a size that is computed"
    return f"{what}, {binder.loc}" if str(binder.loc) else str(what)


def _spec(name: str, type: TensorType) -> TensorSpec:
    shape = tuple(d if isinstance(d, int) else str(d) for d in type.shape)
    return TensorSpec(name, type.dtype.name, shape)
