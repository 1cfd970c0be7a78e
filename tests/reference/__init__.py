"""Tests of the reference interpreter."""
