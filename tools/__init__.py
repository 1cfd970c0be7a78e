"""Tools for those who work on Cuvil."""
