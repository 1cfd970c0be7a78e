"""Measures what the cost model decides otherwise, and keeps what was found."""
