"""Loads and calls an artifact; needs numpy alone."""
