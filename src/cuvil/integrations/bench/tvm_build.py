"""Compiles for :mod:`tvm_relax`."""

from __future__ import annotations

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from cuvil.integrations.bench.names import inputs_of, write_names


def build(path: str, threads: int, to: str) -> None:
    """Compile an .onnx file for this CPU."""
    cpu = str(tvm.get_global_func("target.llvm_get_system_cpu")())
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    model = onnx.load(path)
    module = from_onnx(model)
    with target, tvm.transform.PassContext(opt_level=3):
        relax.build(module, target=target).export_library(to)
    write_names(to, inputs_of(model.graph))
