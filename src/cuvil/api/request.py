"""What the user asks for, brought into one form."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from cuvil.api.arguments import ARGUMENTS, OPTIONS, check_dims
from cuvil.api.tensors import check_tensors
from cuvil.errors import InputError, InvalidModelError
from cuvil.errors.arguments import check_all, is_list
from cuvil.errors.words import with_article
from cuvil.frontends.archives import holds_script
from cuvil.frontends.onnx_files import holds_onnx
from cuvil.sym.constraint import Constraint
from cuvil.sym.dim import Dim
from cuvil.sym.expr import symbols_of
from cuvil.sym.parse import asked_constraint, asked_dim

DTYPE_NAMES: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool", "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu", "f6e2m3fn": "float6_e2m3fn", "f6e3m2fn": "float6_e3m2fn",
    "f4e2m1fn": "float4_e2m1fn", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
}  # fmt: skip
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, functools.partial)
_DEFAULT_SIZE = 2
PICTURES = (".html", ".svg", ".json")
# What the targets write beside packages.
_BUILT = (".so", ".wasm", ".mjs", ".c", ".h", ".ll", ".weights")


@dataclass(frozen=True)
class CompileRequest:
    """The arguments of :func:`cuvil.compile`."""

    model: Any
    example_inputs: Any = None
    input_shape: Sequence[Any] | None = None
    input_spec: Sequence[Any] | None = None
    dynamic_dims: Any = None
    constraints: tuple[str, ...] = ()
    target: str = "native"
    precision: str = "f32"
    enable_fusion: bool = True
    verify: bool = True
    threads: int | None = None
    cache: bool = True
    profile: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_all(ARGUMENTS, vars(self))
        check_all(OPTIONS, self.options, "the option ")
        if self.picture is not None:
            check_picture(self.picture)
        check_tensors("example_inputs", self.example_inputs)
        _ = self.parsed_constraints
        given = [n for n in ("example_inputs", "input_shape", "input_spec")
                 if getattr(self, n) is not None]  # fmt: skip
        if len(given) > 1:
            raise InputError(f"give one of {' and '.join(given)}, not both")
        for name in self.options:
            if name not in OPTIONS:
                raise InputError(
                    f"there is no option {name!r}", hint=f"the options are {', '.join(OPTIONS)}"
                )
        if self.options.get("input_contents") and self.kind != "onnx":
            raise InputError("the option input_contents is for ONNX models")
        if self.options.get("fixed_inputs") and self.kind != "onnx":
            raise InputError(
                "the option fixed_inputs is for ONNX models",
                hint="bind the value in the module, with functools.partial or as an attribute",
            )

    @property
    def parsed_constraints(self) -> list[Constraint]:
        """The constraints. Raises InputError for a text that is none."""
        return [asked_constraint(text) for text in self.constraints]

    @property
    def picture(self) -> Path | None:
        """The file that ``profile`` names."""
        named = isinstance(self.profile, (str, os.PathLike))
        return Path(self.profile) if named else None

    @property
    def specs(self) -> list[tuple[str, str | None, tuple[Any, ...]]] | None:
        """(name, dtype name as NumPy has it, dims) of each input, if given as specs. A dtype that
        is left out (None) is the ONNX model's own, else float32."""
        if self.input_shape is not None:
            return [("x", None, check_dims("input_shape", self.input_shape))]
        if self.input_spec is None:
            return None
        out: list[tuple[str, str | None, tuple[Any, ...]]] = []
        for item in self.input_spec:
            if not isinstance(item, (tuple, list)) or len(item) != 3:
                raise InputError(f"input_spec holds {item!r}; expected (name, dtype, shape)")
            name, dtype, shape = item
            dims = check_dims(f"the shape of {name!r} in input_spec", shape)
            out.append((str(name), None if dtype is None else dtype_name(dtype), dims))
        return out

    @property
    def fixed_inputs(self) -> dict[str, np.ndarray[Any, Any] | None]:
        """Inputs of an ONNX model that become constants: name to value; None for an optional
        input that is left out."""
        given = self.options.get("fixed_inputs") or {}
        return {
            str(name): None if value is None else np.asarray(value)
            for name, value in given.items()
        }

    @property
    def kind(self) -> str:
        """ "torch" or "onnx". Raises InvalidModelError for anything else."""
        model = self.model
        if isinstance(model, (bytes, bytearray)):
            return "onnx"
        if isinstance(model, (str, os.PathLike)):
            return _kind_of_path(os.fspath(model))
        names = {f"{c.__module__}.{c.__name__}" for c in type(model).__mro__}
        if any(n.startswith("torch.") for n in names):
            return "torch"
        if any(n.endswith(".ModelProto") for n in names):
            return "onnx"
        raise InvalidModelError(
            f"don't know how to compile {with_article(_type_name(model))}",
            hint="pass an nn.Module, a function of tensors, an ExportedProgram, an ONNX model, or "
            "the path of one",
        )


def made_request(model: Any, given: Mapping[str, Any]) -> CompileRequest:
    """The request for a model with the arguments that were given, as users give them.

    Raises InputError for one that there isn't, or that can't be meant.
    """
    known = [f.name for f in fields(CompileRequest) if f.name != "model"]
    for name in given:
        if name not in known:
            raise InputError(
                f"there is no argument {name!r}", hint=f"those of compiling are {', '.join(known)}"
            )
    meant = {"options": {}, **{k: v for k, v in given.items() if k != "options" or v is not None}}
    if is_list(meant.get("constraints")):
        meant["constraints"] = tuple(meant["constraints"])
    return CompileRequest(model=_as_module(model), **meant)


def _as_module(model: Any) -> Any:
    """A function as a module that calls it, where PyTorch is installed; all else, and Python's own
    functions, as they are."""
    if not isinstance(model, _FUNCTIONS) or getattr(model, "__module__", "") == "builtins":
        return model
    if importlib.util.find_spec("torch") is None:
        return model
    from cuvil.frontends.torch_export.function import Function

    return Function(model)


def check_picture(path: Path) -> None:
    """Raise InputError for a file that no profile can be written to."""
    if path.suffix not in PICTURES:
        raise InputError(
            f"a profile can't be written as {path.name!r}", hint=f"end it in {', '.join(PICTURES)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")


def _type_name(value: object) -> str:
    kind = type(value)
    plain = kind.__module__ == "builtins"
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _kind_of_path(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".onnx", ".pb"):
        return "onnx"
    if suffix in (".pt2", ".jit", ".ts", ".torchscript"):
        return "torch"
    if suffix == ".cuvilpkg":
        raise InvalidModelError(f"{path} is compiled already", hint="use cuvil.load")
    if suffix not in _BUILT and holds_onnx(path):
        return "onnx"
    if suffix in (".pt", ".pth", ".bin", ".ckpt"):
        if holds_script(path):
            return "torch"
        raise InvalidModelError(
            f"{path} may hold a pickle, which Cuvil does not open",
            hint="load it in PyTorch and pass the module, or save it with torch.export.save",
        )
    if suffix in _BUILT:
        raise InvalidModelError(
            f"{path} is what a model was compiled to, not a model",
            hint="compile to a .cuvilpkg, which can be inspected, verified and run",
        )
    if suffix == ".py":
        raise InvalidModelError(
            f"{path} is Python source, which is imported by the name of what gives the model",
            hint=f"on the command line write {Path(path).stem}:NAME; in Python, pass the module",
        )
    raise InvalidModelError(
        f"{path} is no .onnx, .pt2 or TorchScript file", hint="check that it is a model, and whole"
    )


def dtype_name(dtype: Any) -> str:
    """torch.float32, numpy.float32, "f32" or "float32" to "float32"."""
    text = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    text = DTYPE_NAMES.get(text, text)
    if text not in DTYPE_NAMES.values():
        raise InputError(f"unknown dtype {dtype!r}", hint=f"use one of {sorted(DTYPE_NAMES)}")
    return text


def sizes_and_names(
    shape: Sequence[Any],
) -> tuple[tuple[int, ...], dict[int, Any]]:
    """A spec's dims as example sizes, and the dims that are symbolic by axis."""
    sizes, dynamic = [], {}
    for axis, dim in enumerate(shape):
        if type(dim) is int:
            sizes.append(dim)
            continue
        dynamic[axis] = dim
        sizes.append(_example_size(dim))
    return tuple(sizes), dynamic


def _example_size(dim: Any) -> int:
    if isinstance(dim, Dim):
        high = dim.max if dim.max is not None else _DEFAULT_SIZE
        return max(dim.min, min(_DEFAULT_SIZE, high))
    if isinstance(dim, str):
        parsed = asked_dim(dim)
        if not symbols_of(parsed):
            raise InputError(
                f"the dimension {dim!r} names nothing", hint="give a name, or a number as an int"
            )
        return _DEFAULT_SIZE
    return max(getattr(dim, "min", _DEFAULT_SIZE), _DEFAULT_SIZE)
