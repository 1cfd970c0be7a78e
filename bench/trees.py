"""Ensembles of 500 trees beside onnxruntime, one row and a thousand.

``python bench/trees.py [--seconds S] [--threads N ...] [--trees T]``

Both take turns in one process, on rows that change from call to call. Exits with 1 when an
ensemble is slower than onnxruntime, or gives another result.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import cuvil  # noqa: E402
from cuvil.integrations.bench.measure import interleaved  # noqa: E402

FEATURES = 30
BATCHES = (1, 8, 100, 1000)
# name: rows a tree is grown on, rows that a leaf keeps at most, deepest leaf, classes (0: a number)
ENSEMBLES = {
    "boosted, depth 6": (4000, 8, 6, 0),
    "forest": (1500, 3, 40, 0),
    "classes": (2000, 12, 12, 5),
}
Rng = np.random.Generator


class _Tree:
    """One tree grown on random rows: each branch splits its rows at a random one of the middle."""

    def __init__(self, rng: Rng, rows: int, keep: int, depth: int) -> None:
        self.rng, self.keep, self.depth = rng, keep, depth
        self.nodes: list[tuple[int, float, int, int, bool]] = []
        self._grow(rng.standard_normal((rows, FEATURES)).astype(np.float32), 0)

    def _grow(self, rows: Any, level: int) -> int:
        at = len(self.nodes)
        self.nodes.append((0, 0.0, 0, 0, True))
        if len(rows) <= self.keep or level == self.depth:
            return at
        feature = int(self.rng.integers(FEATURES))
        column = rows[:, feature]
        threshold = float(np.quantile(column, self.rng.uniform(0.2, 0.8)))
        left = self._grow(rows[column <= threshold], level + 1)
        right = self._grow(rows[column > threshold], level + 1)
        self.nodes[at] = (feature, threshold, left, right, False)
        return at


def ensemble(name: str, trees: int, seed: int = 0) -> onnx.ModelProto:
    """A model of one ensemble with weights of about 1 over the number of trees."""
    rows, keep, depth, classes = ENSEMBLES[name]
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {}
    for tree in range(trees):
        for i, (feature, value, true, false, leaf) in enumerate(
            _Tree(rng, rows, keep, depth).nodes
        ):
            row = {
                "nodes_treeids": tree, "nodes_nodeids": i, "nodes_featureids": feature,
                "nodes_values": value, "nodes_truenodeids": true, "nodes_falsenodeids": false,
                "nodes_modes": "LEAF" if leaf else "BRANCH_LEQ",
            }  # fmt: skip
            for key, item in row.items():
                columns.setdefault(key, []).append(item)
            kind = "class" if classes else "target"
            for target in range(max(classes, 1)) if leaf else ():
                weight = float(rng.uniform(0, 1)) / trees
                parts = zip(("treeids", "nodeids", "ids", "weights"), (tree, i, target, weight))
                for key, item in parts:
                    columns.setdefault(f"{kind}_{key}", []).append(item)
    op, outputs = ("TreeEnsembleClassifier", ["label", "y"]) if classes else (
        "TreeEnsembleRegressor", ["y"]
    )
    more = {"classlabels_int64s": list(range(classes))} if classes else {"n_targets": 1}
    node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **columns, **more)
    kinds = [TensorProto.INT64, TensorProto.FLOAT] if classes else [TensorProto.FLOAT]
    infos = [helper.make_tensor_value_info(o, k, None) for o, k in zip(outputs, kinds)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FEATURES])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "trees", [x], infos)
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def _rotating(inputs: list[Any], run: Callable[[Any], Any]) -> Callable[[], Any]:
    turn = itertools.cycle(inputs)
    return lambda: run(next(turn))


def _compare(name: str, model: onnx.ModelProto, threads: int, seconds: float) -> bool:
    """Print a line a batch; whether all was right and no slower."""
    start = time.monotonic()
    artifact = cuvil.compile(model, threads=threads)
    spent = time.monotonic() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    rng, good = np.random.default_rng(1), True
    for batch in BATCHES:
        inputs = [
            rng.standard_normal((batch, FEATURES)).astype(np.float32)
            for _ in range(max(4, 256 // batch))
        ]
        times = interleaved(
            {
                "cuvil": _rotating(inputs, artifact),
                "ort": _rotating(inputs, lambda x: session.run(None, {"x": x})),
            },
            seconds,
        )
        error = max(
            float(np.abs(artifact.run({"x": x})["y"] - session.run(["y"], {"x": x})[0]).max())
            for x in inputs[:4]
        )
        ours, theirs = times["cuvil"], times["ort"]
        ratio = ours.median / theirs.median
        good &= ratio <= 1 and error < 1e-4
        print(
            f"{name:18s} threads {threads}  batch {batch:5d}  cuvil {ours.median * 1e6:9.1f} us "
            f"(min {ours.min * 1e6:9.1f})  ort {theirs.median * 1e6:9.1f} us "
            f"(min {theirs.min * 1e6:9.1f})  ratio {ratio:5.2f}  error {error:.0e}  "
            f"compile {spent:.1f} s",
            flush=True,
        )
    return good


def main() -> int:
    """Print a line an ensemble, number of threads and batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line and side")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--only", nargs="*", default=list(ENSEMBLES))
    arguments = parser.parse_args()
    good = True
    for name in arguments.only:
        model = ensemble(name, arguments.trees)
        for threads in arguments.threads:
            good &= _compare(name, model, threads, arguments.seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
