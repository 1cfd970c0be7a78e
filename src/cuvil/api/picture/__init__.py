"""Pictures of a compilation and of the kernels that it made."""
