"""An ONNX model to a verified artifact, and to a library for C programs.

    python examples/compile_onnx.py [FOLDER [MODEL]]

Writes to the folder, or to a temporary one that it names. Makes a small model to start from; give
the path of your own as the second argument.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import cuvil


def small_model() -> onnx.ModelProto:
    """f32[n, 8] to four probabilities each: two layers."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((8, 16), np.float32),
        "b1": rng.standard_normal(16, np.float32),
        "w2": rng.standard_normal((16, 4), np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def main(folder: Path, path: Path | None = None) -> None:
    """Write model.cuvilpkg, and model.so with its weights and header, to ``folder``."""
    if path is None:
        path = folder / "small.onnx"
        onnx.save(small_model(), path)
    compiled = cuvil.compile(path)
    print(compiled)
    print(cuvil.verify(compiled))
    for name in ("model.cuvilpkg", "model.so"):
        for written in compiled.save(folder / name):
            print(f"{written}: {written.stat().st_size} bytes")


if __name__ == "__main__":
    given = [Path(a) for a in sys.argv[1:]]
    folder = given[0] if given else Path(tempfile.mkdtemp(prefix="cuvil-"))
    main(folder, given[1] if len(given) > 1 else None)
