"""From a module to an ONNX model."""

from cuvil.frontends.onnx_export.model import Exported, export_module
from cuvil.frontends.onnx_export.tables import unsupported_ops

__all__ = ["Exported", "export_module", "unsupported_ops"]
