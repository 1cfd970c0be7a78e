"""Frozen descriptions of machines: features, widths, register tiles. Data, no behaviour."""
