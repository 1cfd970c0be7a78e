"""Targets that are no library for this process."""
