"""Small hand-written models, as code generation would hand them over."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuvil.build.library import build_library
from cuvil.codegen.abi import emit_abi
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.ir.types import DTYPES
from cuvil.options import Options
from cuvil.package.format import write_package
from cuvil.package.manifest import Manifest
from cuvil.target.native import native_target

WEIGHTS = np.arange(16, dtype=np.float32) - 3


@dataclass(frozen=True)
class Sample:
    manifest: Manifest
    code: str


def sample(
    name: str, signature: Signature, body: str, workspace: str = "0", weights: int = 0,
    **more: object,
) -> Sample:  # fmt: skip
    target = native_target()
    manifest = Manifest(
        name, signature, target.triple, target.mcpu, target.cpu_features, weights_bytes=weights,
        cuvil_version="0", **more,  # type: ignore[arg-type]
    )  # fmt: skip
    code = f"""#include "abi.hpp"
#include "threads.hpp"
namespace cuvil::model {{
int64_t workspace_bytes(const int64_t* s, int32_t threads) {{
  (void)s, (void)threads;
  return {workspace};
}}
void run(const RunContext& rc) {{
{body}
}}
}}  // namespace cuvil::model
"""
    return Sample(manifest, code)


def scale(**more: object) -> Sample:
    """y[batch, 8] = 2 * x + w"""
    return sample(
        "scale",
        Signature(
            (TensorSpec("x", "f32", ("batch", 8)),),
            (TensorSpec("y", "f32", ("batch", 8)),),
            (SymbolSpec("batch", 0, 64),),
        ),
        """  const float* x = static_cast<const float*>(rc.inputs[0]);
  const float* w = reinterpret_cast<const float*>(rc.weights);
  float* y = static_cast<float*>(rc.outputs[0]);
  for (int64_t i = 0; i < rc.symbols[0] * 8; ++i) y[i] = 2 * x[i] + w[i % 8];""",
        weights=WEIGHTS.nbytes,
        **more,
    )


def pair(**more: object) -> Sample:
    """rows[n] = sums of a[n, 2 * s + 1]; b2[s] = b[s] * 10; through the workspace and the pool.

    n * s <= 64, s != 5, n >= 1.
    """
    return sample(
        "pair",
        Signature(
            (TensorSpec("a", "f32", ("n", "2 * s + 1")), TensorSpec("b", "i64", ("s",))),
            (TensorSpec("rows", "f32", ("n",)), TensorSpec("b2", "i64", ("s",))),
            (SymbolSpec("n", 1, None), SymbolSpec("s", 0, 100)),
            (
                ConstraintSpec("n * s <= 64", "the user"),
                ConstraintSpec("s != 5", "slice at model.py:12"),
            ),
        ),
        """  const float* a = static_cast<const float*>(rc.inputs[0]);
  const int64_t* b = static_cast<const int64_t*>(rc.inputs[1]);
  float* rows = static_cast<float*>(rc.outputs[0]);
  int64_t* b2 = static_cast<int64_t*>(rc.outputs[1]);
  float* scratch = reinterpret_cast<float*>(rc.workspace);
  const int64_t n = rc.symbols[0], s = rc.symbols[1], width = 2 * s + 1;
  for (int64_t i = 0; i < n * width; ++i) scratch[i] = a[i];
  parallel_for(rc.pool, n, 1, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      float total = 0;
      for (int64_t j = 0; j < width; ++j) total += scratch[i * width + j];
      rows[i] = total;
    }
  });
  for (int64_t i = 0; i < s; ++i) b2[i] = b[i] * 10;""",
        workspace="(s[0] * (2 * s[1] + 1) * 4 + 63) / 64 * 64",
        **more,
    )


def lookup() -> Sample:
    """y[n] = w[i[n]] with 8 weights; an index outside is reported."""
    return sample(
        "lookup",
        Signature(
            (TensorSpec("i", "i64", ("n",)),), (TensorSpec("y", "f32", ("n",)),), (SymbolSpec("n"),)
        ),
        """  const int64_t* index = static_cast<const int64_t*>(rc.inputs[0]);
  for (int64_t i = 0; i < rc.symbols[0]; ++i) {
    const bool inside = index[i] >= 0 && index[i] < 8;
    if (!inside && rc.fault->size == 0) *rc.fault = {index[i], 8};
    const float* w = reinterpret_cast<const float*>(rc.weights);
    static_cast<float*>(rc.outputs[0])[i] = w[inside ? index[i] : 0];
  }""",
        weights=32,
    )


def copies() -> Sample:
    """One input and output of each dtype; outputs are the inputs' bytes."""
    specs = tuple(TensorSpec(f"in_{d}", d, ("n",)) for d in DTYPES)
    lines = [
        f"  for (int64_t i = 0; i < rc.symbols[0] * {d.size}; ++i) "
        f"static_cast<char*>(rc.outputs[{k}])[i] = static_cast<const char*>(rc.inputs[{k}])[i];"
        for k, d in enumerate(DTYPES.values())
    ]
    return sample(
        "copies",
        Signature(
            specs,
            tuple(TensorSpec(f"out_{d}", d, ("n",)) for d in DTYPES),
            (SymbolSpec("n"),),
        ),
        "\n".join(lines),
    )


@functools.cache
def cache_dir() -> Path:
    """Objects of this test process; made anew so that no older build is ever tested."""
    folder = tempfile.TemporaryDirectory(prefix="cuvil-test-")
    cache_dir.folder = folder  # type: ignore[attr-defined]  # removed when the process ends
    return Path(folder.name)


@functools.cache
def _library(manifest_text: str, code: str, tables: str) -> bytes:
    return build_library(
        {"tables": tables, "model": code}, native_target(), Options(cache_dir())
    )


def library(made: Sample) -> bytes:
    """The sample's library, built once a process."""
    return _library(made.manifest.name, made.code, emit_abi(made.manifest))


def package(made: Sample, folder: Path, name: str = "") -> Path:
    """Write the sample's package into the folder; its weights are WEIGHTS where it has any."""
    path = folder / f"{name or made.manifest.name}.cuvilpkg"
    size = made.manifest.weights_bytes
    weights = [(0, WEIGHTS[: size // 4])] if size else []
    write_package(path, made.manifest, library(made), weights, {"note": b"hello"}, sync=False)
    return path
