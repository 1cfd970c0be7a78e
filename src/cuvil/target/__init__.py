"""Descriptions of machines: data, no behaviour."""
