"""Compiles for :mod:`iree_cpu`."""

from __future__ import annotations

from pathlib import Path

import onnx
from iree.compiler import tools
from iree.compiler.tools.import_onnx import __main__ as importer

from cuvil.integrations.bench.names import inputs_of, write_names

_FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3")
_OPSET = "17"  # what its importer has operators for; it converts the model


def build(path: str, threads: int, to: str) -> None:
    """Compile an .onnx file for this CPU."""
    text = Path(to).with_suffix(".mlir")
    importer.main(importer.parse_arguments([path, "-o", str(text), "--opset-version", _OPSET]))
    tools.compile_file(
        str(text),
        output_file=to,
        input_type="onnx",
        target_backends=["llvm-cpu"],
        extra_args=list(_FLAGS),
    )
    text.unlink()
    write_names(to, inputs_of(onnx.load(path, load_external_data=False).graph))
