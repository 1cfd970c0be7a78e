"""Tests of the graph and its text."""
