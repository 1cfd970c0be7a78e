"""Tests of the operators: type rules and references."""
