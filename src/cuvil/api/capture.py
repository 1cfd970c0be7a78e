"""From a request to a captured module, and to the source that artifacts are checked against."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.analysis.footprint import check_sizes
from cuvil.api.manifest import ORIGINS, signature_of
from cuvil.api.onnx_arguments import dims_by_input, examples_by_name
from cuvil.api.request import DTYPE_NAMES, CompileRequest, sizes_and_names
from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module

log = logging.getLogger("cuvil")

Array = np.ndarray[Any, Any]


@dataclass
class Captured:
    """A captured module with the way to run its source on flat inputs by name.

    ``examples`` are the example inputs, flat by name, where there are any; ``origin`` is what was
    captured: an ONNX model as it was given (with ``fixed_inputs`` bound), or a TorchSource.
    ``settled`` runs a source that leaves positions of equal elements open, as a capture has them;
    ``exact`` one that rounds, in float64.
    """

    module: Module
    run: Callable[[Mapping[str, Array]], list[Array]]
    examples: dict[str, Array]
    origin: Any = None
    settled: Callable[[Mapping[str, Array]], list[Array]] | None = None
    exact: Callable[[Mapping[str, Array]], list[Array]] | None = None


def capture(request: CompileRequest) -> Captured:
    """Capture by kind of model. Raises InvalidModelError where its framework is not installed."""
    need_framework(request.kind)
    captured = _capture_torch(request) if request.kind == "torch" else _capture_onnx(request)
    if request.options.get("name") is not None:
        captured.module.name = request.options["name"]
    check_sizes(captured.module)
    if request.example_inputs is not None:
        _look_at_examples(captured)
    return captured


def _look_at_examples(captured: Captured) -> None:
    """Warn of example inputs that the artifact will refuse: other sizes stand for them."""
    main = captured.module.main
    if not captured.examples.keys() >= set(main.input_names):
        return  # strings, which are no inputs of the library
    signature = signature_of(main, captured.module.source.get(ORIGINS))
    try:
        signature.bind([np.shape(captured.examples[name]) for name in main.input_names])
    except ShapeConstraintError as error:
        log.warning(
            "the artifact will refuse the example inputs, so other sizes are tried: %s", error
        )


def need_framework(name: str) -> None:
    """Raise InvalidModelError unless the package is installed."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        raise InvalidModelError(
            f"reading this model needs the package {name}, which is not installed",
            hint=f'pip install "cuvil[{name}]"',
        )


def _capture_onnx(request: CompileRequest) -> Captured:
    from cuvil.frontends.onnx import capture_onnx
    from cuvil.frontends.onnx.fixed import bind_inputs

    shapes: dict[str, Any] = {}
    if request.specs is not None:
        shapes = {name: shape for name, _, shape in request.specs}
        if request.input_shape is not None:
            shapes = {_only_input(request.model): tuple(request.input_shape)}
    dynamic = dims_by_input(request.dynamic_dims)
    fixed = request.fixed_inputs
    asked = request.parsed_constraints
    contents = request.options.get("input_contents")
    module = capture_onnx(request.model, dynamic, asked, shapes, fixed, contents)
    _check_dtypes(module, request.specs or ())
    examples = examples_by_name(request.example_inputs, _names(module), fixed)
    reference = clone_module(module)
    run = functools.partial(run_module, reference)
    origin = bind_inputs(request.model, fixed) if fixed else request.model
    return Captured(module, run, examples, origin)


def _check_dtypes(module: Module, specs: Sequence[tuple[str, str | None, Any]]) -> None:
    """Raise InputError for a spec with another dtype than the model's input has."""
    types = dict(zip(module.main.input_names, module.main.inputs, strict=True))
    for name, dtype, _ in specs:
        if dtype is None or name not in types:
            continue
        own = str(types[name].type.dtype)
        if DTYPE_NAMES.get(own, own) != dtype:
            raise InputError(
                f"the spec of input {name!r} says {dtype}, the model's input is "
                f"{DTYPE_NAMES.get(own, own)}",
                hint="give the model's own dtype, or none; change it in the model",
            )


def _names(module: Module) -> list[str]:
    """The inputs in the order of a call, those of strings too."""
    host = module.call.get("host")
    return module.main.input_names if host is None else [i["name"] for i in host["inputs"]]


def _only_input(model: Any) -> str:
    from cuvil.frontends.onnx.load import load_model

    graph = load_model(model)[0].graph
    weights = {t.name for t in graph.initializer}
    names = [v.name for v in graph.input if v.name not in weights]
    if len(names) != 1:
        raise InputError(
            f"input_shape is for models of one input; this one has {len(names)}: {names}",
            hint="use input_spec=[(name, dtype, shape), ...]",
        )
    return str(names[0])


def _capture_torch(request: CompileRequest) -> Captured:
    from cuvil.frontends.torch_export import capture_torch
    from cuvil.frontends.torch_export.by_name import in_call_order
    from cuvil.frontends.torch_export.program import load_path
    from cuvil.frontends.torch_export.source import TorchSource, as_tensors

    model = request.model
    if isinstance(model, (str, os.PathLike)):
        model = load_path(os.fspath(model))
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    dynamic = request.dynamic_dims
    names = None
    if request.specs is not None:
        specs, as_keywords = request.specs, False
        if request.input_spec is not None:  # which has names that the user gave
            specs, as_keywords = in_call_order(model, specs)
            names = None if as_keywords else [name for name, _, _ in specs]
        if as_keywords:
            kwargs = {name: _zeros(dtype, shape) for name, dtype, shape in specs}
        else:
            args = tuple(_zeros(dtype, shape) for _, dtype, shape in specs)
        dynamic = _dims_of_specs(specs, dynamic)
    elif isinstance(request.example_inputs, Mapping):
        kwargs = as_tensors(dict(request.example_inputs))
    elif request.example_inputs is not None:
        values = request.example_inputs
        args = as_tensors(tuple(values) if isinstance(values, (tuple, list)) else (values,))
    module = capture_torch(model, args, kwargs, dynamic, request.parsed_constraints, names)
    outputs = module.call.get("output_tree")
    checked = bool(module.source.get("unchecked"))
    source = TorchSource(model, args, kwargs, module.main.input_names, outputs, checked)
    return Captured(module, source.run, source.examples, source, source.settled, source.exact)


def _zeros(dtype: str | None, shape: Sequence[Any]) -> Any:
    """An example of such an input, with some size for each name."""
    from cuvil.frontends.torch_export.source import zeros

    return zeros(sizes_and_names(shape)[0], dtype or "float32")


def _dims_of_specs(specs: Sequence[tuple[str, str | None, Any]], dynamic: Any) -> Any:
    """``dynamic``, or the names in the specs' shapes, an entry an input."""
    axes = [sizes_and_names(shape)[1] for _, _, shape in specs]
    if not any(axes):
        return dynamic
    if dynamic is not None:
        raise InputError(
            "some dims have names in the shapes, and dynamic_dims (--dynamic) is given as well",
            hint="use one of the two; a dim that is named in a shape is bounded by a constraint: "
            '"h <= 64"',
        )
    return axes
