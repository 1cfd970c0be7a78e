"""OpenVINO in the precision that it chooses: bfloat16 on CPUs that have it."""

from __future__ import annotations

from cuvil.integrations.bench.ov import OpenVinoSession, load


def open(path: str, threads: int) -> OpenVinoSession:
    """Load an .onnx file on the CPU."""
    return load(path, threads)
