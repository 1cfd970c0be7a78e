"""An artifact from the cache on the example values that it was not verified on yet."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.api.request import CompileRequest
from cuvil.build.cache import Cache
from cuvil.build.store import digest_of
from cuvil.runners.built import Built
from cuvil.runtime.arrays import is_torch_tensor
from cuvil.runtime.artifact import Artifact
from cuvil.verify.report import compare
from cuvil.verify.tolerance import tolerance_among

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
log = logging.getLogger("cuvil")


def values_digest(examples: Any) -> str:
    """A digest of the values of example inputs; a new one each time where they can't be told."""
    return digest_of(_texts(examples))


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for key in value for text in (repr(key), *_texts(value[key]), ".")]
    if isinstance(value, (tuple, list)):
        return [text for item in value for text in (*_texts(item), ".")]
    if is_torch_tensor(value):
        from cuvil.frontends.torch_export.fingerprint import data_digest

        return [f"{value.dtype} {tuple(value.shape)}", data_digest(value).hex()]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return [f"{value.dtype} {value.shape}", hashlib.sha256(data.data).hexdigest()]
    return [repr(value) if isinstance(value, _PLAIN) else os.urandom(16).hex()]


def known_right(
    artifact: Artifact | Built, request: CompileRequest, cache: Cache, key: str
) -> bool:
    """Whether an artifact that the quick ``key`` stands for is right on the request's examples: by
    what the cache has noted, or by one call of the model and of the artifact. Where it isn't, or
    where a call needs a capture, all that judges a build has to tell.
    """
    if not request.verify or request.example_inputs is None:
        return True
    digest, before = values_digest(request.example_inputs), cache.checked(key)
    if digest in before:
        return True
    try:
        right = request.kind == "torch" and _agrees(artifact, request)
    except Exception as error:  # whatever a model's own code raises: the capture says it in full
        log.info("the model can't be run on the new example values: %s", error)
        right = False
    if right:
        log.info("from the cache, and right on the new example values")
        cache.set_checked(key, [*before, digest])
    return right


def _agrees(artifact: Artifact | Built, request: CompileRequest) -> bool:
    """One call of a PyTorch module and of its artifact."""
    from cuvil.frontends.torch_export.source import TorchSource, as_tensors

    given = request.example_inputs
    if isinstance(request.model, (str, os.PathLike)):
        return False
    args, kwargs = ((), given) if isinstance(given, Mapping) else (given, {})
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    manifest = artifact.manifest
    names = [spec.name for spec in manifest.inputs]
    call = manifest.call or {}
    source = TorchSource(
        request.model, as_tensors(args), as_tensors(dict(kwargs)), names, call.get("outputs")
    )
    if set(source.examples) != set(names):
        return False
    inputs = {name: array.copy() for name, array in source.examples.items()}
    expected = source.run({name: array.copy() for name, array in inputs.items()})
    outputs = artifact.native.run(inputs)
    names = [spec.name for spec in artifact.native.outputs]
    # All that is known of what it computes in without a capture; the rest would allow more.
    computed = {spec.element.name for spec in manifest.outputs} | {request.precision}
    allowed = tolerance_among(computed)
    errors = compare(names, expected, [outputs[name] for name in names], *allowed)
    return all(error.passed for error in errors)
