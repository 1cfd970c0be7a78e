"""Runtimes that read ONNX: no machine is known, and the runtime lays out and threads itself."""

from __future__ import annotations

from cuvil.target.base import Target

ONNX = Target("onnx", "onnx", "", "", vec_bytes=16, mr=4, nr=8, has_threads=False, kind="onnx")
