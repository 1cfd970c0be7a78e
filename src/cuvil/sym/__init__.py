"""Symbolic integers: expressions, bounds, constraints."""
