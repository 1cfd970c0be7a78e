"""The version, in one place for the package, its artifacts and its cache keys."""

__version__ = "0.1.0"
