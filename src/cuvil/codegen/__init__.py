"""From fused regions to C++ text."""
