"""Artifacts of other machines, run by their runners."""
