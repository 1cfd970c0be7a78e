"""What a package says about itself: plain data, one canonical JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cuvil.errors import ArtifactError, InvalidModelError
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec

FORMAT_VERSION = 1
WEIGHTS_INSIDE = 64 << 10  # up to so many bytes of weights lie in a WebAssembly module itself
ABI_VERSION = 2  # of native/abi.h: a library of another version is not loaded

T = TypeVar("T")
_UPGRADE = "upgrade cuvil, or compile the model again with this version"


@dataclass(frozen=True)
class Manifest:
    """One package.

    ``target`` is the triple, ``cpu`` the compiler's name of the CPU, ``cpu_features`` what that
    CPU must have, as /proc/cpuinfo names it. ``threads`` is the default number, 0 for as many as
    the process may use. ``call`` tells how the flat inputs and outputs lie in the user's call
    (see runtime/tree.py; None: positional). ``source`` names the frontend, model and operators,
    ``tolerance`` what verification allowed. ``library_sha256`` and ``weights_hash64`` are hex
    text, filled in when the package is written; the library's own description has the latter.
    """

    name: str
    signature: Signature
    target: str
    cpu: str = ""
    cpu_features: tuple[str, ...] = ()
    threads: int = 0
    call: Mapping[str, Any] | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    weights_bytes: int = 0
    library_sha256: str = ""
    weights_hash64: str = ""
    cuvil_version: str = ""
    abi_version: int = ABI_VERSION
    format_version: int = FORMAT_VERSION

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.signature.outputs

    def with_contents(self, *, library_sha256: str, weights_hash64: str) -> Manifest:
        """The same with the digests of what the package holds."""
        return replace(self, library_sha256=library_sha256, weights_hash64=weights_hash64)

    def describe(self) -> str:
        """JSON text of what a C program may want to know; known before the library is built."""
        hidden = ("call", "extra", "library_sha256")
        return _dump({k: v for k, v in self._tree().items() if k not in hidden})

    def to_json(self) -> str:
        """Canonical JSON text: sorted keys, ASCII, no spaces."""
        return _dump(self._tree())

    def _tree(self) -> dict[str, Any]:
        signature = self.signature
        return {
            "format_version": self.format_version,
            "abi_version": self.abi_version,
            "cuvil_version": self.cuvil_version,
            "name": self.name,
            "target": self.target,
            "cpu": self.cpu,
            "cpu_features": list(self.cpu_features),
            "inputs": [_tensor_tree(t) for t in signature.inputs],
            "outputs": [_tensor_tree(t) for t in signature.outputs],
            "symbols": [_symbol_tree(s) for s in signature.symbols],
            "constraints": [{"text": c.text, "origin": c.origin} for c in signature.constraints],
            "checks": [{"text": c.text, "origin": c.origin} for c in signature.checks],
            "threads": self.threads,
            "call": None if self.call is None else dict(self.call),
            "source": dict(self.source),
            "tolerance": dict(self.tolerance),
            "extra": dict(self.extra),
            "weights_bytes": self.weights_bytes,
            "library_sha256": self.library_sha256,
            "weights_hash64": self.weights_hash64,
        }

    @staticmethod
    def from_json(text: str | bytes) -> Manifest:
        """The manifest that ``text`` says. Raises ArtifactError on anything else."""
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            raise ArtifactError("the manifest is not JSON") from None
        if not isinstance(tree, dict):
            raise ArtifactError("the manifest is not a JSON object")
        _check_versions(tree)
        manifest = _from_tree(tree)
        try:
            manifest.signature.check()
        except InvalidModelError as error:
            raise ArtifactError(f"the manifest contradicts itself: {error.message}") from None
        except RecursionError:
            raise ArtifactError("the manifest holds an expression that is too deep") from None
        return manifest


def _dump(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _tensor_tree(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _symbol_tree(spec: SymbolSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"name": spec.name, "min": spec.min, "max": spec.max}
    words = {"source": spec.source, "origin": spec.origin}
    return {**found, **{key: text for key, text in words.items() if text}}


def _check_versions(tree: Mapping[str, Any]) -> None:
    for key, known in (("format_version", FORMAT_VERSION), ("abi_version", ABI_VERSION)):
        given = tree.get(key)
        if given != known:
            words = key.replace("_", " ")
            raise ArtifactError(
                f"the package has {words} {given!r}; this cuvil reads {known}", hint=_UPGRADE
            )


class _Reader:
    """Typed access to one JSON object; every mismatch is an ArtifactError that names the key."""

    def __init__(self, tree: Any, place: str) -> None:
        if not isinstance(tree, dict):
            raise ArtifactError(f"the manifest's {place} is not an object")
        self.tree = tree
        self.place = place

    def _fail(self, key: str, expected: str) -> ArtifactError:
        return ArtifactError(f"the manifest's {self.place}.{key} is not {expected}")

    def text(self, key: str) -> str:
        value = self.tree.get(key)
        if not isinstance(value, str):
            raise self._fail(key, "text")
        return value

    def whole(self, key: str) -> int:
        value = self.tree.get(key)
        if type(value) is not int or value < 0:
            raise self._fail(key, "a whole number")
        return value

    def object(self, key: str) -> dict[str, Any]:
        value = self.tree.get(key)
        if not isinstance(value, dict):
            raise self._fail(key, "an object")
        return value

    def many(self, key: str, make: Callable[[_Reader], T]) -> tuple[T, ...]:
        value = self.tree.get(key)
        if not isinstance(value, list):
            raise self._fail(key, "a list")
        return tuple(make(_Reader(item, f"{self.place}.{key}")) for item in value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.tree.get(key)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self._fail(key, "a list of texts")
        return tuple(value)

    def shape(self, key: str) -> tuple[int | str, ...]:
        value = self.tree.get(key)
        if not isinstance(value, list) or not all(type(v) in (int, str) for v in value):
            raise self._fail(key, "a list of whole numbers and expressions")
        return tuple(value)


def _tensor(reader: _Reader) -> TensorSpec:
    return TensorSpec(reader.text("name"), reader.text("dtype"), reader.shape("shape"))


def _symbol(reader: _Reader) -> SymbolSpec:
    highest = None if reader.tree.get("max") is None else reader.whole("max")
    words = [reader.text(key) if key in reader.tree else "" for key in ("source", "origin")]
    return SymbolSpec(reader.text("name"), reader.whole("min"), highest, *words)


def _constraint(reader: _Reader) -> ConstraintSpec:
    return ConstraintSpec(reader.text("text"), reader.text("origin"))


def _from_tree(tree: dict[str, Any]) -> Manifest:
    top = _Reader(tree, "top")
    signature = Signature(
        top.many("inputs", _tensor),
        top.many("outputs", _tensor),
        top.many("symbols", _symbol),
        top.many("constraints", _constraint),
        top.many("checks", _constraint) if "checks" in tree else (),
    )
    return Manifest(
        name=top.text("name"),
        signature=signature,
        target=top.text("target"),
        cpu=top.text("cpu"),
        cpu_features=top.texts("cpu_features"),
        threads=top.whole("threads"),
        call=None if tree.get("call") is None else top.object("call"),
        source=top.object("source"),
        tolerance=top.object("tolerance"),
        extra=top.object("extra"),
        weights_bytes=top.whole("weights_bytes"),
        library_sha256=top.text("library_sha256"),
        weights_hash64=top.text("weights_hash64"),
        cuvil_version=top.text("cuvil_version"),
        abi_version=top.whole("abi_version"),
        format_version=top.whole("format_version"),
    )
