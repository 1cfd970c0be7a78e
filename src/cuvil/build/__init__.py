"""Compiler driver, object store, artifact cache."""
