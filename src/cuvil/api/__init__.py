"""Compile, load, verify: the public face, and the only room that knows every level.

The rooms that need a framework are imported where they are used, so that a machine that only runs
artifacts needs none of them.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from cuvil.api.compiler import Compiler
from cuvil.api.progress import Progress
from cuvil.api.request import made_request
from cuvil.api.several import compiler_for
from cuvil.api.verification import verify_artifact
from cuvil.api.views import operators, stage_text
from cuvil.errors import InputError
from cuvil.errors.arguments import FLAG, PATH
from cuvil.ops.custom import CUSTOM, make_custom
from cuvil.options import Options
from cuvil.runtime.artifact import Artifact
from cuvil.tune.serving import load as load
from cuvil.verify.report import Report

_OMITTED: Any = object()


def compile(
    model: Any = _OMITTED,
    example_inputs: Any = None,
    input_shape: Sequence[Any] | None = None,
    input_spec: Sequence[Any] | None = None,
    dynamic_dims: Any = None,
    constraints: Sequence[str] = (),
    target: str | Sequence[str] = "native",
    precision: str = "f32",
    enable_fusion: bool = True,
    verify: bool = True,
    threads: int | None = None,
    cache: bool = True,
    profile: str | os.PathLike[str] | bool | Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a model to a native artifact, check it against the model, and load it.

    ``model``: nn.Module, a function of tensors, ExportedProgram, an ONNX ModelProto or its bytes,
    or the path of an .onnx or .pt2 file. ``example_inputs``: a tuple of arguments or a dict of
    keyword arguments (ONNX: by input name); or ``input_shape`` for one float32 input; or
    ``input_spec``, a list of (name, dtype, shape). ``dynamic_dims`` names the dims that stay
    symbolic. ``constraints`` are texts such as ``"seq % 8 == 0"``. ``target`` is a name of `cuvil
    targets`, or a list of names or "all-available" for a package that holds several
    (``compiled.left_out`` says what isn't in it, and why). ``precision`` is "f32" or "bf16".
    ``options`` may hold "fixed_inputs", values by name of an ONNX model's inputs that decide
    shapes, which leave the call; "input_contents", the shapes of the tensors in inputs that are
    sequences or optional (None for an optional without a value); "name", the model's; "opt_level",
    "jobs" (compilers at once), "fuel" (rewrites at most), "winograd" and "chains" (False: no
    minimal filtering in convolutions, none row by row with neighbours), "profile" (clocks, so that
    no model is needed), "tune" (docs/howto/tune.md), "variants", "retune" (docs/howto/dynamic.md).

    ``profile`` names a file that gets the compilation's profile and the model's: as a page with a
    heat map of the kernels (.html), the heat map alone (.svg), or a Chrome trace of the compilation
    (.json). Such a compilation builds anew. A function is called with (stage, None) when a stage
    begins, (stage, seconds) when it ends. ``compile_seconds`` has the stages in any case.

    Without a model it returns a decorator, for a module or for a class (or function) that makes
    one: ``@cuvil.compile(input_shape=(1, 16))`` over a class makes its calls give artifacts.

    Raises InputError, InvalidModelError, UnsupportedOpError, ShapeConstraintError, TargetError or
    VerificationError.
    """
    arguments = {
        "example_inputs": example_inputs,
        "input_shape": input_shape,
        "input_spec": input_spec,
        "dynamic_dims": dynamic_dims,
        "constraints": constraints,
        "precision": precision,
        "enable_fusion": enable_fusion,
        "verify": verify,
        "threads": threads,
        "cache": cache,
        "profile": profile,
        "options": options,
    }
    if model is _OMITTED:
        return lambda decorated: _decorated(decorated, target, arguments)
    return compiler_for(made_request(model, arguments), target).run()


def _decorated(model: Any, target: str | Sequence[str], arguments: Mapping[str, Any]) -> Any:
    """A class or function gives a factory of artifacts; anything else is compiled at once."""
    if not isinstance(model, (type, FunctionType)):
        return compiler_for(made_request(model, arguments), target).run()

    @functools.wraps(model, updated=())
    def factory(*args: Any, **kwargs: Any) -> Any:
        made = model(*args, **kwargs)
        return compiler_for(made_request(made, arguments), target).run()

    return factory


def verify(
    compiled: Artifact,
    inputs: Any = None,
    atol: float | None = None,
    rtol: float | None = None,
    layerwise: bool = False,
    paths: bool = False,
) -> Report:
    """Run an artifact and its source on ``inputs`` and compare.

    ``inputs`` as for compiling; None makes some for a spread of shapes. An element passes when it
    differs by at most ``atol`` times the output's largest magnitude plus ``rtol`` times its own;
    None takes 1e-5 and 1e-3, or 4e-3 each for a model that computes in f16, 3e-2 each in bf16,
    and also allow what rounding alone does to ill-conditioned inputs (the report says where).
    ``layerwise`` also compares each kernel with the reference on the inputs it got, for which the
    model is built once more with all kernels' results as outputs. ``paths`` counts which way
    branches and loops go, in the reference and in a build that counts (docs/howto/dynamic.md);
    without ``inputs``, some are sought that lead every possible way. Raises InputError if the
    artifact was loaded without its source.
    """
    return verify_artifact(compiled, inputs, atol, rtol, layerwise, paths)


def dump_ir(model: Any, stage: str = "canonical", **compile_arguments: Any) -> str:
    """The text of a model at a stage: "captured", "canonical", "fused", "planned", "cxx", "llvm"
    (for the target), "mlir" (captured, without places), or "dot" (the kernels as a graph;
    "dot:canonical" the operators).

    ``compile_arguments`` are those of :func:`compile` that shape the capture.
    """
    return stage_text(Compiler(made_request(model, compile_arguments)), stage)


def debug_trace(
    model: Any,
    inputs: Any = None,
    path: str | os.PathLike[str] | None = "operator_registry.json",
    **compile_arguments: Any,
) -> dict[str, Any]:
    """Which operators a model holds, how often and how each will be run, and what is missing.

    The result is plain data: ``supported``; ``operators`` with name, source operators, dtypes,
    count, how; ``kernels``; ``unsupported`` with op, dtype, place, reason and a way round.
    The file ``path`` gets it as JSON; None writes none.
    """
    PATH.optional("path", path)
    request = made_request(model, {"example_inputs": inputs, **compile_arguments})
    table = operators(Compiler(request))
    if path is not None:
        _write(Path(path), json.dumps(table, indent=1) + "\n")
    return table


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}",
            hint="give the path of a file in a folder that is there, or path=None",
        ) from None


def register_op(
    name: str,
    *,
    shape: Callable[..., Any] | None = None,
    attrs: Mapping[str, str] | None = None,
    cxx: str | None = None,
    function: str | None = None,
    fusion: str = "kernel",
    compose: Callable[..., Any] | None = None,
    python: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    tolerance: str = "close",
    replace: bool = False,
) -> None:
    """Teach this process an operator: ``ns::op`` of torch.library, ``domain::OpType`` of ONNX, or
    ``OpType`` alone of ONNX's own domain.

    Give one implementation:

    - ``cxx``: source text that is compiled into the artifact and defines ``function`` (by default
      the name's last part). With ``fusion="map"`` it computes one element,
      ``float f(float x, ...)``, and fuses with its neighbours; with ``fusion="kernel"`` it computes
      whole tensors, ``void f(const cuvil::Tensor* in, const cuvil::Tensor* out, ...)``
      (docs/howto/custom-operators.md). There is no C or C++ library; "math.hpp" has functions.
    - ``compose``: a function from tensors to tensors that is written with other operators.
    - ``python``: a function over NumPy arrays, called in this process; such an artifact can't be
      saved.

    ``shape`` maps input types (``.shape``, ``.dtype``) and attributes to ``(shape, dtype)`` or a
    list of such; a map needs none (operands broadcast, the first one's dtype), nor does an
    operator of torch that has a fake implementation. ``attrs`` maps attribute names to "bool",
    "int", "ints", "float", "floats" or "str"; they are passed after the tensors, in this order.
    ``reference`` is a function over NumPy arrays that says what ``cxx`` computes; verifying an ONNX
    model needs it. ``tolerance`` is "exact", "close" or "accumulated". An operator that Cuvil has
    is not replaced. Raises InputError for a registration that contradicts itself.
    """
    made = make_custom(
        name, shape, {} if attrs is None else attrs, cxx, function, fusion, compose, python,
        reference, tolerance,
    )  # fmt: skip
    FLAG("replace", replace)
    CUSTOM.add(made, replace)


def clear_cache() -> int:
    """Empty the compile cache of this user; returns the bytes freed."""
    from cuvil.build.cache import Cache

    return Cache(Options.from_environment().cache_dir).clear()
