"""Tests; helpers are imported as tests.<folder>.<file>."""
