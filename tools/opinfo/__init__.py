"""PyTorch's own database of operators and sample inputs, held against Cuvil."""
