"""Tests of symbolic integers."""
