"""A model for WebAssembly as files: modules, weights, a loader in JavaScript, its types."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cuvil.errors import TargetError
from cuvil.ir.signature import TensorSpec
from cuvil.ir.types import dlpack_code
from cuvil.package.format import Package
from cuvil.package.manifest import WEIGHTS_INSIDE, Manifest

WEB = Path(__file__).resolve().parent.parent / "web"
# The loader's pieces, in order: a saved loader is one file.
_PIECES = ("head", "options", "model", "inputs", "fetching", "workers")
_PLACE = "const MODEL = null; // @MODEL@"
_ARRAYS: Mapping[str, str] = {
    "f64": "Float64Array", "f32": "Float32Array", "f16": "Uint16Array", "bf16": "Uint16Array",
    "i64": "BigInt64Array", "i32": "Int32Array", "i16": "Int16Array", "i8": "Int8Array",
    "u64": "BigUint64Array", "u32": "Uint32Array", "u16": "Uint16Array",
}  # fmt: skip
_PART = ".wasm"


def web_files(package: Package, path: Path) -> list[tuple[Path, Iterable[Any]]]:
    """The files of a package for a path ``m.wasm``: that module, ``m.relaxed.wasm`` and the other
    variants, ``m.weights`` (unless they are in the modules), ``m.mjs`` and ``m.d.mts``.

    Raises TargetError for a model with steps that run in Python.
    """
    refuse_host_steps(package.manifest)
    modules = {"": package.library} | {
        name.removesuffix(_PART): data for name, data in sorted(package.parts.items())
    }
    places = {
        variant: path.with_suffix(f".{variant}{_PART}") if variant else path for variant in modules
    }
    files: list[tuple[Path, Iterable[Any]]] = [(places[v], [d]) for v, d in modules.items()]
    outside = package.weights.size > WEIGHTS_INSIDE
    weights = path.with_suffix(".weights")
    if outside:
        files.append((weights, [package.weights.data]))
    described = _describe(package.manifest, weights.name if outside else None) | {
        "modules": {
            variant: _describe_module(places[variant].name, data)
            for variant, data in modules.items()
        },
        "loader": path.with_suffix(".mjs").name,
    }
    files.append((path.with_suffix(".mjs"), [_loader(described).encode()]))
    files.append((path.with_suffix(".d.mts"), [_types(package.manifest).encode()]))
    return files


def refuse_host_steps(manifest: Manifest) -> None:
    """Raise TargetError for a model of which some steps run in Python."""
    if "host" in manifest.extra or "host_functions" in manifest.extra:
        raise TargetError(
            f"{manifest.name} has steps that run in Python, which a WebAssembly module has not",
            hint="leave out operators on text, and custom operators that are Python functions",
        )


def _describe(manifest: Manifest, weights: str | None) -> dict[str, Any]:
    signature = manifest.signature

    def tensor(spec: TensorSpec) -> dict[str, Any]:
        found = {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
        late = {"late": True} if signature.is_late(spec) else {}
        return found | {"code": dlpack_code(spec.element), "bits": spec.element.bits} | late

    return {
        "name": manifest.name,
        "inputs": [tensor(spec) for spec in signature.inputs],
        "outputs": [tensor(spec) for spec in signature.outputs],
        "weights": {
            "file": weights, "bytes": manifest.weights_bytes, "hash": manifest.weights_hash64
        },
    }  # fmt: skip


def _describe_module(file: str, data: bytes) -> dict[str, Any]:
    """``hash`` is SHA-256 as a browser's fetch takes it (W3C Subresource Integrity)."""
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    return {"file": file, "bytes": len(data), "hash": digest, "pages": _pages(data)}


def _loader(described: Mapping[str, Any]) -> str:
    text = "\n".join((WEB / "loader" / f"{piece}.mjs").read_text() for piece in _PIECES)
    # What JSON may hold and JavaScript's text may not is escaped in ASCII.
    return text.replace(_PLACE, f"const MODEL = {json.dumps(described, sort_keys=True)};")


def _types(manifest: Manifest) -> str:
    def array(spec: TensorSpec) -> str:
        return _ARRAYS.get(spec.dtype, "Uint8Array")

    def members(specs: Iterable[TensorSpec], form: str) -> str:
        return "".join(
            f"  /** {spec.dtype}[{', '.join(str(d) for d in spec.shape)}] */\n"
            f"  {json.dumps(spec.name)}: {form.format(array(spec))};\n"
            for spec in specs
        )

    text = (WEB / "types.d.mts").read_text()
    text = text.replace("  // @INPUTS@\n", members(manifest.inputs, "Input<{}>"))
    return text.replace("  // @OUTPUTS@\n", members(manifest.outputs, "Tensor<{}>"))


def _pages(module: bytes) -> int:
    """The least pages of memory that a module imports; 0 if it brings its own."""
    reader = _Reader(module, 8)
    while reader.at < len(module):
        kind, size = reader.byte(), reader.number()
        if kind != _IMPORTS:
            reader.at += size
            continue
        for _ in range(reader.number()):
            reader.skip_text()
            reader.skip_text()
            found = reader.byte()
            if found == _MEMORY:
                reader.byte()  # flags
                return reader.number()
            assert found == _FUNCTION, "modules import functions and memory only"
            reader.number()
    return 0


_IMPORTS, _FUNCTION, _MEMORY = 2, 0, 2  # of the binary format, sections 5.5.2 and 5.5.5


class _Reader:
    """Reads the binary format of WebAssembly."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """An unsigned LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_text(self) -> None:
        size = self.number()
        self.at += size
