"""Operators, one file a family: types, reference, cost and code of each."""
