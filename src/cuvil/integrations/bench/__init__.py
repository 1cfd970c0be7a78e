"""Measures an artifact beside other runtimes. One file a peer; a peer may be missing."""
