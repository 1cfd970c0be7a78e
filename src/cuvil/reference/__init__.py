"""The interpreter that defines what a module computes."""
