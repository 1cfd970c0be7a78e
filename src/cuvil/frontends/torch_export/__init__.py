"""PyTorch programs through torch.export."""

from cuvil.frontends.torch_export.capture import capture_torch

__all__ = ["capture_torch"]
