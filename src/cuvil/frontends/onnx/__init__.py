"""ONNX models as captured modules."""

from cuvil.frontends.onnx.capture import capture_onnx

__all__ = ["capture_onnx"]
