"""What an artifact depends on, as keys of the compile cache.

The artifact's own key needs the captured graph. The quick key is made of the model before it is
captured, and stands for an artifact's key; where the model can't be told, there is none.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.api.request import CompileRequest
from cuvil.api.tuning import tuning_asked, tuning_key
from cuvil.api.variants import AUTO
from cuvil.build.driver import compiler_version
from cuvil.build.store import digest_of
from cuvil.ir.core import Module, Weight
from cuvil.ir.printer import print_module
from cuvil.ops.custom import CUSTOM
from cuvil.options import Options
from cuvil.runtime.cpu import usable_threads
from cuvil.target.base import Target
from cuvil.version import __version__

log = logging.getLogger("cuvil")

_SOURCES = (".py", ".hpp", ".cpp", ".h", ".c")


def artifact_key(
    module: Module, request: CompileRequest, target: Target, options: Options
) -> str:
    """Graph, weights, how they are called, and everything of :func:`build_parts`."""
    call = repr(sorted(module.call.items())) if module.call else ""
    text = print_module(module, locations=False)
    return digest_of([text, call, *build_parts(request, target, options)])


def quick_key(request: CompileRequest, target: Target, options: Options) -> str | None:
    """A key that needs no capture, or None where something about the model can't be told."""
    from cuvil.frontends.object_digest import Unknown

    try:
        model = _fingerprint(request)
        functions = _custom_functions()
    except Unknown as error:
        log.info("the model must be captured to be found in the cache: %s", error)
        return None
    return digest_of(["quick", model, functions, *build_parts(request, target, options)])


def _digest(value: np.ndarray[Any, Any] | None) -> str:
    return "left out" if value is None else Weight(value).digest


def _custom_functions() -> str:
    """A digest of the functions by which registered operators shape a captured graph, and of
    those that an artifact is verified against."""
    from cuvil.frontends.code_digest import LoadedCode
    from cuvil.frontends.object_digest import ObjectDigest

    digest = ObjectDigest(LoadedCode())
    for op in CUSTOM:
        digest.add((op.name, op.shape, op.compose, op.python is not None, op.reference), op.name)
    return digest.hexdigest()


def _fingerprint(request: CompileRequest) -> str:
    asked = (
        request.input_shape, request.input_spec, request.dynamic_dims, request.constraints,
        request.precision,
    )  # fmt: skip
    examples = request.example_inputs
    if request.kind == "onnx":
        from cuvil.frontends.onnx.fingerprint import fingerprint as of_onnx

        return of_onnx(request.model, *asked, examples)
    from cuvil.frontends.torch_export.fingerprint import fingerprint as of_torch

    if isinstance(examples, Mapping):
        return of_torch(request.model, (), dict(examples), *asked)
    several = isinstance(examples, (tuple, list))
    return of_torch(request.model, examples if several else (examples,), {}, *asked)


def build_parts(request: CompileRequest, target: Target, options: Options) -> list[str]:
    """Options, target and versions: what decides an artifact besides the model."""
    plain = {k: v for k, v in request.options.items() if k != "fixed_inputs"}
    if plain.get("tune") is not None:
        plain["tune"] = tuning_key(plain["tune"], request.threads or usable_threads())
    if plain.get("variants") == AUTO:  # what is measured is of this machine
        plain["variants"] = tuning_key(1.0, request.threads or usable_threads())
    if isinstance(tuning_asked(request.options.get("tune")), float) or "variants" in plain:
        plain["measured at"] = _shapes(request.example_inputs)
    return [
        repr(target),
        repr((request.enable_fusion, request.precision, sorted(plain.items()))),
        *(f"{k} {_digest(v)}" for k, v in sorted(request.fixed_inputs.items())),
        repr((request.verify, options.opt_level)),
        *(f"{op.name} {op.digest}" for op in CUSTOM),
        __version__,
        compiler_version(),
        _LOADED,
    ]


def _shapes(examples: Any) -> str:
    """The shapes of example inputs, as text: what is measured is so at these sizes."""
    if isinstance(examples, Mapping):
        return repr([(str(name), _shapes(value)) for name, value in examples.items()])
    if isinstance(examples, (tuple, list)):
        return repr([_shapes(value) for value in examples])
    return repr(tuple(getattr(examples, "shape", ())))


def package_digest() -> str:
    """A digest of Cuvil's own sources."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in _SOURCES):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def loaded_version() -> str:
    """A digest that changes whenever the code that this process generates may."""
    return _LOADED


# Of the sources as they are when this process loads them: they may be edited while it runs.
_LOADED = package_digest()
